"""The audit ledger: a hash chain on disk, and the protocol of every audit sink.

`sink` is the interface, `writer` the heart: it appends and claims by `chain` in `line_format`, and knows `claims`.
`sink_wrappers` has the sinks on top of another one; one of them redacts facts. Readers: `read`, `search` with `index`,
`runs` with `run_index` for whole requests, `moment` for times, `questions`, and `chain_place` for one record and its
neighbours. `record_watch` tells health checks whether records can be written. `verify`, by `chain_check` and in a thread
by `verification`, and `archive` are for operators. What the gate records is in `gate/audit_facts.py`; a sink without a
disk in `testing/fakes.py`.
"""
