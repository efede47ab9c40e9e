"""MCP clients: where each keeps its servers, and how to add an entry without changing the rest of the file.

`table` has the clients, `entry` makes the entry, `files` and `edit` write it, `jsonc` edits JSON in place.
"""
