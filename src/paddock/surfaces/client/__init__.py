"""Paddock from Python: `Paddock` on an event loop, `BlockingPaddock` without one.

`paddock` is the heart; `blocking` is the same for ordinary functions, by `loop_thread`. `arguments`,
`function_askers` and `local_tools` read what callers pass; `requests` and `attached` send it; `sessions`, `batches`,
`executor`, `found_tools` and `records` are its larger methods. `remote` sends the same to a server, `ray` runs batches
on a cluster.
"""
