"""`paddock install --move-servers`: a client's servers become Paddock's."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from paddock.engines.servers.config import load_servers
from paddock.surfaces.cli.root import command

SERVERS = """{
  "mcpServers": {
    // what time it is
    "time": { "command": "uvx", "args": ["mcp-server-time"] },
    "git": { "command": "uvx", "args": ["mcp-server-git"], "cwd": "sub" }
  }
}
"""


def run(*args: str) -> Result:
    return CliRunner().invoke(command, ["install", *args])


G = '{"mcpServers":{"g":{"command":"x"}}}'


def servers_of(file: Path) -> dict[str, Any]:
    return json.loads(file.read_text())["mcpServers"]


def test_servers_that_the_client_starts_itself_are_warned_of(home: Path) -> None:
    (home / ".mcp.json").write_text(SERVERS)
    done = run("claude-code")
    assert (done.exit_code, done.stderr.splitlines()[0]) == (
        0,
        f"warning: Claude Code starts the servers of {home}/.mcp.json itself, so its agent can call them without Paddock, too: "
        "time, git. To move them to .paddock/servers.json: paddock install claude-code --move-servers",
    )
    assert not (home / ".paddock").exists()
    assert "warning" not in run("cursor").stderr


def test_servers_move_to_the_file_that_paddock_alone_reads(home: Path) -> None:
    (home / ".mcp.json").write_text(SERVERS)
    rehearsed = run("claude-code", "--move-servers", "--dry-run")
    assert f"+++ {home}/.paddock/servers.json" in rehearsed.stdout
    assert not (home / ".paddock").exists()
    done = run("claude-code", "--move-servers", "--json")
    assert (done.exit_code, json.loads(done.stdout)["moved"]) == (0, ["time", "git"])
    assert json.loads((home / ".paddock/servers.json").read_text()) == {
        "mcpServers": {
            "time": {"command": "uvx", "args": ["mcp-server-time"]},
            "git": {"command": "uvx", "args": ["mcp-server-git"], "cwd": "sub"},
        }
    }
    left = (home / ".mcp.json").read_text()
    assert "// what time it is" in left
    assert left.count('"command"') == 1
    assert (home / ".mcp.json.backup").read_text() == SERVERS
    found = load_servers(home / ".paddock/servers.json", {}, base=home)
    assert getattr(found.servers["git"], "cwd", None) == home / "sub"
    assert run("claude-code").stderr == ""
    assert run("cursor", "--move-servers", "--json").exit_code == 0


def test_a_server_of_the_same_name_is_not_overwritten(home: Path) -> None:
    (home / ".mcp.json").write_text(SERVERS)
    (home / ".paddock").mkdir()
    own = home / ".paddock/servers.json"
    own.write_text('{"mcpServers": {"git": {"command": "mine"}}}')
    done = run("claude-code", "--move-servers")
    assert done.stderr.splitlines()[0] == (
        f"warning: git stays in {home}/.mcp.json: {own} has another server of that name"
    )
    servers = json.loads(own.read_text())["mcpServers"]
    assert (servers["git"], list(servers)) == ({"command": "mine"}, ["git", "time"])
    assert '"mcp-server-git"' in (home / ".mcp.json").read_text()


def test_where_a_setting_names_another_servers_file_nothing_is_moved(home: Path) -> None:
    (home / ".mcp.json").write_text(SERVERS)
    (home / ".config/paddock").mkdir(parents=True)
    (home / ".config/paddock/paddock.toml").write_text('[servers]\nconfig = "/etc/servers.json"\n')
    assert "warning" not in run("claude-code").stderr
    done = run("claude-code", "--move-servers")
    told = "servers.config names /etc/servers.json, so Paddock does not read .mcp.json here.\n"
    assert (done.exit_code, done.output) == (1, told)


def test_a_servers_file_that_is_a_link_is_edited_once(home: Path) -> None:
    real = home / "real.json"
    real.write_text(G)
    (home / ".mcp.json").symlink_to("real.json")
    done = run("claude-code", "--move-servers")
    assert (done.exit_code, done.stdout.count(f"--- {real}\n")) == (0, 1)
    assert (list(servers_of(real)), (home / ".mcp.json").is_symlink()) == (["paddock"], True)
    assert servers_of(home / ".paddock/servers.json") == {"g": {"command": "x"}}


@pytest.mark.parametrize("back", [False, True])
def test_servers_do_not_move_from_a_file_to_itself(home: Path, *, back: bool) -> None:
    own, shared = home / ".paddock/servers.json", home / ".mcp.json"
    own.parent.mkdir()
    real, link = (own, shared) if back else (shared, own)
    real.write_text(G)
    link.symlink_to(real)
    done = run("claude-code", "--move-servers")
    assert (done.exit_code, done.output) == (
        1,
        f".paddock/servers.json and .mcp.json are one file here, {real}, so its servers cannot move from one to the "
        "other. Nothing was changed; replace the link by a copy of the file first.\n",
    )
    assert (real.read_text(), link.is_symlink()) == (G, True)


def test_a_file_with_two_names_is_not_written_under_one_of_them(home: Path) -> None:
    own, shared = home / ".paddock/servers.json", home / ".mcp.json"
    own.parent.mkdir()
    shared.write_text(G)
    own.hardlink_to(shared)
    done = run("claude-code", "--move-servers")
    assert (done.exit_code, done.output) == (
        1,
        f"{own} and {shared} are two names of one file (a hard link). Nothing was changed; remove one of the two "
        "first.\n",
    )
    assert (shared.read_text(), own.samefile(shared)) == (G, True)


@pytest.mark.parametrize("to", [".mcp.json", ".paddock/servers.json"])
def test_the_file_of_a_client_that_is_a_link_to_a_servers_file_is_edited_once(home: Path, to: str) -> None:
    (home / ".cursor").mkdir()
    (home / ".paddock").mkdir()
    (home / ".mcp.json").write_text(G)
    (home / ".cursor/mcp.json").symlink_to(home / to)
    assert run("cursor", "--move-servers").exit_code == 0
    entered = servers_of(home / to)
    assert ("paddock" in entered, (home / ".cursor/mcp.json").is_symlink()) == (True, True)
    assert {name for file in (".mcp.json", ".paddock/servers.json") for name in servers_of(home / file)} == {
        "g",
        "paddock",
    }
    assert servers_of(home / ".paddock/servers.json")["g"] == {"command": "x"}


def test_servers_are_in_the_new_place_before_the_old_one_is_emptied(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, shared = home / ".paddock/servers.json", home / ".mcp.json"
    shared.write_text(G)

    def crash(path: Path, data: bytes, *, mode: int) -> None:
        if path == shared:
            raise OSError(28, "No space left on device")
        path.write_bytes(data)
        path.chmod(mode)

    monkeypatch.setattr("paddock.surfaces.cli.clients.files.replace_file", crash)
    done = run("claude-code", "--move-servers")
    assert (done.exit_code, done.output) == (
        1,
        f"{shared}: cannot be written: No space left on device. {own} was changed before; make it writable and "
        "run the command again, or make by hand the change that --dry-run shows.\n",
    )
    assert (shared.read_text(), servers_of(own)) == (G, {"g": {"command": "x"}})
    monkeypatch.undo()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(home)
    assert run("claude-code", "--move-servers").exit_code == 0
    assert (list(servers_of(shared)), list(servers_of(own))) == (["paddock"], ["g"])


def test_servers_do_not_move_to_a_file_that_paddock_does_not_read(home: Path) -> None:
    own, shared = home / ".paddock/servers.json", home / ".mcp.json"
    own.parent.mkdir()
    own.write_text('{"mcpServers": {}} // mine\n')
    shared.write_text(G)
    done = run("claude-code", "--move-servers")
    assert (done.exit_code, done.output) == (
        1,
        f"{own}: Paddock needs JSON without comments there, so it would not find servers that move there. "
        "Nothing was changed; correct the file first. `paddock servers list` says where.\n",
    )
    assert shared.read_text() == G


def test_a_servers_file_with_comments_says_that_its_own_servers_are_not_used(home: Path) -> None:
    own, shared = home / ".paddock/servers.json", home / ".mcp.json"
    own.parent.mkdir()
    own.write_text(G)
    shared.write_text('{ // mine\n"mcpServers": {"h": {"command": "y"}}}')
    done = CliRunner().invoke(command, ["servers", "list"])
    assert done.stdout == "g\tstdio\tx\t\n"
    assert done.stderr.endswith("JSON has no comments: remove them. None of its servers is used.\n")
