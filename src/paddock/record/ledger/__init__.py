"""The audit ledger: a hash chain on disk, and the protocol of every audit sink."""
