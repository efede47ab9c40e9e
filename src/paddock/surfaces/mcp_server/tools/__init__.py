"""The tools of the MCP server in the default profile."""
