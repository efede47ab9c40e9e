"""The digest of a program's output: what failed, and where."""
