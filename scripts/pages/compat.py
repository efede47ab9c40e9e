"""The compat profile: names of other systems, and how their tools differ from Paddock's own."""

from pages import mcp_tools
from pages.text import table

HEAD = """\
# Names of other systems

<!-- Written by scripts/reference.py; `make check` compares. Change the text in scripts/pages/compat.py, and the
descriptions of tools in src/paddock/surfaces/mcp_server/compat. -->

Paddock replaces three older systems. Prompts and scripts that were written for them keep working under their names.
This is the compat profile. New prompts and scripts should use [Paddock's own names](mcp-tools.md).

"""
SYSTEMS = (
    (
        "`mentu`, a runner of scripts that call MCP servers",
        (
            "the directories `.mentu/scripts`, the object `mentu` in programs, and "
            "the tools `mcp_discover`, `mcp_provision`, `mcp_call`, `mcp_execute`"
        ),
        "`.paddock/scripts`, `paddock`, and `search_tools`, `provision_server`, `call_tool`, `execute_code`",
    ),
    (
        "`sdl`, a runtime for programs in several languages",
        "the tools `sdl.runtime.execute` and `sdl.runtime.queryOutput`",
        "`run_program` and `query_output`",
    ),
    (
        "a sandbox for computations",
        "the tool `code.sandbox.js.run`",
        "`compute`",
    ),
)
USE = """
## How to use them

* **Tools.** `paddock serve mcp --tool-names compat` lists the tools below instead of Paddock's own. The server accepts
  calls of both sets in either mode.
* **Scripts.** `paddock run NAME` searches `.paddock/scripts` and then `.mentu/scripts`, first in the workspace and then
  in the home directory. A script in a directory `.mentu` runs in the compat profile.
* **SDK.** Every program has `mentu` as a second name of [`paddock`](sdk.md).

## How they differ

"""
DIFFERENCES = (
    (
        "end of a program",
        "a [status](answers.md): `ok`, `failed`, `memory_limit`",
        "`sdl.runtime.execute`: `success`, `failure`, `timeout`, `cancelled` or `denied`",
    ),
    (
        "full queue",
        "`unavailable`",
        "`sdl.runtime.execute`: `denied`",
    ),
    (
        "missing runtime",
        "`unavailable`, no exit code",
        "`sdl.runtime.execute`: `failure`, exit code 1",
    ),
    (
        "error of a computation",
        "`status` and `error.code`",
        "`code.sandbox.js.run`: one line of JSON with `code` and `message`",
    ),
    (
        "arguments",
        "checked [leniently](agents.md#lenient-arguments)",
        "exactly what the schema says",
    ),
    (
        "answers",
        "a status line, data with a schema",
        "the exact texts, no schema; `sdl.runtime.*` have data",
    ),
    (
        "`servers.x.call()` in a program",
        "the data of the result",
        "the whole `CallToolResult`",
    ),
    (
        "result over its limit",
        "`output_limit`; the whole is stored",
        "cut, and ends with `... [result truncated]`",
    ),
    (
        "maximum size of a program of `mcp_execute`",
        "`limits.execute.code_bytes`, 256 KiB",
        "50 KiB, unless that is set",
    ),
    (
        "globals of a program",
        "[all that compute](code-mode.md)",
        "a shorter list; without `URL` and `setInterval`",
    ),
    (
        "console, hints and warnings",
        "objects in full, hints after errors, warnings",
        "strings, no hints, no warnings",
    ),
    (
        "redaction marks",
        "one mark",
        "[marks by kind](redaction.md#settings)",
    ),
    (
        "list of tools",
        "script tools are listed; changes are announced",
        "fixed",
    ),
)
PROMISES = """
The rows about programs hold for `mcp_execute` and for scripts of `.mentu/scripts`. The others hold for the tools below.

Policy, limits, confinement and the record do not depend on the names. In particular, `.mentu` is [a protected
directory](confinement.md) whether or not the profile is used.

## What is promised

* The names, argument schemas and answers of the tools below do not change before a new major version of Paddock.
* [The acceptance cases](spec/cases.md) M, X, G and S say what each of them does. M21, X21, X36, S43 and the words
  `success` and `failure` hold in this profile alone.
* New features are added to Paddock's own names only.

In the source, one value switches each part: `raw_results` of a request makes a program one of this profile, and
`SCRIPTS_FOLDER` in `paddock.model.compat` names the directory whose scripts set it.

## Additional workspaces

`repoId` of `sdl.runtime.execute` selects a workspace. It is the name of the served directory, or of a directory that
you register in your own settings file. A program there is confined to that directory and limited by its `paddock.toml`.
The settings of a workspace cannot register one.

```toml
[[mcp.repos]]
repo_id = "site"
root_path = "~/site"
```

## Tools

"""


def page() -> str:
    """Return the page."""
    tools, _ = mcp_tools.asked("compat")
    systems = table(("system", "names", "Paddock's own"), SYSTEMS)
    differences = table(("", "Paddock's own names", "compat profile"), DIFFERENCES)
    return f"{HEAD}{systems}{USE}{differences}{PROMISES}" + "\n".join(
        mcp_tools.section(tool, "###") for tool in tools
    )
