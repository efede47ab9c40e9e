"""What a person at a terminal of eighty columns sees: whole words, suggestions, and nothing that acts on the terminal."""

import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.support.command import PADDOCK, make_environment, run_paddock

HARMFUL = re.compile(
    r"[\x00-\x08\x0b-\x1a\x1c-\x1f\x7f-\x9f\u200b\u202a-\u202e\u2060-\u206f\ufeff\U000e0000-\U000e007f]"
    r"|\x1b(?!\[[0-9;:]*m)"
)
EVIL = "e\x1b]0;owned\x07vil\u202e\U000e0041\x9b2J"


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    home = tmp_path / "home"
    home.mkdir()
    return make_environment(home, PATH="/usr/bin:/bin", TERM="xterm")


def on_terminal(cwd: Path, environment: Mapping[str, str], *arguments: str, columns: int = 80) -> str:
    """Return what a terminal shows of a command."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    with subprocess.Popen(
        [PADDOCK, *arguments], cwd=cwd, env=environment, stdin=theirs, stdout=theirs, stderr=theirs
    ):
        os.close(theirs)
        parts: list[bytes] = []
        while True:
            try:
                part = os.read(ours, 65536)
            except OSError:
                break
            if not part:
                break
            parts.append(part)
    os.close(ours)
    return b"".join(parts).decode().replace("\r\n", "\n")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("runn",), "Error: No such command 'runn'. Did you mean 'run'?\n"),
        (("servers", "lst"), "Error: No such command 'lst'. Did you mean 'list'?\n"),
        (("vault", "remove"), "Error: No such command 'remove'. Did you mean 'delete'?\n"),
        (("xyzzy",), "Error: No such command 'xyzzy'. See `paddock --help`.\n"),
    ],
)
def test_an_unknown_command_gets_the_nearest_name(
    tmp_path: Path, environment: dict[str, str], arguments: tuple[str, ...], told: str
) -> None:
    assert on_terminal(tmp_path, environment, *arguments).endswith(told)


NO_SERVERS = (
    "no servers are configured here; name one in .paddock/servers.json of the workspace: "
    '{"mcpServers": {"time": {"command": "uvx", "args": ["mcp-server-time"]}}}'
)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("servers", "list"), NO_SERVERS),
        (("script", "list"), "there are no scripts here; create one: paddock script new NAME"),
        (("servers", "tools"), NO_SERVERS),
        (("servers", "diff"), NO_SERVERS),
        (("servers", "search", "x"), NO_SERVERS),
        (("tool", "list"), "there are no script tools here; create one: paddock tool new NAME"),
        (("tool", "validate"), "there are no script tools here; create one: paddock tool new NAME"),
        (("tool", "match"), "there are no script tools here; create one: paddock tool new NAME"),
        (("sequence", "list"), "there are no sequences here; write one into .paddock/sequences/NAME.toml"),
        (("temporal", "list"), "there are no schedules here; write one into .paddock/temporals/NAME.toml"),
        (("webhook", "list"), "there are no webhooks; register one: paddock webhook register EVENT URL"),
        (("vault", "list"), "there are no secrets in this scope; store one: paddock vault set NAME"),
        (("approve",), "no request waits for a person"),
        (
            ("output", "list"),
            "no output is stored for this workspace; `paddock exec` and `paddock run` store it",
        ),
        (("output", "list", "--all"), "no output is stored; `paddock exec` and `paddock run` store it"),
        (("audit", "tail", "--server", "none"), "no records match"),
    ],
)
def test_an_empty_list_says_what_to_do(
    tmp_path: Path, environment: dict[str, str], arguments: tuple[str, ...], told: str
) -> None:
    done = run_paddock(tmp_path, *arguments, environment=environment)
    assert done == (0, "", f"{told}\n")


def test_help_has_the_first_sentence_of_each_command_whole(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    shown = on_terminal(tmp_path, environment, "servers", "--help")
    assert (
        "  login      Log in to a server: show an address to open, wait for the answer,\n"
        "             and store the tokens\n"
    ) in shown
    commands = shown.partition("Commands:")[2].partition("Examples:")[0]
    assert "..." not in commands


@pytest.mark.parametrize("command", [("doctor",), ("policy", "explain", "python"), ("config", "show")])
def test_what_is_too_wide_for_a_terminal_breaks_between_words(
    tmp_path: Path, environment: dict[str, str], command: tuple[str, ...]
) -> None:
    narrow, wide = (on_terminal(tmp_path, environment, *command, columns=columns) for columns in (80, 400))
    words = wide.rpartition("─")[2].split()
    missing = [word for word in words if word not in narrow.split()]
    plain = re.sub(r"\x1b\[[0-9;]*m", "", narrow)  # headings are bold
    longest = max((line for line in plain.splitlines() if " " in line.strip()), key=len)
    assert missing == []
    assert len(longest) <= 80 or len(longest.split()[-1]) > 60


@pytest.mark.parametrize(
    ("command", "told"),
    [
        (("servers", "list"), "no servers are configured here; "),
        (("servers", "tools", "web"), "web: Failed to connect to server web: "),
        (("servers", "tools", "odd"), "warning: "),
        (("runtimes", "install", "cobol"), "Error: Invalid value for 'RUNTIME...': "),
        (("exec", "python", "-c", "import nowhere"), "  hint: nowhere is not installed for "),
    ],
)
def test_notes_warnings_and_errors_break_between_words(
    tmp_path: Path, environment: dict[str, str], command: tuple[str, ...], told: str
) -> None:
    if command[1] == "tools":
        web = {"type": "http", "url": "http://127.0.0.1:9/mcp"}
        entries = (
            {"web": web}
            if command[2] == "web"
            else {"odd": {"command": "none", "env": {"A": "${input:key}"}}}
        )
        (tmp_path / ".mcp.json").write_text(json.dumps({"mcpServers": entries}))
    narrow, wide = (on_terminal(tmp_path, environment, *command, columns=columns) for columns in (80, 2000))
    [long] = [line for line in wide.splitlines() if line.startswith(told)]
    assert (len(long) > 80, narrow.split()) == (True, wide.split())
    assert [line for line in narrow.splitlines() if len(line) > 80 and len(line.split()[-1]) < 60] == []


def test_rows_that_are_too_wide_are_cards(tmp_path: Path, environment: dict[str, str]) -> None:
    reason = "x" * 70
    rule = f'[[policy.rule]]\neffect = "deny"\nruntime = "python"\nreason = "{reason}"\n'
    (tmp_path / "paddock.toml").write_text(rule)
    shown = on_terminal(tmp_path, environment, "policy", "explain", "python")
    assert shown.startswith("programs run at all\n  says  agrees\n")
    assert f"\n  says  objects\n  why {reason}\n" in re.sub(
        r"why +", "why ", shown.replace("\n          ", " ")
    )


def test_nothing_of_a_strangers_workspace_acts_on_the_terminal(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    """Names and texts with controls: of servers and their errors, scripts, tools, sequences, settings, rules, paths."""
    workspace = tmp_path / f"ws{EVIL}"
    for folder in ("scripts", "sequences", "temporals", f"tools/{EVIL}"):
        (workspace / ".paddock" / folder).mkdir(parents=True)
    broken = [sys.executable, "-c", f"import sys; sys.stderr.write({EVIL!r}); sys.exit(3)"]
    entries = {
        f"s{EVIL}": {"command": broken[0], "args": broken[1:]},
        "plain": {"command": EVIL},
        "odd": EVIL,
    }
    (workspace / ".mcp.json").write_text(json.dumps({"mcpServers": entries}))
    (workspace / ".paddock/scripts" / f"{EVIL}.js").write_text(f"throw new Error({json.dumps(EVIL)})")
    (workspace / ".paddock/sequences" / f"{EVIL}.toml").write_text(f"description = {json.dumps(EVIL)}")
    (workspace / ".paddock/temporals" / f"{EVIL}.toml").write_text(f"{EVIL} = 1")
    (workspace / ".paddock/tools" / EVIL / "tool.yaml").write_text(f"description: {json.dumps(EVIL)}\n")
    commands = [
        ("servers", "list"),
        ("servers", "tools"),
        ("servers", "search", "x"),
        ("servers", "tools", EVIL),
        ("servers", "call", EVIL, EVIL),
        ("servers", "enable", EVIL),
        ("script", "list"),
        ("script", "show", EVIL),
        ("run", EVIL),
        ("run", f"./.paddock/scripts/{EVIL}.js"),
        ("tool", "list"),
        ("tool", "validate"),
        ("tool", "show", EVIL),
        ("sequence", "list"),
        ("sequence", "run", EVIL),
        ("temporal", "list"),
        ("policy", "check", f"{EVIL}/{EVIL}"),
        ("policy", "explain", f"{EVIL}/{EVIL}"),
        ("config", "show", EVIL),
        ("output", "show", EVIL),
        ("audit", "show", EVIL),
        ("audit", "tail"),
        ("approve", EVIL),
        ("vault", "list", "--scope", EVIL),
        ("exec", "python", f"./{EVIL}.py"),
        (EVIL,),
    ]
    shown = {command: on_terminal(workspace, environment, *command) for command in commands}
    (workspace / "paddock.toml").write_text(f'[grants]\n"{EVIL}" = 1\n')
    shown |= {("settings",): on_terminal(workspace, environment, "policy", "show")}
    assert {command: HARMFUL.findall(text) for command, text in shown.items() if HARMFUL.search(text)} == {}
    assert sum("\\x1b]0;owned\\x07" in text for text in shown.values()) > 10


def test_a_record_without_entries_says_where_it_is(tmp_path: Path, environment: dict[str, str]) -> None:
    done = run_paddock(tmp_path, "audit", "tail", environment=environment)
    directory = Path(environment["HOME"]) / ".local/state/paddock/audit"
    assert done == (0, "", f"nothing is recorded yet in {directory}\n")


def test_output_that_is_empty_is_said_to_be_on_a_terminal(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    done = run_paddock(tmp_path, "exec", "shell", "-c", "true", "--json", environment=environment)
    handle = json.loads(done.stdout)["artifactHandle"]
    assert on_terminal(tmp_path, environment, "output", "show", handle) == "this output is empty\n"
    told = on_terminal(tmp_path, environment, "output", "show", handle, "--stream", "stdout")
    assert told == "there is nothing on stdout\n"
    assert run_paddock(tmp_path, "output", "show", handle, environment=environment) == (0, "", "")


def test_changes_are_paged_in_colours(tmp_path: Path, environment: dict[str, str]) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "less").write_text('#!/bin/sh\necho "LESS=$LESS"\nexec cat\n')
    (folder / "less").chmod(0o755)
    environment = {**environment, "PATH": f"{folder}:{environment['PATH']}"}
    workspace = tmp_path / "ws"
    workspace.mkdir()
    code = "echo new > new.txt; echo {} > .mcp.json"
    done = run_paddock(workspace, "exec", "--access", "overlay", "shell", "-c", code, environment=environment)
    assert done.returncode == 0, done.stderr
    listed = run_paddock(workspace, "changes", "list", "--json", environment=environment)
    set_id = json.loads(listed.stdout)[0]["id"]
    shown = on_terminal(workspace, environment, "changes", "show", set_id)
    assert shown.startswith("LESS=-FRX\n")
    assert "\x1b[31m  + .mcp.json (protected)\x1b[0m\n" in shown
    compared = on_terminal(workspace, environment, "changes", "diff", set_id)
    assert compared.startswith("LESS=-FRX\n")
    assert "\x1b[32m+new\x1b[0m\n" in compared
    plain = on_terminal(workspace, {**environment, "LESS": "-S"}, "changes", "diff", set_id)
    assert plain.startswith("LESS=-S\n")
    assert "\x1b" not in plain
    for without in ({"NO_COLOR": "1"}, {"NO_COLOR": "1", "PAGER": "cat"}):
        assert "\x1b" not in on_terminal(workspace, {**environment, **without}, "changes", "show", set_id)
