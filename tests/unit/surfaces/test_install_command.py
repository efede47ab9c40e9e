"""`paddock install`: idempotent, with the difference shown and a backup kept, and one project never in another's place."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from paddock.hub.config import load_servers
from paddock.model.errors import ConfigurationError
from paddock.surfaces.cli.root import command
from paddock.surfaces.clients.files import read_draft, write_drafts
from paddock.surfaces.clients.table import CLIENTS


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home directory, which is the current directory and the workspace, too."""
    for name in ("XDG_CONFIG_HOME", "CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CLI_HOME", "COPILOT_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*args: str) -> Result:
    return CliRunner().invoke(command, ["install", *args])


def test_a_new_file_of_the_user_is_private_and_has_no_backup(home: Path) -> None:
    done = run("windsurf", "--json")
    file = home / ".codeium/windsurf/mcp_config.json"
    told = json.loads(done.output)
    assert '\n+    "paddock": {\n' in told.pop("difference")
    assert told == {"file": str(file), "scope": "user", "changed": True, "backup": None, "moved": []}
    assert file.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("flag", ["--dry-run", "--print"])
def test_a_rehearsal_changes_nothing(home: Path, flag: str) -> None:
    done = run("cursor", flag)
    assert done.exit_code == 0
    assert '+    "paddock": {' in done.output
    told = json.loads(run("cursor", flag, "--json").output)
    assert (told["changed"], told["difference"]) == (False, done.output.removesuffix("\n"))
    assert not (home / ".cursor").exists()


def test_two_projects_one_after_another_each_have_their_own(home: Path) -> None:
    for name in ("one", "two"):
        (home / name).mkdir()
        assert run("vscode", "--workspace", name).exit_code == 0
    for name in ("one", "two"):
        entry = json.loads((home / name / ".vscode/mcp.json").read_text())["servers"]["paddock"]
        assert entry["args"] == ["serve", "mcp", "--workspace", str(home / name)]


def test_an_entry_of_the_user_is_not_pointed_at_another_workspace_unasked(home: Path) -> None:
    for name in ("one", "two"):
        (home / name).mkdir()
    file = home / ".codeium/windsurf/mcp_config.json"
    assert run("windsurf", "--workspace", "one").exit_code == 0
    before = file.read_text()
    done = run("windsurf", "--workspace", "two")
    assert (done.exit_code, done.output) == (
        1,
        f"{file}: `paddock` serves {home}/one. Nothing was changed.\n"
        f"To serve {home}/two instead, run the command again with --replace; to have both, give this one a name "
        "with --name.\n",
    )
    assert file.read_text() == before
    assert run("windsurf", "--workspace", "two", "--name", "paddock-two").exit_code == 0
    assert run("windsurf", "--workspace", "two", "--replace").exit_code == 0
    servers = json.loads(file.read_text())["mcpServers"]
    assert {name: entry["args"][-1] for name, entry in servers.items()} == {
        "paddock": f"{home}/two",
        "paddock-two": f"{home}/two",
    }


def test_the_other_scope_is_pointed_at_where_it_has_an_entry_too(home: Path) -> None:
    project = home / "project"
    project.mkdir()
    assert run("cursor", "--scope", "user", "--workspace", "project").exit_code == 0
    done = run("cursor", "--workspace", "project")
    assert done.stderr == (
        f"{project}/.cursor/mcp.json names paths of this machine: whoever works on the project elsewhere runs "
        "`paddock install cursor` there\n"
        f"{home}/.cursor/mcp.json has `paddock`, too, serving {project}; "
        f"to take it out: paddock install cursor --workspace {project} --scope user --remove\n"
    )


def test_the_help_page_breaks_no_name_of_a_client() -> None:
    words = run("--help").output.replace(",", " ").split()
    assert [name for name in (*CLIENTS, "mcp-json") if name not in words] == []


def test_a_client_without_a_file_for_projects_says_so() -> None:
    done = run("windsurf", "--scope", "project")
    assert (done.exit_code, done.output.splitlines()[-1]) == (
        2,
        "Error: Windsurf has no file for a project; leave --scope out.",
    )
    assert run().output.splitlines()[-1] == (
        "Error: Missing argument 'CLIENT'. `paddock install --list` lists them."
    )


def test_clients_are_listed_with_what_is_there(home: Path) -> None:
    (home / ".cursor").mkdir()
    (home / ".cursor/argv.json").touch()
    (home / ".codex").mkdir()
    (home / ".codex/config.toml").write_text("not = [ toml")
    assert run("cursor").exit_code == 0
    rows = {row["client"]: row for row in json.loads(run("--list", "--json").output)}
    assert rows["cursor"] == {
        "client": "cursor",
        "title": "Cursor",
        "installed": True,
        "files": {"project": f"{home}/.cursor/mcp.json", "user": f"{home}/.cursor/mcp.json"},
        "serves": {"project": str(home), "user": str(home)},
    }
    assert (rows["codex"]["installed"], rows["codex"]["serves"]) == (True, {})
    assert rows["kiro"]["installed"] is False
    assert f"cursor\tyes\t{home}/.cursor/mcp.json\tproject: {home}, user: {home}\n" in run("--list").output


def test_what_cannot_be_read_stays_as_it_is(home: Path) -> None:
    file = home / ".claude.json"
    file.write_text("[]")
    told = f"{file}: the file as a whole is not an object. Nothing was changed; correct the file first.\n"
    assert run("claude-code", "--scope", "user").output == told
    file.write_bytes(b"\xff")
    told = f"{file}: cannot be read: it is not UTF-8 text; save it as UTF-8\n"
    assert run("claude-code", "--scope", "user").output == told
    file.unlink()
    file.mkdir()
    told = f"{file}: it is a directory and no regular file; move {file} away\n"
    assert run("claude-code", "--scope", "user").output == told


def test_a_link_to_what_is_no_file_is_to_be_removed(home: Path) -> None:
    file = home / ".claude.json"
    file.symlink_to("/dev/zero")
    told = f"/dev/zero: it is a device and no regular file; remove the link {file}\n"
    assert run("claude-code", "--scope", "user").output == told


def test_a_pipe_is_refused_and_nobody_waits_for_it(home: Path) -> None:
    os.mkfifo(home / ".claude.json")
    told = f"{home}/.claude.json: it is a pipe and no regular file; move {home}/.claude.json away\n"
    assert run("claude-code", "--scope", "user").output == told


def test_a_file_of_another_user_is_refused(home: Path, as_root: None) -> None:
    file = home / ".claude.json"
    file.write_text("{}")
    os.chown(file, 54321, 54321)
    told = f"{file}: it belongs to user 54321, and Paddock runs as user 0; run this command as that user\n"
    assert run("claude-code", "--scope", "user").output == told


def test_numbers_and_halves_of_characters_stay_what_they_are(home: Path) -> None:
    file = home / ".cursor/mcp.json"
    file.parent.mkdir()
    before = '{"far": 1e400, "half": "\\ud800 é", "k": 1, "k": 2}'
    file.write_text(before)
    assert run("cursor").exit_code == 0
    assert file.read_text().startswith(before.removesuffix("}"))


def test_a_byte_order_mark_stays(home: Path) -> None:
    file = home / ".cursor/mcp.json"
    file.parent.mkdir()
    file.write_bytes(b"\xef\xbb\xbf{}\r\n")
    assert run("cursor").exit_code == 0
    data = file.read_bytes()
    assert (data[:3], list(json.loads(data)["mcpServers"])) == (b"\xef\xbb\xbf", ["paddock"])
    assert data.count(b"\n") == data.count(b"\r\n")


def test_an_empty_file_is_as_good_as_none(home: Path) -> None:
    file = home / ".gemini/settings.json"
    file.parent.mkdir()
    file.write_text("\n")
    assert run("gemini-cli").exit_code == 0
    assert list(json.loads(file.read_text())["mcpServers"]) == ["paddock"]


def test_a_link_that_leads_back_to_itself(home: Path) -> None:
    file = home / ".cursor/mcp.json"
    file.parent.mkdir()
    file.symlink_to(file)
    done = run("cursor", "--dry-run")
    told = f"{file}: is a link that leads back to itself; correct it first\n"
    assert (done.exit_code, done.output) == (1, told)


def test_a_link_of_the_user_stays_a_link(home: Path) -> None:
    file, kept = home / ".claude.json", home / "dotfiles/claude.json"
    kept.parent.mkdir()
    file.symlink_to(kept)
    assert run("claude-code", "--scope", "user").exit_code == 0
    assert (file.is_symlink(), list(json.loads(kept.read_text())["mcpServers"])) == (True, ["paddock"])
    assert run("claude-code", "--scope", "user", "--remove").exit_code == 0
    assert (file.is_symlink(), json.loads(kept.read_text())) == (True, {"mcpServers": {}})
    assert kept.with_name("claude.json.backup").exists()


@pytest.mark.parametrize("what", ["file", "folder"])
def test_a_link_in_a_project_does_not_lead_out_of_it(home: Path, what: str) -> None:
    project, outside = home / "project", home / "outside"
    project.mkdir()
    outside.mkdir()
    (outside / "mcp.json").write_text('{"mcpServers": {}}')
    if what == "file":
        (project / ".cursor").mkdir()
        (project / ".cursor/mcp.json").symlink_to(outside / "mcp.json")
    else:
        (project / ".cursor").symlink_to(outside)
    done = run("cursor", "--workspace", "project")
    told = (
        f"{project}/.cursor/mcp.json: is a link that leads out of the project, to {outside}/mcp.json; "
        "remove it first\n"
    )
    assert (done.exit_code, done.output) == (1, told)
    assert (outside / "mcp.json").read_text() == '{"mcpServers": {}}'


def test_any_other_client() -> None:
    servers = json.loads(run("mcp-json").output)["mcpServers"]
    assert servers["paddock"]["args"][:2] == ["serve", "mcp"]


@pytest.mark.parametrize("workspace", ["/Volumes/my, project", "C:\\Users\\ada\\project"])
def test_a_container_serves_a_workspace_of_another_system(workspace: str) -> None:
    entry = json.loads(run("mcp-json", "--docker", "paddock:1", "--workspace", workspace).output)[
        "mcpServers"
    ]
    source = f'"source={workspace}"' if "," in workspace else f"source={workspace}"
    assert entry["paddock"] == {
        "command": "docker",
        "args": [
            *("run", "-i", "--rm", "--cap-drop", "ALL", "--security-opt", "no-new-privileges"),
            *("--mount", f"type=bind,{source},target=/workspace", "--volume", "paddock-state:/state"),
            *("paddock:1", "serve", "mcp", "--workspace", "/workspace"),
        ],
    }


def test_a_container_is_entered_and_seen_as_serving_its_workspace(home: Path) -> None:
    assert run("lm-studio", "--docker", "paddock").exit_code == 0
    rows = {row["client"]: row for row in json.loads(run("--list", "--json").output)}
    assert rows["lm-studio"]["serves"] == {"user": str(home)}
    assert run("lm-studio", "--docker", "paddock").stdout.endswith("nothing to change\n")


SERVERS = """{
  "mcpServers": {
    // what time it is
    "time": { "command": "uvx", "args": ["mcp-server-time"] },
    "git": { "command": "uvx", "args": ["mcp-server-git"], "cwd": "sub" }
  }
}
"""


def test_servers_that_the_client_starts_itself_are_warned_of(home: Path) -> None:
    (home / ".mcp.json").write_text(SERVERS)
    done = run("claude-code")
    assert (done.exit_code, done.stderr.splitlines()[0]) == (
        0,
        f"warning: Claude Code starts the servers of {home}/.mcp.json itself, so its agent calls them past Paddock as "
        "well: time, git. To move them to .paddock/servers.json: paddock install claude-code --move-servers",
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


G = '{"mcpServers":{"g":{"command":"x"}}}'


def servers_of(file: Path) -> dict[str, Any]:
    return json.loads(file.read_text())["mcpServers"]


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
        "other. Nothing was changed; replace the link by a file of its own first.\n",
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

    monkeypatch.setattr("paddock.surfaces.clients.files.replace_file", crash)
    done = run("claude-code", "--move-servers")
    assert (done.exit_code, done.output) == (
        1,
        f"{shared}: cannot be written: No space left on device. {own} was changed before that; make it writable and "
        "run the command again, or enter by hand what --dry-run shows.\n",
    )
    assert (shared.read_text(), servers_of(own)) == (G, {"g": {"command": "x"}})
    monkeypatch.undo()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(home)
    assert run("claude-code", "--move-servers").exit_code == 0
    assert (list(servers_of(shared)), list(servers_of(own))) == (["paddock"], ["g"])


def test_what_another_program_wrote_in_the_meantime_is_not_overwritten(home: Path) -> None:
    file = home / ".cursor/mcp.json"
    file.parent.mkdir()
    file.write_text("{}")
    draft = read_draft(file, home)
    draft.edit(("mcpServers", "paddock"), {"command": "paddock"})
    file.write_text(G)
    with pytest.raises(ConfigurationError) as told:
        write_drafts([draft])
    assert str(told.value) == f"{file}: another program changed it in the meantime. Run the command again."
    assert file.read_text() == G


def names_paths(file: Path) -> str:
    return f"{file} names paths of this machine: whoever works on the project elsewhere runs `paddock install cursor` there\n"


def test_the_other_scope_in_the_same_file_is_no_other(home: Path) -> None:
    assert run("cursor").stderr == names_paths(home / ".cursor/mcp.json")
    assert run("cursor").exit_code == 0


def test_every_state_of_a_file_is_kept_once(home: Path) -> None:
    file = home / ".cursor/mcp.json"
    file.parent.mkdir()
    file.write_text("{} // mine\n")
    backups = [home / ".cursor" / f"mcp.json.backup{end}" for end in ("", ".2", ".3")]
    backups[1].symlink_to(file)  # what is no copy of ours is passed over
    note = names_paths(file)
    assert run("cursor").stderr == f"what was there before: {backups[0]}\n{note}"
    entered = file.read_text()
    assert run("cursor", "--name", "b").stderr == f"what was there before: {backups[2]}\n{note}"
    assert run("cursor", "--name", "b", "--remove").exit_code == 0
    assert run("cursor", "--remove").stderr == f"what was there before: {backups[2]}\n"
    assert (backups[0].read_text(), backups[2].read_text()) == ("{} // mine\n", entered)
    assert run("cursor").exit_code == 0


def test_a_write_protected_file_is_left_alone(home: Path) -> None:
    file = home / ".roo/my mcp.json"
    file.parent.mkdir()
    file.write_text("{}")
    file.chmod(0o444)
    (home / ".roo/mcp.json").symlink_to(file)
    told = (
        f"{file}: is write-protected (mode 0444). To let Paddock change it, run: chmod u+w '{file}'. To enter the "
        "change by hand, see it with --dry-run.\n"
    )
    done = run("roo")
    assert (done.exit_code, done.output, file.read_text()) == (1, told, "{}")
    rehearsed = run("roo", "--dry-run")
    assert (rehearsed.exit_code, rehearsed.stderr) == (0, f"warning: {told}")
    assert '+    "paddock": {\n' in rehearsed.stdout
    assert [each.name for each in sorted(file.parent.iterdir())] == ["mcp.json", "my mcp.json"]


@pytest.mark.parametrize(
    ("client", "name", "text"),
    [
        ("cursor", ".cursor/mcp.json", '{"a": 1, "mcpServers": null}'),
        ("goose", ".config/goose/config.yaml", "extensions:\na: 1\n"),
        ("goose", ".config/goose/config.yaml", "a: 1\nextensions: {}\n"),
        ("goose", ".config/goose/config.yaml", "# nothing yet\n"),
    ],
)
def test_an_empty_place_for_entries_is_filled(home: Path, client: str, name: str, text: str) -> None:
    file = home / name
    file.parent.mkdir(parents=True)
    file.write_text(text)
    assert run(client, "--remove").stdout == f"{file}: nothing to change\n"
    assert run(client).exit_code == 0
    assert run(client).stdout == f"{file}: nothing to change\n"
    assert [line for line in text.splitlines() if line not in file.read_text()] in (
        [],
        text.splitlines()[-1:],
    )


@pytest.mark.parametrize("image", ["", "bad image", "-v/:/x", "--privileged", "a" * 600, "a\n"])
def test_what_is_no_image_is_refused(image: str) -> None:
    for client in ("cursor", "mcp-json"):
        done = run(client, "--docker", image)
        told = (
            f"Error: Invalid value for '--docker': {image!r} is not the name of an image, such as paddock:1"
        )
        assert (done.exit_code, done.output.splitlines()[-1]) == (2, told)


@pytest.mark.parametrize(
    "image", ["paddock", "registry.example:5000/Team/paddock:1.2", f"p@sha256:{'0' * 64}"]
)
def test_the_name_of_an_image_is_entered_as_it_is(image: str) -> None:
    entry = json.loads(run("mcp-json", "--docker", image).output)["mcpServers"]["paddock"]
    assert entry["args"][-5:] == [image, "serve", "mcp", "--workspace", "/workspace"]


@pytest.mark.parametrize(
    ("name", "near"),
    [("vs-code", "did you mean 'vscode'? "), ("Cursor", "did you mean 'cursor'? "), ("x" * 200, "")],
)
def test_an_unknown_client_gets_the_nearest_name(name: str, near: str) -> None:
    done = run(name)
    assert (done.exit_code, done.output.splitlines()[-1]) == (
        2,
        f"Error: {name[:100]!r} is not a client that Paddock knows; {near}`paddock install --list` lists them, and "
        "`paddock install mcp-json` prints the entry for any other.",
    )


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("mcp-json", "--remove"), "mcp-json prints an entry and changes no file; leave --remove out."),
        (("mcp-json", "--scope", "user"), "mcp-json prints an entry and changes no file; leave --scope out."),
        (
            ("mcp-json", "--move-servers"),
            "mcp-json prints an entry and changes no file; leave --move-servers out.",
        ),
        (
            ("cursor", "--remove", "--move-servers"),
            "--move-servers goes with entering Paddock; leave --remove or --move-servers out.",
        ),
    ],
)
def test_options_that_would_be_passed_over_are_refused(words: tuple[str, ...], told: str) -> None:
    done = run(*words)
    assert (done.exit_code, done.output.splitlines()[-1]) == (2, f"Error: {told}")


