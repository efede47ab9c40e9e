"""Processes that can do no more than they were granted: the sandbox, and the proxy of its network."""
