"""MCP over streamable HTTP.

`app` is the heart. `endpoint` reports mistakes before anything is loaded; `hosts`, `inbound` and `session_limits`
refuse, `abandoned` and `idle_connections` end, `probes` and `answers` reply outside of the protocol.
"""