def installed() -> set[str]:
    return {row["client"] for row in json.loads(run("--list", "--json").output) if row["installed"]}


def test_what_paddock_made_itself_is_no_sign_of_a_client(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("paddock.surfaces.clients.presence.shutil.which", lambda _: None)
    for client, about in CLIENTS.items():
        assert run(client, "--scope", "user").exit_code == 0
        assert installed() == set(), client
        assert run(client, "--scope", "user", "--name", "b").exit_code == 0
        assert run(client, "--scope", "user", "--remove").exit_code == 0
        assert installed() == set(), client
        file = about.locate("user", home)
        file.write_text("{ broken")
        assert (installed() == set()) is not (file.is_relative_to(home / about.sign)), client
        file.unlink()
    (home / ".gemini/history").touch()
    assert installed() == {"gemini-cli"}


@pytest.mark.parametrize("text", ['{"theme": "dark"}', '{"mcpServers": {"g": {"command": "x"}}}'])
def test_a_file_that_a_client_or_a_user_wrote_is_a_sign_of_it(
    home: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setattr("paddock.surfaces.clients.presence.shutil.which", lambda _: None)
    (home / ".gemini").mkdir()
    (home / ".gemini/settings.json").write_text(text)
    assert run("gemini-cli", "--scope", "user").exit_code == 0
    assert installed() == {"gemini-cli"}


def test_servers_do_not_move_to_a_file_that_paddock_does_not_read(home: Path) -> None:
    own, shared = home / ".paddock/servers.json", home / ".mcp.json"
    own.parent.mkdir()
    own.write_text('{"mcpServers": {}} // mine\n')
    shared.write_text(G)
    done = run("claude-code", "--move-servers")
    assert (done.exit_code, done.output) == (
        1,
        f"{own}: Paddock reads JSON without comments there, and this is none, so servers that move there would not be "
        "found. Nothing was changed; correct the file first. `paddock servers list` says where.\n",
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
