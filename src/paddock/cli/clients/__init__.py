"""MCP clients: where each keeps its servers, and how an entry gets there without touching the rest of the file."""
