"""The tools of the MCP server in the default profile.

One file for each group: `code`, `programs`, `compute`, `discovery`, `script_tools`, `provision`.
"""
