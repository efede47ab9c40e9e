"""Outcomes and answers as text. Every surface uses this package, so that they all print the same."""
