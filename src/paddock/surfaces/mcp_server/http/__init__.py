"""MCP over streamable HTTP, behind `http_server`.

`app` is the heart. `inbound` and `session_limits` refuse, `abandoned` ends sessions, and `probes` replies outside of
the protocol.
"""
