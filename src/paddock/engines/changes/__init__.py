"""Change sets: made of an overlay of the workspace, shown as a difference, and accepted into the workspace.

    opening     how a program gets its overlay
    capture     what it changed in it, as a change set
    tree        what is at a path of the workspace, and the few calls that change it, all below its descriptor
    plan        which changes are taken, what is left, and in which steps the workspace changes
    lock        one acceptance at a time in a workspace
    accept      the whole of it: conflicts, staging (of contents), apply: the steps, and their journal; what a killed
                process left is finished or undone
    undo        the set that takes back what was accepted
    merge       a file that both a program and a person changed
    differ      unified differences to show

They know neither decisions nor gate. `paddock.record.changes` stores the sets.
"""
