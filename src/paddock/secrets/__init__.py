"""Secrets: the vault of scripts, and stored logins at upstream servers."""
