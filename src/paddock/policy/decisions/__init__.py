"""Decisions on requests, as pure functions of settings and request."""
