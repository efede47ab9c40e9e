"""An entry that is there: what a user added stays, and what is another server's is left alone."""

import json
import shutil
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from paddock.surfaces.cli.clients.entry import (
    ServerCommand,
    build_docker_command,
    build_entry,
    find_kept,
    find_workspace,
    keep_options,
    read_command,
    update_command,
)
from paddock.surfaces.cli.root import command

PROGRAM = "/opt/paddock/bin/paddock"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home directory, which is the current directory and the workspace, too."""
    for name in ("XDG_CONFIG_HOME", "CODEX_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("paddock.surfaces.cli.clients.entry.sys.executable", "/opt/paddock/bin/python")
    monkeypatch.setattr("paddock.surfaces.cli.clients.entry.shutil.which", lambda _: PROGRAM)
    return tmp_path


def run(*args: str) -> Result:
    return CliRunner().invoke(command, ["install", *args])


def write(file: Path, text: str) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


def write_entry(file: Path, entry: object, key: str = "mcpServers") -> Path:
    return write(file, json.dumps({key: {"paddock": entry}}))


def entry_of(file: Path, key: str = "mcpServers") -> Any:
    return json.loads(file.read_text())[key]["paddock"]


NARROW = ["--set", "grants.servers=[]", "--tool-names", "compat", "--http", "8700", "--log-level=debug"]


@pytest.mark.parametrize(
    ("options", "after"),
    [
        (NARROW, [*NARROW, "--workspace", "HOME"]),
        (["--workspace", "/old", *NARROW], ["--workspace", "HOME", *NARROW]),
        ([*NARROW, "--workspace=/old"], [*NARROW, "--workspace=HOME"]),
        (["-w", "/old", "--set", "a=-w"], ["-w", "HOME", "--set", "a=-w"]),
        (["--set", "--workspace", "-w/old"], ["--set", "--workspace", "-wHOME"]),
        (["--workspace"], ["--workspace", "HOME"]),
        (["--workspace", "/a", "-w", "/b"], ["--workspace", "HOME", "-w", "HOME"]),
    ],
)
def test_options_of_the_user_stay_and_the_workspace_is_set(
    home: Path, options: list[str], after: list[str]
) -> None:
    file = write_entry(home / ".cursor/mcp.json", {"command": "paddock", "args": ["serve", "mcp", *options]})
    assert run("cursor").exit_code == 0
    wanted = [word.replace("HOME", str(home)) for word in after]
    assert entry_of(file) == {"command": PROGRAM, "args": ["serve", "mcp", *wanted]}
    assert find_workspace(entry_of(file)) == str(home)
    assert run("cursor").stdout == f"{file}: nothing to change\n"


def test_options_stay_in_a_command_that_is_one_list(home: Path) -> None:
    there = {"type": "local", "command": ["paddock", "serve", "mcp", *NARROW], "enabled": True}
    file = write_entry(home / "opencode.json", there, "mcp")
    assert run("opencode").exit_code == 0
    command = [PROGRAM, "serve", "mcp", *NARROW, "--workspace", str(home)]
    assert entry_of(file, "mcp") == {**there, "command": command}


FOREIGN = [
    {"command": "/opt/horses/paddock-db", "args": ["--db", "x"]},
    {"command": "paddock", "args": ["run", "x"]},
    {"command": "paddock", "args": ["serve", "mcp", 5]},
    {"command": "paddock", "args": ["serve", "mcp"], "url": "http://x"},
    {"url": "http://x"},
    {"httpUrl": "http://x"},
    {},
    5,
]


@pytest.mark.parametrize("there", FOREIGN)
def test_an_entry_of_another_server_is_neither_replaced_nor_removed_unasked(
    home: Path, there: object
) -> None:
    file = write_entry(home / ".roo/mcp.json", there)
    before = file.read_text()
    told = (
        f"{file}: `paddock` does not start `paddock serve mcp`: it is another server. Nothing was changed.\n"
    )
    for words in ((), ("--dry-run",)):
        done = run("roo", *words)
        assert (done.exit_code, done.output) == (
            1,
            f"{told}If Paddock should have another name there, give it with --name; to replace this one, run the command "
            "again with --replace.\n",
        )
    done = run("roo", "--remove")
    assert (done.exit_code, done.output) == (
        1,
        f"{told}If Paddock has another name there, give it with --name; to remove this one, run the command again with "
        "--replace.\n",
    )
    assert (file.read_text(), [each.name for each in file.parent.iterdir()]) == (before, [file.name])
    assert run("roo", "--replace").exit_code == 0
    assert entry_of(file) == {"command": PROGRAM, "args": ["serve", "mcp", "--workspace", str(home)]}
    file.write_text(before)
    assert run("roo", "--remove", "--replace").exit_code == 0
    assert json.loads(file.read_text()) == {"mcpServers": {}}


@pytest.mark.parametrize(
    ("client", "name", "text"),
    [
        (
            "codex",
            ".codex/config.toml",
            '[mcp_servers.paddock] # theirs\nurl = "http://x"\n\n[other]\na = 1\n',
        ),
        ("goose", ".config/goose/config.yaml", "extensions:\n  paddock:\n    uri: http://x\nother: 1\n"),
    ],
)
def test_another_server_is_replaced_whole_in_every_format(
    home: Path, client: str, name: str, text: str
) -> None:
    file = write(home / name, text)
    assert run(client).exit_code == 1
    assert file.read_text() == text
    assert run(client, "--replace").exit_code == 0
    assert ("http://x" in file.read_text(), PROGRAM in file.read_text()) == (False, True)


def test_another_server_is_not_listed_as_paddock(home: Path) -> None:
    write_entry(home / ".roo/mcp.json", FOREIGN[0])
    rows = {row["client"]: row for row in json.loads(run("--list", "--json").output)}
    assert rows["roo"]["serves"] == {}
    project = home / "project"
    write_entry(home / ".cursor/mcp.json", FOREIGN[0])
    project.mkdir()
    assert run("cursor", "--workspace", "project").stderr == (
        f"{project}/.cursor/mcp.json names paths of this machine. On another machine, run: paddock install cursor\n"
        f"{home}/.cursor/mcp.json also has `paddock`, which is another server; Cursor uses one of the two. To have both, "
        "use --name.\n"
    )


@pytest.mark.parametrize("launcher", [["uvx", "paddock"], ["python3", "-m", "paddock"]])
def test_another_way_to_start_paddock_is_kept_unless_asked(home: Path, launcher: list[str]) -> None:
    there = {"command": launcher[0], "args": [*launcher[1:], "serve", "mcp", *NARROW]}
    file = write_entry(home / ".cursor/mcp.json", there)
    done = run("cursor")
    assert (done.exit_code, done.output) == (
        1,
        f"{file}: `paddock` starts Paddock in another way, by {launcher[0]}. Nothing was changed.\n"
        f"To start it by {PROGRAM}, as a new entry does, run the command again with --replace; to have both, give this one "
        "a name with --name.\n",
    )
    assert entry_of(file) == there
    assert run("cursor", "--replace").exit_code == 0
    assert entry_of(file) == {"command": PROGRAM, "args": ["serve", "mcp", *NARROW, "--workspace", str(home)]}
    assert run("cursor", "--remove").exit_code == 0


def test_a_container_keeps_its_options_and_is_not_left_unasked(home: Path) -> None:
    assert run("cursor", "--docker", "paddock:1").exit_code == 0
    file = home / ".cursor/mcp.json"
    entry = entry_of(file)
    old = f"type=bind,source={home},target=/workspace"
    entry["args"][entry["args"].index(old)] = "type=bind,src=/old,target=/workspace,readonly"
    entry["args"][1:1] = ["--network", "none"]
    write_entry(file, {**entry, "args": [*entry["args"], *NARROW]})
    assert run("cursor", "--docker", "paddock:2").exit_code == 0
    args = entry_of(file)["args"]
    assert args[:3] == ["run", "--network", "none"]
    assert f"type=bind,source={home},target=/workspace,readonly" in args
    assert args[-12:] == ["paddock:2", "serve", "mcp", "--workspace", "/workspace", *NARROW]
    done = run("cursor")
    assert (done.exit_code, done.output.partition("\n")[0]) == (
        1,
        f"{file}: `paddock` starts Paddock in another way, by docker. Nothing was changed.",
    )
    write_entry(file, {**entry, "args": [word for word in args if word != "ALL"]})
    done = run("cursor", "--docker", "paddock:3")
    assert (done.exit_code, done.output) == (
        1,
        f"{file}: `paddock` starts Paddock in another way, by docker. Nothing was changed.\n"
        "To start it by docker, as a new entry does, run the command again with --replace; to have both, give this one a "
        "name with --name.\n",
    )


def test_what_stays_of_a_command_is_told(home: Path) -> None:
    args = ["serve", "mcp", "--set", "runtimes.network=full", "--workspace", "/old"]
    file = write_entry(home / ".cursor/mcp.json", {"command": "paddock", "args": args})
    told = f"warning: {file}: `paddock` keeps what was added to its command: --set runtimes.network=full\n"
    quiet = write_entry(
        home / ".roo/mcp.json", {"command": "paddock", "args": ["serve", "mcp", "-w", "/old"]}
    )
    assert run("roo").stderr == (
        f"backup: {quiet}.backup\n"
        f"{quiet} names paths of this machine. On another machine, run: paddock install roo\n"
    )
    assert run("cursor", "--dry-run").stderr == told
    assert run("cursor", "--remove").stderr == f"backup: {file}.backup\n"


def test_a_command_of_docker_without_its_mount_is_another_way() -> None:
    wanted = build_docker_command("paddock", "/w")
    there = read_command({"command": "docker", "args": ["run", "-v", "/w:/x", "paddock", "serve", "mcp"]})
    assert there is not None
    assert update_command(there, wanted) is None
    assert read_command(build_entry("plain", wanted)) == wanted


@pytest.mark.parametrize("served", ["\0", "\ud800", "${workspaceFolder}"])
def test_a_workspace_that_is_no_path_is_another_one(home: Path, served: str) -> None:
    entry = {"command": "paddock", "args": ["serve", "mcp", "--workspace", served]}
    file = write_entry(home / ".codeium/windsurf/mcp_config.json", entry)
    assert (run("windsurf").exit_code, entry_of(file)) == (1, entry)
    assert run("windsurf", "--replace").exit_code == 0
    assert find_workspace(entry_of(file)) == str(home)


def test_removing_looks_at_the_workspace(home: Path) -> None:
    for name in ("one", "two"):
        (home / name).mkdir()
    assert run("windsurf", "--workspace", "one").exit_code == 0
    file = home / ".codeium/windsurf/mcp_config.json"
    before = file.read_text()
    done = run("windsurf", "--workspace", "two", "--remove")
    assert (done.exit_code, done.output) == (
        1,
        f"{file}: `paddock` serves {home}/one. Nothing was changed.\n"
        "To remove it anyway, run the command again with --replace.\n",
    )
    assert file.read_text() == before
    (home / "link").symlink_to(home / "one")
    file.write_text(before.replace(f"{home}/one", f"{home}/link/"))
    assert run("windsurf", "--workspace", "one", "--remove").exit_code == 0
    file.write_text(before)
    shutil.rmtree(home / "one")
    assert run("windsurf", "--remove", "--replace").exit_code == 0
    assert json.loads(file.read_text()) == {"mcpServers": {}}


def test_the_other_scope_with_another_workspace_is_removed_by_the_command_that_is_told(home: Path) -> None:
    for name in ("one", "two"):
        (home / name).mkdir()
    assert run("cursor", "--scope", "user", "--workspace", "one").exit_code == 0
    [_, line] = run("cursor", "--workspace", "two").stderr.splitlines()
    told = f"paddock install cursor --workspace {home}/two --scope user --remove --replace"
    assert line == f"{home}/.cursor/mcp.json also has `paddock`, serving {home}/one; to remove it: {told}"
    assert run(*told.split()[2:]).exit_code == 0
    assert json.loads((home / ".cursor/mcp.json").read_text()) == {"mcpServers": {}}


@pytest.mark.parametrize("switch", ['"disabled": true', '"enabled": false'])
def test_an_entry_that_is_switched_off_is_told(home: Path, switch: str) -> None:
    file = write(
        home / ".kiro/settings/mcp.json",
        f'{{"mcpServers": {{"paddock": {{"command": "paddock", "args": ["serve", "mcp"], {switch}}}}}}}',
    )
    done = run("kiro")
    told = f"warning: {file}: `paddock` is disabled by `{switch}`; to use it, enable it"
    assert (done.exit_code, done.stderr.splitlines()[0]) == (0, told)
    assert switch in file.read_text()


@pytest.mark.parametrize(
    ("client", "name", "before", "after"),
    [
        (
            "cursor",
            ".cursor/mcp.json",
            '{"mcpServers": {"paddock": {\n  "command": "paddock", // mine\n  "args": [\n    "serve",\n    "mcp", // stdio\n'
            '    "--workspace", "/old", // here\n    // narrow\n    "--names=seed"\n  ]\n}}}\n',
            '{"mcpServers": {"paddock": {\n  "command": "PROGRAM", // mine\n  "args": [\n    "serve",\n    "mcp", // stdio\n'
            '    "--workspace", "HOME", // here\n    // narrow\n    "--names=seed"\n  ]\n}}}\n',
        ),
        (
            "cursor",
            ".cursor/mcp.json",
            '{"mcpServers": {"paddock": {"command": "paddock", "args": [\n    "serve", /* a */\n    "mcp" // stdio\n  ]}}}',
            '{"mcpServers": {"paddock": {"command": "PROGRAM", "args": [\n    "serve", /* a */\n    "mcp", // stdio\n'
            '    "--workspace",\n    "HOME"\n  ]}}}',
        ),
        (
            "codex",
            ".codex/config.toml",
            '[mcp_servers.paddock]\ncommand = "paddock" # mine\nargs = [ "serve", # a\n  "mcp", # b\n  # c\n]\n',
            '[mcp_servers.paddock]\ncommand = "PROGRAM" # mine\nargs = [ "serve", # a\n  "mcp", # b\n  # c\n'
            '  "--workspace",\n  "HOME"\n]\n',
        ),
        (
            "goose",
            ".config/goose/config.yaml",
            "extensions:\n  paddock:\n    name: p\n    description: d\n    cmd: paddock # mine\n    args:\n    - serve # a\n"
            "    # b\n    - 'mcp' # c\n    - --workspace\n    - /old # d\n    type: stdio\n    envs: {}\n    enabled: true\n"
            "    timeout: 9\n",
            "extensions:\n  paddock:\n    name: p\n    description: d\n    cmd: PROGRAM # mine\n    args:\n    - serve # a\n"
            "    # b\n    - 'mcp' # c\n    - --workspace\n    - HOME # d\n    type: stdio\n    envs: {}\n    enabled: true\n"
            "    timeout: 9\n",
        ),
        (
            "goose",
            ".config/goose/config.yaml",
            "extensions:\n  paddock:\n    name: p\n    description: d\n    cmd: PROGRAM\n    args:\n      - serve # a\n"
            "      - mcp # c\n    type: stdio\n    envs: {}\n    enabled: true\n    timeout: 9\n",
            "extensions:\n  paddock:\n    name: p\n    description: d\n    cmd: PROGRAM\n    args:\n      - serve # a\n"
            "      - mcp # c\n      - --workspace\n      - HOME\n    type: stdio\n    envs: {}\n    enabled: true\n"
            "    timeout: 9\n",
        ),
        (
            "goose",
            ".config/goose/config.yaml",
            "extensions:\n  paddock:\n    name: p\n    description: d\n    cmd: PROGRAM\n    args: [serve, # a\n"
            "      mcp # c\n      ]\n    type: stdio\n    envs: {}\n    enabled: true\n    timeout: 9\n",
            "extensions:\n  paddock:\n    name: p\n    description: d\n    cmd: PROGRAM\n    args: [serve, # a\n"
            "      mcp, --workspace, HOME # c\n      ]\n    type: stdio\n    envs: {}\n    enabled: true\n    timeout: 9\n",
        ),
    ],
)
def test_comments_within_the_arguments_stay(
    home: Path, client: str, name: str, before: str, after: str
) -> None:
    file = write(home / name, before.replace("PROGRAM", PROGRAM))
    words = ["--scope", "user", "--replace"] if client != "cursor" else []
    done = run(client, *words)
    assert done.exit_code == 0, done.output
    assert file.read_text() == after.replace("PROGRAM", PROGRAM).replace("HOME", str(home))
    assert run(client, *words).stdout == f"{file}: nothing to change\n"


WORDS = st.sampled_from(
    [
        *(
            "paddock",
            "docker",
            "serve",
            "mcp",
            "paddock-state:/state",
            "--workspace",
            "-w",
            "-w/x",
            "--workspace=/x",
        ),
        *(
            "type=bind,source=/x,target=/workspace",
            'type=bind,"a\n',
            "type=bind,a\r\nb",
            "type=bind,target=/workspace",
        ),
        *("--set", "a=b", "", "\0", "\ud800", "=", "-"),
    ]
) | st.text(max_size=5)
OPTIONS = st.sampled_from(
    [
        ("--set", "a=b"),
        ("--set", "--workspace"),
        ("-w", "/x"),
        ("-w/x",),
        ("--workspace=/x",),
        ("--names=seed",),
        ("x",),
    ]
)
ENTRIES = st.builds(
    lambda before, after, last, more: {
        "command": before[0],
        "args": [*before[1:], "serve", "mcp", *chain(*after), *last],
        **more,
    },
    st.lists(WORDS, min_size=1, max_size=8),
    st.lists(OPTIONS, max_size=4),
    st.sampled_from([(), ("--workspace",)]),
    st.dictionaries(
        st.sampled_from(["url", "cmd", "args", "command", "disabled"]), st.none() | WORDS | st.integers()
    ),
)


@given(
    ENTRIES,
    st.sampled_from(
        [build_docker_command("image", "/w"), ServerCommand(("/p/paddock",), ("--workspace", "/w"))]
    ),
)
def test_any_entry_is_another_servers_or_serves_the_workspace_afterwards(
    entry: Any, wanted: ServerCommand
) -> None:
    there = read_command(entry)
    if there is None:
        assert find_workspace(entry) == ""
        return
    for updated in (update_command(there, wanted), keep_options(there, wanted)):
        if updated is not None:
            assert find_workspace(build_entry("plain", updated)) == "/w"
            assert update_command(updated, wanted) == updated
            assert "/w" not in find_kept(updated, wanted)
