"""What happened, kept and searchable: the ledger, stored output, change sets, telemetry.

ledger      the hash chain of records, and the protocol of every audit sink
output      artifacts: the stored output of executions, its recording, and queries
changes     what programs changed in an overlay of the workspace, until a person accepts or discards it
telemetry   traces, metrics and log lines for operators, made from the ledger's facts
"""
