"""What happened, kept and searchable: the ledger, stored output, telemetry.

ledger      the hash chain of records, and the protocol of every audit sink
output      artifacts: the stored output of executions, its recorder, and queries
telemetry   traces, metrics and log lines for operators, made from the ledger's facts
"""
