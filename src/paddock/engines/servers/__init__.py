"""Upstream MCP servers: their configuration files, and calls to their tools over a bounded pool."""
