"""What every floor needs and no concept owns: files, locks, large JSON, cancellation, JSON Schema."""
