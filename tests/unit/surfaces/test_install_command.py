"""`paddock install`: idempotent, with the difference shown and a backup kept."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from paddock.surfaces.cli.install import CLIENTS
from paddock.surfaces.cli.root import command


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def run(*args: str) -> Result:
    return CliRunner().invoke(command, ["install", *args])


@pytest.mark.parametrize("client", [name for name, about in CLIENTS.items() if about.file])
def test_in_and_out_again(home: Path, client: str) -> None:
    about = CLIENTS[client]
    file = home / about.file
    file.parent.mkdir(parents=True, exist_ok=True)
    others = {"theme": "dark", about.key: {"other": {"command": "x"}}}
    file.write_text(json.dumps(others))
    assert run(client, "--workspace", str(home)).exit_code == 0
    written = json.loads(file.read_text())
    entry = written[about.key]["paddock"]
    assert entry["args"] == ["serve", "mcp", "--workspace", str(home)]
    assert (written["theme"], written[about.key]["other"]) == ("dark", {"command": "x"})
    assert json.loads(file.with_name(f"{file.name}.backup").read_text()) == others
    again = run(client, "--workspace", str(home))
    assert (again.exit_code, again.output) == (0, f"{file}: nothing to change\n")
    assert run(client, "--remove").exit_code == 0
    assert json.loads(file.read_text()) == others


def test_a_new_file_is_private_and_has_no_backup(home: Path) -> None:
    done = run("cursor", "--json")
    file = home / ".cursor/mcp.json"
    told = json.loads(done.output)
    assert '\n+    "paddock": {\n' in told.pop("difference")
    assert told == {"file": str(file), "changed": True, "backup": None}
    assert file.stat().st_mode & 0o777 == 0o600


def test_printing_changes_nothing(home: Path) -> None:
    done = run("cursor", "--print")
    assert done.exit_code == 0
    assert '+    "paddock": {' in done.output
    told = json.loads(run("cursor", "--print", "--json").output)
    assert (told["changed"], told["difference"]) == (False, done.output.removesuffix("\n"))
    assert not (home / ".cursor").exists()


def test_a_file_that_is_no_json_stays_as_it_is(home: Path) -> None:
    file = home / ".claude.json"
    file.write_text("{ broken")
    done = run("claude-code")
    assert (done.exit_code, file.read_text()) == (1, "{ broken")
    assert str(file) in done.output
    file.write_bytes(b"\xff")
    assert run("claude-code").output == f"{file}: cannot be read: it is not UTF-8 text\n"
    file.unlink()
    file.mkdir()
    assert run("claude-code").output == f"{file}: cannot be read: Is a directory\n"


def test_any_other_client() -> None:
    servers = json.loads(run("mcp-json").output)["mcpServers"]
    assert servers["paddock"]["args"][:2] == ["serve", "mcp"]
