"""Recordings of programs: their text, input, calls and results. The ledger stores none of these.

Read `recorded_run.py` for what a recording holds, then `store.py` for how it is encrypted, bound to the ledger and
deleted. Secrets are removed before a recording is made (`paddock.gate.replay`).
"""
