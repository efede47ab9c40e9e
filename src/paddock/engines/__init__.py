"""Engines: each turns one kind of work into a raw result."""
