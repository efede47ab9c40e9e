"""Surfaces: where requests come from, and how outcomes look.

    cli             the command `paddock`
    client          `Paddock` and `BlockingPaddock`, from Python
    web             the pages of `paddock ui`, over client and tenants
    http_api        the HTTP API, over client; tenants are its callers
    tenants         the users of a server: tokens, limits, a Paddock for each
    http_server     what every server over HTTP has before its application
    mcp_server      the MCP server for agents
    rendering       outcomes as text, for all of them

A surface makes requests for the gate and decides nothing.
"""
