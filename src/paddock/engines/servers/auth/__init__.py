"""Authorization at upstream servers: bearer tokens and the OAuth authorization code flow."""
