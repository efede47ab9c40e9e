"""The nouns of Paddock as frozen values: request, decision, outcome, limits, grants, settings. No I/O here."""
