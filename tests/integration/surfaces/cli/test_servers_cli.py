"""`paddock servers` with a real upstream server; `real_servers` comes from tests/conftest.py."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from tests.support.command import PADDOCK, Ended, make_environment, run_paddock
from tests.support.terminal import at_terminal


@pytest.fixture
def paddock(tmp_path: Path, real_servers: Any) -> Any:
    program, *arguments = real_servers.everything
    (tmp_path / ".mcp.json").write_text(
        json.dumps({"mcpServers": {"all": {"command": program, "args": arguments}, "odd": {}}})
    )
    environment = make_environment(tmp_path / "home")

    def paddock(*args: str, stdin: str = "") -> Ended:
        return run_paddock(tmp_path, *args, stdin=stdin, environment=environment)

    return paddock


@pytest.fixture
def warning(tmp_path: Path) -> str:
    file = f"{tmp_path}/.mcp.json"
    return f"warning: {file}: server 'odd': has neither `command` nor `url`; skipped.\n"


def test_x34_servers_are_listed_with_warnings(paddock: Any, real_servers: Any, warning: str) -> None:
    assert paddock("servers", "list") == (0, f"all\tstdio\t{real_servers.everything[0]}\t\n", warning)


def test_servers_that_are_disabled_are_named(
    paddock: Any, tmp_path: Path, real_servers: Any, warning: str
) -> None:
    file = tmp_path / ".mcp.json"
    servers = json.loads(file.read_text())["mcpServers"]
    servers["off"] = {**servers["all"], "disabled": True}
    file.write_text(json.dumps({"mcpServers": servers}))
    listed = f"all\tstdio\t{real_servers.everything[0]}\t\n"
    off = "off is disabled in .mcp.json; `paddock servers enable off` enables it\n"
    assert paddock("servers", "list") == (0, listed, f"{warning}{off}")


def test_tools_are_listed(paddock: Any, warning: str) -> None:
    code, output, errors = paddock("servers", "tools", "all", "--json")
    assert (code, errors) == (0, warning)
    echo = next(tool for tool in json.loads(output) if tool["tool"] == "echo")
    assert echo["server"] == "all"
    assert echo["input_schema"]["properties"]["message"]["type"] == "string"


def test_x25_a_server_that_is_not_configured(paddock: Any, warning: str) -> None:
    code, output, errors = paddock("servers", "tools", "nonexistent")
    assert (code, output, errors) == (
        1,
        "",
        f"{warning}Unknown server: nonexistent\n  those there are: all\n",
    )


def test_a_call_and_what_the_ledger_says_of_it(paddock: Any, warning: str) -> None:
    code, output, errors = paddock("servers", "call", "all", "echo", "--args", '{"message": "hello"}')
    assert (code, output, errors) == (0, "Echo: hello\n", warning)
    code, output, _ = paddock("audit", "tail", "--json")
    records = json.loads(output)
    assert (code, [record["event"] for record in records]) == (0, ["started", "finished"])
    assert {record["fields"]["name"] for record in records} == {"all/echo"}


def test_calls_that_policy_denies_are_told_and_recorded(paddock: Any, tmp_path: Path) -> None:
    (tmp_path / "paddock.toml").write_text(
        '[[policy.rule]]\neffect = "deny"\ntool = "*/echo"\nreason = "no echo here"\n'
    )
    code, output, errors = paddock("servers", "call", "all", "echo", "--args", '{"message": "hello"}')
    assert (code, output, errors) == (1, "", "no echo here\n")
    source = "try { await servers.all.call('echo', {message: 'x'}) } catch (e) { return e.message }"
    assert paddock("run", "-", stdin=source) == (0, "no echo here\n", "")
    _, output, _ = paddock("audit", "tail", "--event", "decided", "--json")
    assert [record["fields"]["rule"] for record in json.loads(output)] == ["workspace rule 1"] * 2


@pytest.mark.parametrize(("answer", "left"), [("y", ["paddock"]), ("n", ["all", "odd", "paddock"])])
def test_a_person_at_a_terminal_is_asked_whether_servers_move(
    paddock: Any, tmp_path: Path, answer: str, left: list[str]
) -> None:
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path / "home"), "LANG": "C.UTF-8"}
    shown, code = at_terminal([PADDOCK, "install", "claude-code"], tmp_path, environment, early=f"{answer}\n")
    assert (code, "Move them now? [y/N]: " in shown) == (0, True)
    assert list(json.loads((tmp_path / ".mcp.json").read_text())["mcpServers"]) == left


def test_a_server_that_moved_is_the_one_it_was(paddock: Any, tmp_path: Path, real_servers: Any) -> None:
    assert paddock("servers", "tools", "all")[0] == 0
    before = sorted(tmp_path.glob("home/.local/state/paddock/servers/*/pins.json"))
    code, output, errors = paddock("install", "claude-code", "--move-servers", "--json")
    assert (code, json.loads(output)["moved"], errors) == (0, ["all", "odd"], "")
    own, shared = tmp_path / ".paddock/servers.json", tmp_path / ".mcp.json"
    assert list(json.loads(shared.read_text())["mcpServers"]) == ["paddock"]
    listed = f"all\tstdio\t{real_servers.everything[0]}\t\n"
    skipped = f"warning: {own}: server 'odd': has neither `command` nor `url`; skipped.\n"
    assert paddock("servers", "list") == (0, listed, skipped)
    assert paddock("servers", "tools", "all")[0] == 0
    assert sorted(tmp_path.glob("home/.local/state/paddock/servers/*/pins.json")) == before
    assert len(before) == 1
    shared.write_text(json.dumps({"mcpServers": {"all": {"command": "/bin/false"}}}))
    twice = f"{own} also has it, and that entry is used; remove one of them"
    warned = f"warning: {shared}: server 'all': {twice}\n"
    assert paddock("servers", "list") == (0, listed, f"{skipped}{warned}")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("time.now",), " Server and tool are two words: paddock servers call time now"),
        (("time/now", "{}"), " Server and tool are two words: paddock servers call time now"),
        (("time.now", "@arguments.json"), " Server and tool are two words: paddock servers call time now"),
        (("time",), ""),
        (("time.",), ""),
    ],
)
def test_a_call_that_names_its_tool_with_the_server_is_shown_the_right_form(
    paddock: Any, words: tuple[str, ...], told: str
) -> None:
    code, output, errors = paddock("servers", "call", *words)
    assert (code, output, errors.splitlines()[-1]) == (2, "", f"Error: Missing argument 'TOOL'.{told}")


def test_pins_that_cannot_be_read_let_no_call_leave(paddock: Any, tmp_path: Path) -> None:
    assert paddock("servers", "tools", "all")[0] == 0
    [pins] = tmp_path.glob("home/.local/state/paddock/servers/*/pins.json")
    pins.unlink()
    os.mkfifo(pins)
    why = f"{pins}: cannot be read: it is a pipe, not a regular file; move {pins} away"
    source = "return await servers.all.echo({message: 'x'})"
    code, output, _ = paddock("run", "-", "--json", stdin=source)
    outcome = json.loads(output)
    [call] = outcome["calls"]
    assert (code, outcome["error"]["message"], call["status"]) == (1, why, "unavailable")
    assert "effect is unknown" not in paddock("run", "-", stdin=source)[2]
    assert paddock("servers", "call", "all", "echo", '{"message": "x"}')[2].endswith(f"{why}\n")
    for command in ("diff", "approve all"):
        assert paddock("servers", *command.split()) == (1, "", f"{why}\n")
