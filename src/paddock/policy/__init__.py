"""What the owner allows and what may not leave: decisions, settings, redaction."""
