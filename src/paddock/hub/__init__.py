"""Upstream MCP servers: what the servers file says, and calls to their tools over a bounded pool."""
