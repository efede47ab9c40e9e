"""Outcomes and answers as text. Every surface uses it, so that they all print the same."""
