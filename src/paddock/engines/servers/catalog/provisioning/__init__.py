"""Servers that can be had: the registry's list, the trust file, and changes of the servers files."""
