"""The audit ledger: a hash chain on disk, and the protocol of every audit sink.

`sink` is the interface, `ledger` the heart: it writes by `chain` in `line_format`, and knows `claims`. Other sinks:
`memory`, `best_effort`, `checked`. Readers: `read`, `follow`, `search` with `index`, `moment` for times. `verify` and
`archive` are for operators. What the gate records is in `gate/audit_facts.py`.
"""
