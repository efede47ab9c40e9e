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


def test_a_file_with_comments_stays_as_it_is_and_says_what_to_enter(home: Path) -> None:
    file = home / ".config/Code/User/mcp.json"
    file.parent.mkdir(parents=True)
    commented = '{\n  // mine\n  "servers": {}\n}\n'
    file.write_text(commented)
    done = run("vscode", "--workspace", str(home))
    told, by_hand = done.output.splitlines()
    why = "Expecting property name enclosed in double quotes: line 2 column 3 (char 4)"
    assert (done.exit_code, told) == (
        1,
        f"{file}: is no plain JSON, and what is more would be lost: {why}",
    )
    lead, _, entry = by_hand.partition(': "paddock": ')
    assert (lead, json.loads(entry)["args"]) == (
        "Enter by hand, in `servers`",
        ["serve", "mcp", "--workspace", str(home)],
    )
    assert run("vscode", "--remove").output.splitlines()[1] == "Take `paddock` out of `servers` by hand."
    assert file.read_text() == commented


def test_what_cannot_be_read_stays_as_it_is(home: Path) -> None:
    file = home / ".claude.json"
    file.write_text("[]")
    assert run("claude-code").output == f"{file}: holds no JSON object; correct the file first\n"
    file.write_bytes(b"\xff")
    assert run("claude-code").output == f"{file}: cannot be read: it is not UTF-8 text\n"
    file.unlink()
    file.mkdir()
    assert run("claude-code").output == f"{file}: cannot be read: Is a directory\n"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"mcpServers": {"a": {}}, "mcpServers": {}}', "it has 'mcpServers' twice"),
        ('{"a": {"k": 1, "l": 2, "k": 1}}', "it has 'k' twice"),
        ('{"far": 1e400}', "Out of range float values are not JSON compliant"),
        ('{"none": NaN}', "Out of range float values are not JSON compliant"),
    ],
)
def test_what_would_be_lost_in_writing_stays_as_it_is(home: Path, text: str, why: str) -> None:
    file = home / ".cursor/mcp.json"
    file.parent.mkdir()
    file.write_text(text)
    done = run("cursor")
    told, by_hand = done.output.splitlines()
    assert (done.exit_code, by_hand.startswith("Enter by hand, in `mcpServers`: ")) == (1, True)
    assert told.startswith(f"{file}: is no plain JSON, and what is more would be lost: {why}")
    assert (file.read_text(), [each.name for each in file.parent.iterdir()]) == (text, ["mcp.json"])


def test_half_of_a_character_stays_what_it_is(home: Path) -> None:
    file = home / ".cursor/mcp.json"
    file.parent.mkdir()
    file.write_text(r'{"half": "\ud800 é"}')
    assert run("cursor").exit_code == 0
    assert r'"half": "\ud800 é"' in file.read_text()


def test_a_link_that_leads_back_to_itself(home: Path) -> None:
    file = home / ".cursor/mcp.json"
    file.parent.mkdir()
    file.symlink_to(file)
    done = run("cursor", "--print")
    assert (done.exit_code, done.output) == (
        1,
        f"{file}: is a link that leads back to itself; correct it first\n",
    )


def test_an_empty_file_is_as_good_as_none(home: Path) -> None:
    file = home / ".gemini/settings.json"
    file.parent.mkdir()
    file.write_text("\n")
    assert run("gemini-cli").exit_code == 0
    assert list(json.loads(file.read_text())["mcpServers"]) == ["paddock"]


def test_a_link_stays_a_link(home: Path) -> None:
    file, kept = home / ".cursor/mcp.json", home / "dotfiles/mcp.json"
    for each in (file, kept):
        each.parent.mkdir()
    file.symlink_to(kept)
    assert run("cursor").exit_code == 0
    assert (file.is_symlink(), list(json.loads(kept.read_text())["mcpServers"])) == (True, ["paddock"])
    assert run("cursor", "--remove").exit_code == 0
    assert (file.is_symlink(), json.loads(kept.read_text())) == (True, {"mcpServers": {}})
    assert kept.with_name("mcp.json.backup").exists()


def test_any_other_client() -> None:
    servers = json.loads(run("mcp-json").output)["mcpServers"]
    assert servers["paddock"]["args"][:2] == ["serve", "mcp"]
