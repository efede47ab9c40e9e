"""Each client's own file gets the client's own entry, and keeps everything else: comments, commas, `env`."""

import json
import os
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from paddock.confinement.sandbox.child.protected_names import PROTECTED_PATHS
from paddock.confinement.sandbox.child.protection import BUILT_IN_RULES, list_protected_paths
from paddock.surfaces.cli.clients import jsonc
from paddock.surfaces.cli.clients.table import CLIENTS, McpClient, Scope
from paddock.surfaces.cli.root import command

GOLDEN = Path(__file__).parent / "golden"
CASES = [(client, scope) for client, about in CLIENTS.items() for scope in about.scopes]
VARIABLES = {name for about in CLIENTS.values() for name, _ in about.variables}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in (*VARIABLES, "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "home").mkdir()
    (tmp_path / "project").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr("paddock.surfaces.cli.clients.entry.sys.executable", "/opt/paddock/bin/python")
    monkeypatch.setattr(
        "paddock.surfaces.cli.clients.entry.shutil.which", lambda _: "/opt/paddock/bin/paddock"
    )
    return tmp_path / "home"


def install(*args: str) -> Result:
    return CliRunner().invoke(command, ["install", *args])


def commented(about: McpClient, file: Path) -> str:
    """Return a file as somebody keeps it, with a server of theirs."""
    match file.suffix:
        case ".toml":
            return (
                '# mine\nmodel = "o"  # the best\n\n[mcp_servers.other]\ncommand = "x"  # why not\n'
                'args = [ "1",\n  "2" ]\n'
            )
        case ".yaml":
            return (
                "# mine\nGOOSE_MODE:   auto   # calmly\nextensions:\n    # theirs\n    other:\n        cmd: x\n"
                "        args:\n        - '1'   # one\n\n# the end\nslow: |\n  text\n\n"
            )
        case _:
            return (
                '// mine\n{\n    "theme": "dark", /* at night */\n    "KEY": {\n'
                '        "other": { "command": "x", "args": ["1",] }, // theirs\n    },\n}\n'
            ).replace("KEY", about.key[0])


def read(text: str, file: Path) -> dict[str, Any]:
    match file.suffix:
        case ".toml":
            return tomllib.loads(text)
        case ".yaml":
            return yaml.safe_load(text)
        case _:
            return jsonc.parse(text).value


def file_of(client: str, scope: Scope, project: Path) -> Path:
    file = CLIENTS[client].locate(scope, project)
    file.parent.mkdir(parents=True, exist_ok=True)
    return file


@pytest.mark.parametrize(("client", "scope"), CASES)
def test_a_commented_file_gets_the_entry_and_nothing_else(home: Path, client: str, scope: Scope) -> None:
    project = home.with_name("project")
    file = file_of(client, scope, project)
    before = commented(CLIENTS[client], file)
    file.write_text(before)
    done = install(client, "--scope", scope, "--workspace", str(project))
    assert done.exit_code == 0, done.output
    after = file.read_text()
    golden = (GOLDEN / f"{client}.golden").read_text()
    assert after.replace(str(project), "/home/ada/project") == golden
    assert set(before.splitlines()) <= set(after.splitlines())
    again = install(client, "--scope", scope, "--workspace", str(project))
    assert (again.exit_code, again.stdout, file.read_text()) == (0, f"{file}: nothing to change\n", after)
    assert file.with_name(f"{file.name}.backup").read_text() == before
    assert install(client, "--scope", scope, "--workspace", str(project), "--remove").exit_code == 0
    left = "\n" if file.suffix == ".toml" else ""  # the blank line that tomlkit put before the table
    assert file.read_text() == before + left


@pytest.mark.parametrize(("client", "scope"), CASES)
def test_what_a_user_added_to_the_entry_stays(home: Path, client: str, scope: Scope) -> None:
    project = home.with_name("project")
    file = file_of(client, scope, project)
    args = ("--scope", scope, "--workspace", str(project))
    assert install(client, *args).exit_code == 0
    theirs = {
        ".toml": ("command = ", 'env = { TOKEN = "t" } # of mine\nenabled = false\ncommand = '),
        ".yaml": ("    cmd: ", "    env_keys: [TOKEN]  # of mine\n    timeouts: 7\n    cmd: "),
    }.get(file.suffix, ('"command":', '"env": {"TOKEN": "t"}, // of mine\n "disabled": true,\n "command":'))
    edited = file.read_text().replace(*theirs).replace("/opt/paddock/bin/paddock", "/old/paddock")
    file.write_text(edited)
    done = install(client, *args)
    assert done.exit_code == 0, done.output
    after = file.read_text()
    added = theirs[1].rpartition("\n")[0]
    assert added in edited
    assert added in after
    entry: Any = read(after, file)
    for name in (*CLIENTS[client].key, "paddock"):
        entry = entry[name]
    started = [entry.get("cmd") or entry["command"], *entry.get("args", [])]
    flat = [word for part in started for word in (part if isinstance(part, list) else [part])]
    assert flat == ["/opt/paddock/bin/paddock", "serve", "mcp", "--workspace", str(project)]
    assert "/old/paddock" not in after


@pytest.mark.parametrize("client", [client for client, about in CLIENTS.items() if about.project])
def test_a_file_of_a_project_is_out_of_reach_of_programs(client: str) -> None:
    for name in CLIENTS[client].project:
        assert [top for top in PROTECTED_PATHS if f"{name}/".startswith(f"{top}/")] != [], name


@pytest.mark.parametrize("client", CLIENTS)
def test_a_file_of_a_user_is_out_of_reach_of_programs_in_the_home(client: str, home: Path) -> None:
    for name in CLIENTS[client].user["linux"]:
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).touch()
        root = os.open(home, os.O_PATH)
        found = list_protected_paths(root, BUILT_IN_RULES)
        os.close(root)
        assert [top for top in found if f"{name}/".startswith(f"{top}/")] != [], name


