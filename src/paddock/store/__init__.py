"""What Paddock keeps: the audit ledger, and the output of programs."""
