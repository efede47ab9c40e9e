"""The MCP clients that `paddock install` supports, as data. `docs/clients.md` is generated from this table.

`source` is the client's own page on its configuration file. If a client has a file for one project, that is the default
scope.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Shape = Literal["plain", "stdio", "copilot", "opencode", "goose"]
"""The form of an entry; `entry.build_entry` writes each."""
Scope = Literal["project", "user"]
Platform = Literal["linux", "macos", "windows"]

_MCP_SERVERS = ("mcpServers",)
_CODE: Mapping[Platform, str] = {
    "linux": ".config/Code/User/",
    "macos": "Library/Application Support/Code/User/",
    "windows": "AppData/Roaming/Code/User/",
}
"""The directory of the user's settings of VS Code, below the home directory."""
_CONFIG = ".config/"


@dataclass(frozen=True)
class McpClient:
    """Where a client keeps its MCP servers. Of several paths, the first that exists is used, else the first."""

    title: str
    source: str
    user: Mapping[Platform, tuple[str, ...]]
    """Files of the user, below the home directory."""
    project: tuple[str, ...] = ()
    """Files of a project, below its directory; none if the client has no such scope."""
    key: tuple[str, ...] = _MCP_SERVERS
    """The path of the object with the entries."""
    shape: Shape = "plain"
    variables: tuple[tuple[str, str], ...] = ()
    """Environment variables that move the user's file, and the path below their value."""
    follows_xdg: bool = True
    """Whether `XDG_CONFIG_HOME` replaces `.config`."""
    program: str = ""
    """The client's own command."""
    sign: str = ""
    """A directory below the home directory that the installed client creates."""
    loads_mcp_json: bool = False
    """Whether the client starts the servers of `.mcp.json` in a project itself."""

    @property
    def scopes(self) -> tuple[Scope, ...]:
        """The scopes of the client, the default first."""
        return ("project", "user") if self.project else ("user",)

    def locate(self, scope: Scope, workspace: Path, environ: Mapping[str, str] = os.environ) -> Path:
        """Return the file of a scope, which may not exist."""
        if scope == "project":
            return _first_existing([workspace / name for name in self.project])
        for variable, rest in self.variables:
            if value := environ.get(variable):
                return Path(value) / rest
        config = environ.get("XDG_CONFIG_HOME") if self.follows_xdg else None
        moved = Path(config) if config else Path.home() / _CONFIG
        names = self.user["linux"]
        return _first_existing(
            [
                moved / name.removeprefix(_CONFIG) if name.startswith(_CONFIG) else Path.home() / name
                for name in names
            ]
        )


def _first_existing(paths: list[Path]) -> Path:
    return next((path for path in paths if os.path.lexists(path)), paths[0])


def _everywhere(*names: str) -> dict[Platform, tuple[str, ...]]:
    return {"linux": names, "macos": names, "windows": names}


def _in_code(name: str) -> dict[Platform, tuple[str, ...]]:
    return {platform: (folder + name,) for platform, folder in _CODE.items()}


def _in_appdata(linux: str, windows: str, macos: str = "") -> dict[Platform, tuple[str, ...]]:
    return {"linux": (linux,), "macos": (macos or linux,), "windows": (f"AppData/Roaming/{windows}",)}


