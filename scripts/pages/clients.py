"""The table of MCP clients, from the data that `paddock install` goes by."""

from collections.abc import Iterator

from paddock.surfaces.cli.clients.table import CLIENTS, McpClient, Platform
from pages.text import table

HEAD = """\
# MCP clients

<!-- Written by scripts/reference.py from src/paddock/surfaces/cli/clients/table.py; `make check` compares.
Change the table. -->

`paddock install CLIENT` adds Paddock to the configuration of an MCP client, as a server for the workspace.
`paddock install --list` lists the clients and which of them have Paddock. A client counts as installed if its command
is on `PATH`, or if its directory contains a file that Paddock did not write.

* **Scope.** If a client has a file for each project, Paddock writes that file, and each project has its own entry.
  `--scope user` writes the user's file.
* **Existing entries.** Paddock sets its own program and the workspace. Everything else stays: further options of
  `serve mcp` and of `docker run`, `env`, and other keys. A warning lists the options that stay. A disabled entry
  stays disabled, with a warning.
* **`--replace`.** Some entries are changed or removed only with this option; `--name` makes a second entry instead:
  * an entry of another server that has the same name. It is replaced as a whole.
  * an entry that starts Paddock in another way, such as by `uvx` or in a container. Removing it needs no `--replace`.
  * in the user's file, an entry that serves another workspace. In a project's file its workspace is set to the project.
* **The rest of the file.** Comments, commas and formatting stay. Comments between arguments are lost only if
  `--replace` changes how an entry starts Paddock.
* **Backups.** Each change keeps the file before it as `FILE.backup`, then `FILE.backup.2` and so on. No backup is
  overwritten, so the first one is the file before Paddock. `--dry-run` shows the difference and changes nothing.
* **Refused files.** Paddock does not change a file with a mistake in its syntax, and reports where it is. The same
  holds for a file that is not UTF-8, contains no object, is write-protected, or was changed by another program in the
  meantime.
* **Paths.** An entry names paths of this machine. Do not commit a project's file that has one.
* **Links.** Paddock follows a link and keeps it. In a project it refuses a link that leads out of the project, and a
  file of another user. `--move-servers` needs two files, and fails if one is a link to the other.

What a model can do with the tools: [agents](agents.md), and [a Python tool](python-tool.md) with sessions.
Programs that connect by a library, such as LangChain or the Vercel AI SDK: [client libraries](client-libraries.md).

## Files

"""
OTHER_CLIENTS = """
Any other client: `paddock install mcp-json` prints the entry.

## Variables

Some clients use another directory for the user's file if a variable is set. Paddock follows the same variable.
`XDG_CONFIG_HOME` replaces `~/.config`, except for Amp.

"""
CONTAINER = """
## On macOS and Windows

Paddock runs on Linux, including WSL 2. Elsewhere it runs in a container. [Containers](docker.md) says how to build the
image. `--docker IMAGE` adds `docker run -i --rm ... IMAGE serve mcp`. The workspace is mounted at `/workspace`, the
record and stored output are in the volume `paddock-state`, and no port is opened. The image itself can print the entry
for a directory of your machine:

```text
docker run --rm paddock install mcp-json --docker paddock --workspace "$PWD"
```

Servers for programs run in the container too. Install their requirements in an image of your own, `FROM paddock`.

A client on Windows starts Paddock in WSL 2 with `wsl.exe`. Add this entry by hand, with the paths that `paddock install
mcp-json` prints in WSL:

```json
{
  "mcpServers": {
    "paddock": {
      "command": "wsl.exe",
      "args": ["--exec", "/home/ada/.local/bin/paddock", "serve", "mcp", "--workspace", "/home/ada/project"]
    }
  }
}
```

| client | the user's file on macOS | on Windows |
|---|---|---|
"""
_FORMATS = {".toml": "TOML", ".yaml": "YAML"}


def page() -> str:
    """Return the page."""
    files = table(
        ("client", "command", "for a project", "for the user", "format", "entries in"), list(_rows())
    )
    moved = [
        (f"[{about.title}]({about.source})", ", ".join(f"`{name}`" for name, _ in about.variables))
        for about in CLIENTS.values()
        if about.variables
    ]
    elsewhere = "".join(
        f"| {about.title} | {_names(about, 'macos')} | {_names(about, 'windows')} |\n"
        for about in CLIENTS.values()
    )
    return HEAD + files + OTHER_CLIENTS + table(("client", "variable"), moved) + CONTAINER + elsewhere


def _rows() -> Iterator[tuple[str, ...]]:
    for name, about in CLIENTS.items():
        suffix = about.user["linux"][0].rpartition(".")[2]
        yield (
            f"[{about.title}]({about.source})",
            f"`paddock install {name}`",
            " or ".join(f"`{file}`" for file in about.project),
            _names(about, "linux"),
            _FORMATS.get(f".{suffix}", "JSON"),
            f"`{'.'.join(about.key)}`",
        )


def _names(about: McpClient, platform: Platform) -> str:
    return " or ".join(f"`~/{file}`" for file in about.user[platform])
