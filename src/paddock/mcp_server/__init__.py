"""The MCP server: what agents call. It turns calls into requests, and outcomes into results; it holds no rules.

client -> stdio.py or http.py -> server.py (protocol) -> tools.py (one table) -> gate -> reply.py -> client
"""
