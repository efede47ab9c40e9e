"""Mechanisms that take powers away from processes."""
