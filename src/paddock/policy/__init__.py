"""What is allowed, as pure functions: merging of settings, decisions on requests, removal of secrets."""