@pytest.mark.parametrize(
    ("client", "variable", "moved"),
    [
        ("claude-code", "CLAUDE_CONFIG_DIR", ("other", "other/.claude.json")),
        ("codex", "CODEX_HOME", ("other", "other/config.toml")),
        ("gemini-cli", "GEMINI_CLI_HOME", ("other", "other/.gemini/settings.json")),
        ("copilot-cli", "COPILOT_HOME", ("other", "other/mcp-config.json")),
        ("cline", "CLINE_MCP_SETTINGS_PATH", ("other/mine.json", "other/mine.json")),
        ("amp", "AMP_SETTINGS_FILE", ("other/mine.json", "other/mine.json")),
        ("opencode", "OPENCODE_CONFIG", ("other/mine.json", "other/mine.json")),
        ("opencode", "XDG_CONFIG_HOME", ("other", "other/opencode/opencode.json")),
        ("zed", "XDG_CONFIG_HOME", ("other", "other/zed/settings.json")),
        ("vscode", "XDG_CONFIG_HOME", ("other", "other/Code/User/mcp.json")),
        ("goose", "XDG_CONFIG_HOME", ("other", "other/goose/config.yaml")),
        ("amp", "XDG_CONFIG_HOME", (".config", ".config/amp/settings.json")),
        ("continue", "CONTINUE_GLOBAL_DIR", ("other", "other/mcpServers/paddock.json")),
    ],
)
def test_a_variable_moves_the_file_of_the_user(
    home: Path, monkeypatch: pytest.MonkeyPatch, client: str, variable: str, moved: tuple[str, str]
) -> None:
    value, file = moved
    monkeypatch.setenv(variable, str(home / value))
    done = install(client, "--scope", "user", "--json")
    assert (done.exit_code, json.loads(done.stdout)["file"]) == (0, str(home / file))
    assert [each.name for each in home.iterdir()] == [Path(file).parts[0]]


def test_a_file_of_another_spelling_is_the_one_that_is_edited(home: Path) -> None:
    project = home.with_name("project")
    (project / "opencode.jsonc").write_text("{ // mine\n}\n")
    assert install("opencode", "--workspace", str(project)).exit_code == 0
    assert [each.name for each in sorted(project.iterdir())] == ["opencode.jsonc", "opencode.jsonc.backup"]


@pytest.mark.parametrize(
    ("client", "text", "why"),
    [
        ("cursor", '{\n  "mcpServers": }', "line 2, column 17: expected a value"),
        ("cursor", '{"mcpServers": []}', "`mcpServers` is not an object"),
        ("cursor", '{"mcpServers": {}, "mcpServers": {}}', "`mcpServers` occurs twice there"),
        ("codex", "a = 1\nb = ", "Invalid value (at end of document)"),
        ("codex", "mcp_servers = 1\n", "`mcp_servers` is not an object"),
        ("goose", "a: [1\nb: 2", "line 2, column 2: expected ',' or ']', but got ':'"),
        ("goose", "- a\n", "the file as a whole is not an object"),
        ("cursor", "[1,2]", "the file as a whole is not an object"),
        ("amp", '{"amp.mcpServers": 1}', "`amp.mcpServers` is not an object"),
        ("codex", "a = 1\nb = [\n", "Invalid value (at end of document)"),
        ("codex", "a = 1\nb = x\n", "Invalid value (at line 2, column 5)"),
        ("goose", "{extensions: {a: {cmd: x}}}", "it is written in flow style, which Paddock does not edit"),
    ],
)
def test_a_file_that_is_not_understood_stays_as_it_is(home: Path, client: str, text: str, why: str) -> None:
    file = file_of(client, "user", home)
    file.write_text(text)
    done = install(client, "--scope", "user", "--workspace", str(home))
    assert (
        done.exit_code,
        done.output.partition("\n")[0].startswith(f"{file}: {why}. Nothing was changed"),
    ) == (
        1,
        True,
    ), done.output
    assert (file.read_text(), [each.name for each in file.parent.iterdir()]) == (text, [file.name])
