"""The commands around `run`, and what loading them costs."""

import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace

import click
import pytest
from click.testing import CliRunner, Result

from paddock.engines.servers.config import HttpServer, ServersConfig, StdioServer
from paddock.engines.servers.result import ToolInfo
from paddock.model.errors import ServerError
from paddock.model.outcome import Outcome, Status
from paddock.model.request import ExecutionRequest, ServerCall
from paddock.policy.settings.schema import Settings
from paddock.surfaces.cli import table
from paddock.surfaces.cli.root import command

TOOL = ToolInfo("log", "Show the log.\nMore.", {"type": "object"}, None, {})


@pytest.fixture
def ws(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    workspace = tmp_path / "ws"
    workspace.mkdir()
    monkeypatch.chdir(workspace)
    return workspace


class Servers:
    """Two servers, of which one has a tool, and one a login."""

    logins = SimpleNamespace(find_state=lambda _: "logged in")
    config = ServersConfig(
        {
            "git": StdioServer("git", "uvx", ("--token", "x")),
            "web": HttpServer("web", "https://me:secret@example.org/mcp?key=secret"),
        },
        ("server 'x': skipped.",),
    )

    async def list_tools(self, server: str) -> list[ToolInfo]:
        if server != "git":
            raise ServerError("it is away")
        return [TOOL]

    def explain_unchecked(self, _server: str, tool: str) -> str:
        return f"{tool} is not checked"


class Session:
    """A session with servers, whose gate answers every request with 42."""

    def __init__(self) -> None:
        self.requests: list[ExecutionRequest] = []
        self.servers = Servers()
        self.gate = self
        self.warnings = ("odd file",)

    async def execute(self, request: ExecutionRequest, **_: object) -> Outcome:
        self.requests.append(request)
        return Outcome(id="1", status=Status.OK, value=42, has_value=True)

    @asynccontextmanager
    async def open(self, _settings: Settings, _workspace: Path, **_: str) -> AsyncIterator["Session"]:
        yield self


def paddock(*args: str, session: Session | None = None, stdin: str = "") -> Result:
    obj = (session or Session()).open
    return CliRunner().invoke(command, args, obj=obj, prog_name="paddock", input=stdin)


def test_servers_list_starts_nothing_and_keeps_secrets(ws: Path) -> None:
    result = paddock("servers", "list")
    assert result.stdout == "git\tstdio\tuvx\t\nweb\thttp\thttps://example.org/mcp\tlogged in\n"
    assert result.stderr == "warning: server 'x': skipped.\n"
    assert json.loads(paddock("servers", "list", "--json").stdout)[0] == {
        "name": "git",
        "transport": "stdio",
        "address": "uvx",
        "login": "",
        "confine": None,
    }


def test_servers_tools_tells_what_it_could_learn(ws: Path) -> None:
    result = paddock("servers", "tools")
    assert (result.exit_code, result.stdout) == (1, "git\tlog\tShow the log.\n")
    assert result.stderr == (
        "warning: server 'x': skipped.\nwarning: git.log: log is not checked\nweb: it is away\n"
    )
    one = paddock("servers", "tools", "git", "--json")
    assert (one.exit_code, json.loads(one.stdout)) == (
        0,
        [
            {
                "server": "git",
                "tool": "log",
                "description": "Show the log.\nMore.",
                "input_schema": {"type": "object"},
                "notes": ["log is not checked"],
            }
        ],
    )


def test_servers_call_goes_through_the_gate(ws: Path) -> None:
    session = Session()
    result = paddock("servers", "call", "git", "log", session=session)
    assert (result.exit_code, result.stdout, result.stderr) == (0, "42\n", "warning: odd file\n")
    assert session.requests[0].work == ServerCall(server="git", tool="log", arguments={})
    for given in (("--args", '{"n": 1}'), ('{"n": 1}',)):
        session = Session()
        assert paddock("servers", "call", "git", "log", *given, session=session).exit_code == 0
        assert session.requests[0].work == ServerCall(server="git", tool="log", arguments={"n": 1})


def test_arguments_of_a_call_that_make_no_sense_are_refused(ws: Path) -> None:
    for given, told in (
        (("--args", "[]"), "Invalid value for --args: must be a JSON object"),
        (("[]",), "Invalid value for JSON: must be a JSON object"),
        (("{}", "--args", "{}"), "The arguments are given twice: as JSON and with --args."),
    ):
        wrong = paddock("servers", "call", "git", "log", *given)
        assert wrong.exit_code == 2
        assert wrong.stderr.endswith(f"Error: {told}\n")


def test_scripts_are_made_listed_and_shown(ws: Path) -> None:
    assert paddock("script", "new", "hi").stdout == f"{ws}/.paddock/scripts/hi.ts\n"
    paddock("script", "new", "hi.js")
    assert paddock("script", "list").stdout == (
        f"hi\t{ws}/.paddock/scripts/hi.ts\t\nhi\t{ws}/.paddock/scripts/hi.js\thidden\n"
    )
    assert json.loads(paddock("script", "list", "--json").stdout)[1] == {
        "name": "hi",
        "path": f"{ws}/.paddock/scripts/hi.js",
        "hidden": True,
    }
    shown = paddock("script", "show", "hi").stdout
    assert shown == (ws / ".paddock/scripts/hi.ts").read_text()
    assert shown.startswith("// Run it with: paddock run hi ")
    again = paddock("script", "new", "hi")
    assert (again.exit_code, again.stderr) == (
        1,
        f"{ws}/.paddock/scripts/hi.ts exists already; choose another name or remove it\n",
    )
    assert paddock("script", "new", "../x").exit_code == 2


def test_config_show_tells_sources(ws: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PADDOCK_GUEST_MAX_WORKERS", "3")
    (ws / "paddock.toml").write_text("[guest]\nspare_workers = 0\n")
    assert paddock("config", "show", "guest").stdout == (
        "guest.max_workers\t3\tPADDOCK_GUEST_MAX_WORKERS\n"
        f"guest.spare_workers\t0\t{ws}/paddock.toml, line 2\n"
        'guest.check_typescript\t"types"\tbuilt in\n'
        'guest.check_javascript\t"warn"\tbuilt in\n'
    )
    shown = json.loads(paddock("config", "show", "--json", "--set", "audit.sync=always").stdout)
    assert shown["audit.sync"] == {"value": "always", "source": "--set audit.sync"}
    assert shown["policy.rule"] == {"value": [], "source": "built in"}
    assert shown["audit.directory"]["value"].endswith("/state/paddock/audit")
    for wrong, right in (
        ("gest", "guest"),
        ("limits.scrpt", "limits.script"),
        ("guest.workers", "guest.max_workers"),
    ):
        refused = paddock("config", "show", wrong)
        told = f"Invalid value for PREFIX: there is no setting {wrong}; did you mean `{right}`?"
        assert (refused.exit_code, told in refused.stderr) == (2, True), refused.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(shell: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "_PADDOCK_COMPLETE" in paddock("completion", shell).stdout


def test_names_of_scripts_are_completed(ws: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paddock("script", "new", "report")
    words = {"_PADDOCK_COMPLETE": "bash_complete", "COMP_WORDS": "paddock run re", "COMP_CWORD": "2"}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in words.items():
            patch.setenv(name, value)
        assert "plain,report" in paddock().stdout.splitlines()


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("paddock exec py", ["python"]),
        ("paddock runtimes install ko", ["kotlin"]),
        ("paddock servers call g", ["git"]),
        ("paddock servers search x --server w", ["web"]),
        ("paddock tool run gre", ["greet"]),
        ("paddock output query x", []),
        ("paddock audit tail --event a", ["asked", "answered", "approved", "archived"]),
        ("paddock servers tools --set servers.config=/nowhere/servers.json ", []),
    ],
)
def test_what_is_there_is_completed(
    ws: Path, monkeypatch: pytest.MonkeyPatch, words: str, offered: list[str]
) -> None:
    (ws / ".mcp.json").write_text(
        json.dumps({"mcpServers": {"git": {"command": "x"}, "web": {"url": "https://a.example"}}})
    )
    assert paddock("tool", "new", "greet").exit_code == 0
    monkeypatch.setenv("_PADDOCK_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(len(words.split(" ")) - 1))
    assert paddock().stdout.split() == [f"plain,{name}" for name in offered]


def commands(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        found = group.get_command(context, name)
        yield (*path, name)
        if isinstance(found, click.Group):
            yield from commands(found, (*path, name))


@pytest.mark.parametrize("path", [(), *commands(command)], ids=" ".join)
def test_every_help_page_has_examples(path: tuple[str, ...]) -> None:
    page = paddock(*path, "--help").stdout
    _, _, shown = page.partition("Examples:\n")
    assert f"  paddock {' '.join(path)}".rstrip() in shown.replace('eval "$(', "")


def test_a_terminal_gets_tables(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    table.print_table(("name", "text"), [("a", "b\x1b]0;title\x07")])
    shown = capsys.readouterr().out
    assert "name" in shown
    assert r"\x1b]0;title\x07" in shown


def test_a_table_in_a_pipe_spells_out_what_would_move_the_cursor_of_the_terminal_behind_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    table.print_table(("name", "text"), [("a\tb\nc", "d\x1b]0;title\x07")])
    assert capsys.readouterr().out == "a b c\td\\x1b]0;title\\x07\n"


def loaded_by(*args: str) -> set[str]:
    code = (
        f"import sys\nsys.argv[1:] = {list(args)!r}\nfrom paddock.surfaces.cli import main\n"
        "try: main()\nexcept SystemExit: pass\n"
        "print('\\n'.join(sys.modules), file=sys.stderr)"
    )
    env = {name: value for name, value in os.environ.items() if not name.startswith(("COV_", "PADDOCK_"))}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env)
    return set(done.stderr.split())


@pytest.mark.parametrize("option", ["--version", "--help"])
def test_version_and_help_load_nothing_heavy(option: str) -> None:
    heavy = {"pydantic", "rich", "asyncio", "mcp", "anyio", "platformdirs", "ulid", "json"}
    assert loaded_by(option) & heavy == set()


def test_help_of_a_command_loads_neither_rich_nor_mcp() -> None:
    assert loaded_by("servers", "--help") & {"rich", "mcp", "anyio", "mini_racer"} == set()