CLIENTS: Mapping[str, McpClient] = {
    "claude-code": McpClient(
        "Claude Code",
        "https://code.claude.com/docs/en/mcp",
        _everywhere(".claude.json"),
        (".mcp.json",),
        shape="stdio",
        variables=(("CLAUDE_CONFIG_DIR", ".claude.json"),),
        program="claude",
        sign=".claude",
        loads_mcp_json=True,
    ),
    "claude-desktop": McpClient(
        "Claude Desktop",
        "https://modelcontextprotocol.io/docs/develop/connect-local-servers",
        _in_appdata(
            ".config/Claude/claude_desktop_config.json",
            "Claude/claude_desktop_config.json",
            "Library/Application Support/Claude/claude_desktop_config.json",
        ),
        sign=".config/Claude",
    ),
    "cursor": McpClient(
        "Cursor",
        "https://cursor.com/docs/context/mcp",
        _everywhere(".cursor/mcp.json"),
        (".cursor/mcp.json",),
        program="cursor",
        sign=".cursor",
    ),
    "vscode": McpClient(
        "VS Code",
        "https://code.visualstudio.com/docs/copilot/customization/mcp-servers",
        _in_code("mcp.json"),
        (".vscode/mcp.json",),
        key=("servers",),
        shape="stdio",
        program="code",
        sign=".config/Code",
    ),
    "gemini-cli": McpClient(
        "Gemini CLI",
        "https://geminicli.com/docs/tools/mcp-server/",
        _everywhere(".gemini/settings.json"),
        (".gemini/settings.json",),
        variables=(("GEMINI_CLI_HOME", ".gemini/settings.json"),),
        program="gemini",
        sign=".gemini",
    ),
    "codex": McpClient(
        "Codex",
        "https://developers.openai.com/codex/mcp",
        _everywhere(".codex/config.toml"),
        (".codex/config.toml",),
        key=("mcp_servers",),
        variables=(("CODEX_HOME", "config.toml"),),
        program="codex",
        sign=".codex",
    ),
    "windsurf": McpClient(
        "Windsurf",
        "https://docs.windsurf.com/windsurf/cascade/mcp",
        _everywhere(".codeium/windsurf/mcp_config.json"),
        program="windsurf",
        sign=".codeium/windsurf",
    ),
    "cline": McpClient(
        "Cline",
        "https://docs.cline.bot/mcp/configuring-mcp-servers",
        {
            platform: (
                ".cline/data/settings/cline_mcp_settings.json",
                f"{folder}globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json",
            )
            for platform, folder in _CODE.items()
        },
        variables=(("CLINE_MCP_SETTINGS_PATH", ""),),
        program="cline",
        sign=".cline",
    ),
    "roo": McpClient(
        "Roo Code",
        "https://docs.roocode.com/features/mcp/using-mcp-in-roo",
        _in_code("globalStorage/rooveterinaryinc.roo-cline/settings/mcp_settings.json"),
        (".roo/mcp.json",),
        sign=".config/Code/User/globalStorage/rooveterinaryinc.roo-cline",
    ),
    "zed": McpClient(
        "Zed",
        "https://zed.dev/docs/ai/mcp",
        _in_appdata(".config/zed/settings.json", "Zed/settings.json"),
        (".zed/settings.json",),
        key=("context_servers",),
        program="zed",
        sign=".config/zed",
    ),
    "opencode": McpClient(
        "OpenCode",
        "https://opencode.ai/docs/mcp-servers/",
        _everywhere(".config/opencode/opencode.json", ".config/opencode/opencode.jsonc"),
        ("opencode.json", "opencode.jsonc"),
        key=("mcp",),
        shape="opencode",
        variables=(("OPENCODE_CONFIG", ""),),
        program="opencode",
        sign=".config/opencode",
    ),
    "copilot-cli": McpClient(
        "GitHub Copilot CLI",
        "https://docs.github.com/en/copilot/how-tos/copilot-cli/customize-copilot/add-mcp-servers",
        _everywhere(".copilot/mcp-config.json"),
        (".mcp.json",),
        shape="copilot",
        variables=(("COPILOT_HOME", "mcp-config.json"),),
        program="copilot",
        sign=".copilot",
        loads_mcp_json=True,
    ),
    "junie": McpClient(
        "JetBrains Junie",
        "https://www.jetbrains.com/help/junie/model-context-protocol-mcp.html",
        _everywhere(".junie/mcp/mcp.json"),
        (".junie/mcp/mcp.json",),
        program="junie",
        sign=".junie",
    ),
    "goose": McpClient(
        "goose",
        "https://block.github.io/goose/docs/guides/config-files",
        _in_appdata(".config/goose/config.yaml", "Block/goose/config/config.yaml"),
        key=("extensions",),
        shape="goose",
        program="goose",
        sign=".config/goose",
    ),
    "amp": McpClient(
        "Amp",
        "https://ampcode.com/manual",
        _everywhere(".config/amp/settings.json", ".config/amp/settings.jsonc"),
        (".amp/settings.json", ".amp/settings.jsonc"),
        key=("amp.mcpServers",),
        variables=(("AMP_SETTINGS_FILE", ""),),
        follows_xdg=False,
        program="amp",
        sign=".config/amp",
    ),
    "kiro": McpClient(
        "Kiro",
        "https://kiro.dev/docs/mcp/configuration/",
        _everywhere(".kiro/settings/mcp.json"),
        (".kiro/settings/mcp.json",),
        program="kiro",
        sign=".kiro",
    ),
    "lm-studio": McpClient(
        "LM Studio",
        "https://lmstudio.ai/docs/app/mcp",
        _everywhere(".lmstudio/mcp.json"),
        program="lms",
        sign=".lmstudio",
    ),
    "warp": McpClient(
        "Warp",
        "https://docs.warp.dev/agents/capabilities/mcp",
        _everywhere(".warp/.mcp.json"),
        (".warp/.mcp.json",),
        program="warp-terminal",
        sign=".warp",
    ),
    "continue": McpClient(
        "Continue",
        "https://docs.continue.dev/customize/deep-dives/mcp",
        _everywhere(".continue/mcpServers/paddock.json"),
        (".continue/mcpServers/paddock.json",),
        variables=(("CONTINUE_GLOBAL_DIR", "mcpServers/paddock.json"),),
        program="cn",
        sign=".continue",
    ),
}
"""The clients by their name on the command line."""
