"""Stored output of executions: artifacts, the recorder that fills them, and queries."""
