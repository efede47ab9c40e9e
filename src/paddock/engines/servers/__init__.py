"""Upstream MCP servers: their configuration files, and calls to their tools over a bounded pool.

`config` is the format of the servers files, and `confinement` that of a part of an entry. `result` has the values that
all parts share, `pins` the definitions that a person approved, and `typescript` shows a tool. `local_server` are
functions of the caller as tools, `person` answers a server's questions, `output` reads what a server writes, and
`methods` are those that read resources and prompts.
The heart is `calls` (start at `hub`); `auth` logs in, `catalog` searches. Who may call what
is in `server_call` of `gate/work` (grants) and in `policy/decisions` (rules).
"""
