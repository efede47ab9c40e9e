"""Paddock from Python: `Paddock` on an event loop, `BlockingPaddock` without one."""
