"""Upstream MCP servers: their configuration files, and calls to their tools over a bounded pool.

`config` is the format of the servers files; `confinement` and `launchers` read parts of an entry. `catalog_tool` and
`result` are the values that all parts share, `pins` the definitions that a person approved, `aliases` and `typescript`
how a tool is named and shown. `local_server` are functions of the caller as tools, `person` answers a server's
questions, `output` reads what a server wrote.
The heart is `calls` (start at `hub`); `auth` logs in, `catalog` searches. Who may call what is in `policy/decisions`.
"""
