"""Paddock runs code that nobody has reviewed and gives it exactly the powers its policy grants."""

__version__ = "0.1.0"
