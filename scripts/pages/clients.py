"""The table of MCP clients, from the data that `paddock install` goes by."""

from collections.abc import Iterator

from paddock.surfaces.clients.table import CLIENTS, Client, Platform
from pages.text import table

HEAD = """\
# MCP clients

<!-- Written by scripts/reference.py from src/paddock/surfaces/clients/table.py; `make check` compares.
Change the table. -->

`paddock install CLIENT` enters Paddock into the configuration of an MCP client, as a server for the workspace.
`paddock install --list` says which clients are on this machine, and which of them have Paddock.

* **Scope.** Where a client has a file for each project, that one is written: two projects have an entry each.
  `--scope user` writes the user's file. An entry there that serves another workspace is changed only with
  `--replace`; `--name` makes a second one.
* **What stays.** Comments, commas and formatting, and in an entry that is there `env` and every other key except the
  command and its arguments. The file that was there is kept as `FILE.backup`. `--dry-run` shows the difference and
  changes nothing. A file that is not understood is refused, with line and column.
* **What is entered** names paths of this machine. Do not commit a project's file that has it.
* **Links** of the user are followed. In a project, a link that leads out of it is refused, as is a file of another
  user.

## Files

"""
OTHER_CLIENTS = """
Any other client: `paddock install mcp-json` prints the entry.

## Variables

These move the user's file, as they do for the client. `XDG_CONFIG_HOME` moves what is in `~/.config`, except for Amp.

"""
CONTAINER = """
## On macOS and Windows

Paddock runs on Linux, WSL 2 included. Elsewhere it runs in a container, whose image is built as
[Containers](docker.md) says. `--docker IMAGE` enters `docker run -i --rm ... IMAGE serve mcp`: the workspace is
mounted at `/workspace`, the record and stored output are in the volume `paddock-state`, and no port is opened. The
image itself prints the entry for a directory of your machine:

```text
docker run --rm paddock install mcp-json --docker paddock --workspace "$PWD"
```

Servers for programs run in the container, too. What they need is installed in an image of your own, `FROM paddock`.

A client on Windows starts a Paddock that is installed in WSL 2 by `"command": "wsl.exe"`, with `"--exec"` and the
path of `paddock` before the arguments.

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


def _names(about: Client, platform: Platform) -> str:
    return " or ".join(f"`~/{file}`" for file in about.user[platform])
