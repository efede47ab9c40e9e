"""Change sets: what programs changed in an overlay of the workspace, stored until a person accepts or discards it.

Read `store.py` for the files of a set and for how they are checked, then `state.py` for what became of a set.
`paddock.engines.changes` makes sets and accepts them.
"""
