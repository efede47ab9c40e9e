"""Troubleshooting: an index of messages by what to do about them. The messages come from the source."""

from collections.abc import Iterator
from typing import NamedTuple

from paddock.gate.program_service import BUSY_ERROR_NAME
from paddock.model.outcome import Status
from paddock.surfaces.http_server.problems import TYPES
from pages.messages import arguments_of, constants, table_of
from pages.text import described, spoken, table

_HINTS = "engines/programs/outcome_mapping.py"
_HIDDEN = "confinement/sandbox/hidden_files.py"
_TIERS = "confinement/sandbox/tiers.py"

HEAD = """\
# Troubleshooting

<!-- Written by scripts/reference.py from the messages of the source; `make check` compares. Change the texts about
them in scripts/pages/troubleshooting.py. -->

This page lists messages of Paddock by what to do about them. Search it for the words of your message. `…` stands for
a name, a number or a path. The text after `hint:` is listed, too.

`paddock doctor` tests this machine and prints what is missing. `paddock audit show ID` prints what happened to a
request, also after it has ended.

## Statuses

"""
STATUS_HELP = {
    "OK": "nothing to do",
    "FAILED": "read the error of the program; if it lacks files, packages or hosts, see [files](#files), "
    "[packages](#packages) and [the network](#network)",
    "TIMEOUT": "[limits](#limits)",
    "MEMORY_LIMIT": "[limits](#limits)",
    "OUTPUT_LIMIT": "[limits](#limits)",
    "PROCESS_LIMIT": "[limits](#limits)",
    "CANCELLED": "the caller cancelled it; send it again",
    "DENIED": "`paddock policy check` names the rule; see [policy](policy.md)",
    "INVALID": "correct the request: the message names the argument",
    "UNAVAILABLE": "[a busy machine](#busy), [packages](#packages) or [this machine](#doctor)",
    "LOST": "[sessions](#sessions); for a program without one, check its effects before you run it again",
    "ERROR": "`paddock doctor`; report a failure that remains",
}


class Entry(NamedTuple):
    """A section: what to do, and the constants with the messages that it is about."""

    anchor: str
    title: str
    text: str
    hints: tuple[str, ...] = ()
    """Names of constants of `_HINTS`."""
    columns: tuple[str, str] = ("message", "remedy that it names")


ENTRIES = (
    Entry(
        "hidden",
        "A file is hidden",
        "Programs cannot read files that hold secrets, such as `.env` and private keys. Show one file to one program "
        "with `paddock exec --show .env`. For agents, set `show` under `[workspace]` in your own `paddock.toml`. A "
        "workspace cannot show a file. [Hidden files](confinement.md#hidden-files) lists the patterns.",
    ),
    Entry(
        "files",
        "Files, modules and standard input",
        "A program reads the workspace and writes to `$TMPDIR`. Let it write with `--access workspace-write`. Pass "
        "files with `--file-in` and standard input with `--stdin`. [Files and images](files.md) has the options.",
        (
            "_FAULT",
            "_OUTSIDE_REPOSITORY",
            "_WITHHELD",
            "_HOMELESS",
            "_APART",
            "_UNREAD",
            "_ALONE",
            "_UNASKED",
            "_UNASKED_IN_SESSION",
            "_NO_REPOSITORY",
            "_IN_GIT_FOLDER",
        ),
    ),
    Entry(
        "network",
        "The network",
        "A program has no network unless it asks for one and policy allows it. Write a `[[network.rule]]` for the "
        "host in your own `paddock.toml`, and run `paddock exec --network hosts`. [The network of "
        "programs](network.md) explains the choices.",
        (
            "_OFFLINE",
            "_LOOPBACK_ONLY",
            "PROXY_ONLY",
            "_OFFLINE_THERE",
            "_PATHLESS",
            "_NO_OWN_NETWORK",
            "_OUTSIDE_PRIVATE",
            "_UNSHARED",
        ),
    ),
    Entry(
        "packages",
        "Packages, and figures without them",
        "Ask for packages with `--package NAME`, or with `packages` of `run_program`. The installation needs a "
        "network; an environment that exists needs none, so install it once with `paddock packages add`. A missing "
        "`matplotlib` or `pandas` is such a package. Without it there is no figure. [Packages](packages.md) "
        "describes registries and rules.",
    ),
    Entry(
        "limits",
        "Limits: time, memory, output, processes",
        "Request more with `--timeout` and `--memory`, up to the maximum under `[runtimes]` in your own "
        "`paddock.toml`. Output over its limit is stored, and `query_output` or `paddock output` reads it.",
        ("_COLD",),
    ),
    Entry(
        "busy",
        "A busy machine",
        "Nothing ran, or other processes used the processors, and the program changed nothing. It is safe to run it "
        "again. If it happens often, run fewer programs at a time, or give them more time.",
    ),
    Entry(
        "sessions",
        "A session is lost",
        "Its interpreter has ended, and its variables are gone. Open another session. A client that starts one "
        "Paddock for each call cannot keep a session: connect it over HTTP. [Sessions](sessions.md) lists the "
        "reasons.",
    ),
    Entry(
        "pins",
        "A tool of a server changed",
        "Paddock keeps the definition of a tool from its first use, and refuses another one. Read the change with "
        "`paddock servers diff`, and accept it with `paddock servers approve`. [Security](security.md) says why.",
    ),
    Entry(
        "http",
        "Answers of a server over HTTP",
        "401: send the token as `Authorization: Bearer TOKEN`. `paddock serve token list` prints when it expires. "
        "421: the client uses a name that the server does not know; start the server with `--allowed-host NAME`. "
        "429 and 503: wait as `Retry-After` says. [Tokens](tokens.md) and [the HTTP API](http.md) have the rest.",
        columns=("status and type", "title"),
    ),
    Entry(
        "doctor",
        "This machine",
        "`paddock doctor` prints these findings. Each one has its remedy. [Confinement](confinement.md) explains the "
        "tiers.",
    ),
)


