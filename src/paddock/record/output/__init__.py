"""Stored output of executions: artifacts, the recording that fills them, and queries.

`recording` is the heart: it captures the output of one execution. `artifacts` stores it in `backends`, `query` and
`text` find lines in it, `redraw` reduces progress to its last state. `work_files` are files that a program leaves,
`large_results` results over their limit. `digest` summarises what known tools print.
"""
