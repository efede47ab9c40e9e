"""Surfaces: where requests come from, and how outcomes look."""
