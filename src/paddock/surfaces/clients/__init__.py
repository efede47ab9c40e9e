"""MCP clients: where each keeps its servers, and how an entry is written there without touching the rest of the file."""
