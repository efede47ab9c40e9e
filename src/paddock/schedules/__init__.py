"""Schedules of sequences."""
