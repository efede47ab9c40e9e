"""`paddock install`: idempotent, with the difference shown and a backup kept, and one project never in another's place."""

import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from paddock.model.errors import ConfigurationError
from paddock.surfaces.cli.clients.files import read_draft, write_drafts
from paddock.surfaces.cli.clients.table import CLIENTS
from paddock.surfaces.cli.root import command


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
        f"{project}/.cursor/mcp.json names paths of this machine. On another machine, run: paddock install cursor\n"
        f"{home}/.cursor/mcp.json also has `paddock`, serving {project}; "
        f"to remove it: paddock install cursor --workspace {project} --scope user --remove\n"
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
    told = f"{file}: it is a directory, not a regular file; move {file} away\n"
    assert run("claude-code", "--scope", "user").output == told


def test_a_link_to_what_is_no_file_is_to_be_removed(home: Path) -> None:
    file = home / ".claude.json"
    file.symlink_to("/dev/zero")
    told = f"/dev/zero: it is a device, not a regular file; remove the link {file}\n"
    assert run("claude-code", "--scope", "user").output == told


def test_a_pipe_is_refused_and_nobody_waits_for_it(home: Path) -> None:
    os.mkfifo(home / ".claude.json")
    told = f"{home}/.claude.json: it is a pipe, not a regular file; move {home}/.claude.json away\n"
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


G = '{"mcpServers":{"g":{"command":"x"}}}'


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
    return f"{file} names paths of this machine. On another machine, run: paddock install cursor\n"


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
    assert run("cursor").stderr == f"backup: {backups[0]}\n{note}"
    entered = file.read_text()
    assert run("cursor", "--name", "b").stderr == f"backup: {backups[2]}\n{note}"
    assert run("cursor", "--name", "b", "--remove").exit_code == 0
    assert run("cursor", "--remove").stderr == f"backup: {backups[2]}\n"
    assert (backups[0].read_text(), backups[2].read_text()) == ("{} // mine\n", entered)
    assert run("cursor").exit_code == 0


def test_a_write_protected_file_is_left_alone(home: Path) -> None:
    file = home / ".roo/my mcp.json"
    file.parent.mkdir()
    file.write_text("{}")
    file.chmod(0o444)
    (home / ".roo/mcp.json").symlink_to(file)
    told = (
        f"{file}: is write-protected (mode 0444). To let Paddock change it, run: chmod u+w '{file}'. To make the "
        "change by hand, see --dry-run.\n"
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
    [
        ("vs-code", "did you mean 'vscode'? "),
        ("clod", "did you mean 'claude-code'? "),
        ("Cursor", "did you mean 'cursor'? "),
        ("x" * 200, ""),
    ],
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
            "--move-servers is only possible when Paddock is added; leave --remove or --move-servers out.",
        ),
    ],
)
def test_options_that_would_be_passed_over_are_refused(words: tuple[str, ...], told: str) -> None:
    done = run(*words)
    assert (done.exit_code, done.output.splitlines()[-1]) == (2, f"Error: {told}")


def installed() -> set[str]:
    return {row["client"] for row in json.loads(run("--list", "--json").output) if row["installed"]}


def test_what_paddock_made_itself_is_no_sign_of_a_client(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("paddock.surfaces.cli.install.shutil.which", lambda _: None)
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
    monkeypatch.setattr("paddock.surfaces.cli.install.shutil.which", lambda _: None)
    (home / ".gemini").mkdir()
    (home / ".gemini/settings.json").write_text(text)
    assert run("gemini-cli", "--scope", "user").exit_code == 0
    assert installed() == {"gemini-cli"}
