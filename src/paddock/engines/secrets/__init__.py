"""Secrets: the vault of scripts, and stored logins for upstream servers."""
