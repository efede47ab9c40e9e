"""`paddock sessions` and `paddock exec --session` against a running server."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from tests.support.command import run_paddock
from tests.support.http_api import TOKEN, ApiPlace, ApiServer

NO_SERVER = (
    "sessions need a running server; start one with `paddock serve http`, and give its address by --server or "
    "PADDOCK_SERVER\n"
)
UNKNOWN = "s_" + "0" * 32


class Command:
    """The command line on another machine: another directory and home, and the variables of the server."""

    def __init__(self, place: ApiPlace, directory: Path, **variables: str) -> None:
        self._directory = directory
        self._environment = {**place.environment, **variables}

    def __call__(self, *arguments: str) -> tuple[int, str, str]:
        done = run_paddock(self._directory, *arguments, environment=self._environment)
        assert TOKEN not in done.stdout + done.stderr
        return done.returncode, done.stdout, done.stderr


@pytest.fixture
def command(shared_place: ApiPlace, server: ApiServer, tmp_path: Path) -> Command:
    return Command(shared_place, tmp_path, PADDOCK_SERVER=server.url, PADDOCK_TOKEN=TOKEN)


def list_sessions(command: Command) -> list[Any]:
    return json.loads(command("sessions", "list", "--json")[1])


def test_programs_of_a_session_see_what_ran_before(command: Command, tmp_path: Path) -> None:
    code, out, told = command("exec", "python", "--session", "new", "-c", "x = 41; print('hi'); x")
    found = re.fullmatch(r"session (s_[0-9a-f]{48}), closed after 15 minutes without use\n", told)
    assert (code, out, found is not None) == (0, "hi\n41\n", True), told
    assert found is not None
    handle = found[1]
    assert command("exec", "python", "--session", handle, "-c", "x + 1") == (0, "42\n", "")
    code, _, _ = command("exec", "python", "--session", handle, "-c", "raise SystemExit(3)")
    assert code == 3
    (tmp_path / "in.csv").write_text("1,2")
    copy = "open('out.csv', 'w').write(open('in.csv').read() + ',3')"
    options = ("--file-in", "in.csv", "--output", "out.csv", "--output-dir", "out")
    assert command("exec", "python", "--session", handle, "-c", copy, *options) == (
        0,
        "5\n",
        "in.csv (3 bytes) was not stored: no pattern of `outputs` matches it\nout.csv (5 bytes): out/out.csv\n",
    )
    assert (tmp_path / "out/out.csv").read_text() == "1,2,3"
    [info] = [each for each in list_sessions(command) if each["id"] == handle]
    assert (info["language"], info["executions"], info["running"]) == ("python", 4, False)
    assert command("sessions", "close", handle, handle) == (0, "", "1 session closed\n")
    assert [each for each in list_sessions(command) if each["id"] == handle] == []
    code, out, told = command("exec", "python", "--session", handle, "-c", "x")
    assert (code, out) == (125, "")
    assert told.startswith("The session is lost: it was closed. Nothing ran.\n")


def test_what_cannot_be_closed_is_named_and_the_rest_is_closed(command: Command) -> None:
    _, _, told = command("exec", "shell", "--session", "new", "-c", "true")
    handle = told.split()[1].rstrip(",")
    code, _, told = command("sessions", "close", "mine", UNKNOWN, handle)
    closed, first, second = told.splitlines()
    assert (code, closed) == (1, "1 session closed")
    assert first == "mine: not the handle of a session; paddock sessions list prints them"
    assert second.startswith(f"{UNKNOWN}: There is no such session")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (
            ("--session", "mine"),
            'session: it is not the handle of a session; give "new", or a handle from an answer',
        ),
        (("--session", "new", "--cwd", "x"), "--cwd has no meaning with --session: the server decides it."),
        (
            ("--session", "new", "--set", "log.level=info"),
            "--set has no meaning with --session: the server decides it.",
        ),
        (("--unencrypted",), "--server, --token-file and --unencrypted are for --session."),
    ],
)
def test_options_that_do_not_fit_are_usage_errors(
    command: Command, arguments: tuple[str, ...], text: str
) -> None:
    code, out, told = command("exec", "python", "-c", "1", *arguments)
    assert (code, out) == (2, "")
    assert text in told


def test_without_a_server_the_errors_say_what_to_do(place: ApiPlace, tmp_path: Path) -> None:
    command = Command(place, tmp_path, PADDOCK_TOKEN=TOKEN)
    assert command("sessions", "list") == (1, "", NO_SERVER)
    assert command("exec", "python", "--session", "new", "-c", "1") == (125, "", NO_SERVER)
    code, out, told = command("sessions", "list", "--server", "http://127.0.0.1:1", "--json")
    assert (code, json.loads(out)["error"]["message"] + "\n") == (1, told)
    assert told.startswith("cannot connect to http://127.0.0.1:1: ")
    code, _, told = Command(place, tmp_path)("sessions", "list", "--server", "http://127.0.0.1:1")
    assert (code, told.partition(";")[0]) == (1, "there is no token for the server")


def test_the_token_may_be_in_a_file_of_its_owner(server: ApiServer, place: ApiPlace, tmp_path: Path) -> None:
    command = Command(place, tmp_path, PADDOCK_SERVER=server.url)
    file = tmp_path / "token"
    file.write_text(TOKEN + "\n")
    file.chmod(0o600)
    assert command("sessions", "list", "--json", "--token-file", "token")[0] == 0
    file.chmod(0o644)
    refused = (1, "", "token: others can read this token; run: chmod 600 token\n")
    assert command("sessions", "list", "--token-file", "token") == refused
    absent = (1, "", "nope: cannot read this token file: No such file or directory\n")
    assert command("sessions", "list", "--token-file", "nope") == absent
