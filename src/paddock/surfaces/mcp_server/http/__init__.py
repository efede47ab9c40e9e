"""MCP over streamable HTTP, behind `http_server`.

`app` is the heart, `inbound` refuses, and `sessions` ends sessions.
"""
