"""The MCP server for agents. It turns calls into requests and outcomes into results; it makes no decisions.

client -> stdio.py or http/ -> protocol.py -> toolbox.py (one table of tools) -> gate -> replies.py -> client
"""
