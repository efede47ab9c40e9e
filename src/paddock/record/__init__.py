"""What happened, kept and searchable: the ledger, stored output, telemetry."""
