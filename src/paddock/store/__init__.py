"""What Paddock keeps: the audit ledger."""
