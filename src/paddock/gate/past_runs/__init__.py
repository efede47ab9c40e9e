"""What a surface shows of one run that was recorded, from its records in the ledger.

`describe` sorts the records of a run (`record/ledger/runs.py`) into calls, connections and questions. `terms` asks the
policy in force about it again: which limits hold for it, and what would allow a call that was refused. `command` writes
the command line that repeats it. `stored` finds its output, its files and its recording. Nothing here runs anything.
"""
