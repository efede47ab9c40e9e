"""Recorded programs: what is kept of a run, and how it is repeated and compared.

`recordings.py` decides which runs are recorded, stores them and finds them again. `transcript.py` makes a recording of
what a program did, without secrets. `replies.py` answers the calls of a repeated program, and `compare.py` finds the
first difference. The kind of work is in `paddock.gate.work.replay`.
"""
