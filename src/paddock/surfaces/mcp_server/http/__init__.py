"""MCP over streamable HTTP, behind `http_server`.

`app` is the heart, `inbound` refuses a message or passes it on to another replica, `sessions` ends sessions, and
`resumption` resumes their streams.
"""
