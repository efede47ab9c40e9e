"""The values of Paddock, all frozen: request, decision, outcome, limits, grants. No I/O here."""
