"""MCP clients: where each keeps its servers, and how to add an entry without changing the rest of the file."""
