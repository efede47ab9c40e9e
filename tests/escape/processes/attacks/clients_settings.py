"""Leave servers and hooks where clients of MCP and projects that use husky will start them from.

landlock: closed
namespaces: closed
unconfined: closed
"""

import os

CLIENTS = (
    ".codex/config.toml",
    ".cursor/mcp.json",
    ".gemini/settings.json",
    ".roo/mcp.json",
    ".kilocode/mcp.json",
    ".kiro/settings/mcp.json",
    ".zed/settings.json",
    ".windsurf/mcp.json",
    ".amazonq/mcp.json",
    ".qwen/settings.json",
    ".opencode/plugin/new.js",
    "opencode.json",
    "opencode.jsonc",
    ".crush.json",
    "crush.json",
    ".claude.json",
    ".amp/settings.json",
    ".continue/mcpServers/new.json",
    ".github/mcp.json",
    ".junie/mcp/mcp.json",
    ".warp/.mcp.json",
    ".paddock/servers.json",
)
for name in (*CLIENTS, ".husky/pre-commit"):
    path = FACTS["workspace"] + "/" + name
    os.makedirs(os.path.dirname(path), exist_ok=True)
    open(path, "w").write("{}")