def page() -> str:
    """Return the page."""
    meanings = described(Status)
    statuses = table(
        ("status", "what it means", "what to do"),
        [(f"`{status}`", spoken(meanings[status.name]), STATUS_HELP[status.name]) for status in Status],
    )
    hints = _read_hints()
    return HEAD + "\n".join([statuses, *(_section(entry, hints) for entry in ENTRIES)])


def _section(entry: Entry, hints: dict[str, str]) -> str:
    rows = [*_rows(entry.anchor), *((hints[name], "") for name in entry.hints)]
    heading = f"## {entry.title} {{#{entry.anchor}}}\n\n{_wrap(entry.text)}\n"
    used = 2 if any(fix for _, fix in rows) else 1
    return f"{heading}\n{table(entry.columns[:used], [tuple(map(_cell, row[:used])) for row in rows])}"


def _rows(anchor: str) -> Iterator[tuple[str, str]]:
    """Yield the messages of a section, each with its remedy, beside its hints."""
    match anchor:
        case "hidden":
            yield from ((text, "") for text in constants(_HIDDEN).values())
        case "files":
            yield from ((text, "") for (text,) in table_of(_HINTS, "_WRITES").values())
        case "limits":
            yield from ((said, remedy) for said, remedy in table_of(_HINTS, "_LIMIT_MESSAGES").values())
        case "packages":
            yield from _calls("PackagesError", "engines/packages")
            yield from _calls("PackagesError", "engines/programs/package_environment.py")
        case "busy":
            yield constants("model/starvation.py")["STARVED"], ""
            for said, name in arguments_of("ErrorInfo", "gate/program_service.py", "message", "name"):
                if name == BUSY_ERROR_NAME:
                    yield said, ""
        case "sessions":
            yield from ((text, "") for text in constants("engines/sessions/table.py").values() if " " in text)
        case "pins":
            yield from _calls("ToolChanged", "engines/servers/calls/call_checks.py")
        case "http":
            yield from ((f"{each.status} {each.name}", each.title) for each in TYPES)
        case "doctor":
            for text in constants("confinement/sandbox/child/preflight.py").values():
                if " " in text:
                    yield text, ""
            for name, detail, fix in arguments_of("Layer", _TIERS, "name", "detail", "fix"):
                if fix:
                    yield f"layer {name}: {detail}", fix
        case _:
            pass


def _calls(name: str, where: str) -> Iterator[tuple[str, str]]:
    """Yield the messages of the errors of a class, each once and with its hint."""
    yield from dict.fromkeys((said, hint) for said, hint in arguments_of(name, where) if said)


def _read_hints() -> dict[str, str]:
    """Return the hints on failed programs. Raises ValueError for one that no section lists."""
    hints = constants(_HINTS)
    listed = {name for entry in ENTRIES for name in entry.hints}
    if unlike := listed ^ set(hints):
        raise ValueError(
            f"ENTRIES of scripts/pages/troubleshooting.py and {_HINTS} differ: {', '.join(sorted(unlike))}"
        )
    return hints


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").replace("<", "&lt;").replace("[[", "\\[[").split())


def _wrap(text: str) -> str:
    """Return a paragraph in lines of at most 118 characters."""
    lines = [""]
    for word in text.split():
        if len(lines[-1]) + len(word) >= 118:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return "\n".join(lines)
