"""What people do by mistake, at the real command line: they are told what, why and what to do, and never a traceback."""

import json
import os
import pwd
import sys
from decimal import Decimal
from pathlib import Path

import pytest
from tests.support.command import PADDOCK, run_command, run_paddock

from paddock import BlockingPaddock
from paddock.model.errors import ConfigurationError
from paddock.model.numbers import dumps

LATIN = b"return '\xe4'"
USAGE = "Usage: paddock {0}\nTry 'paddock {1} --help' for help.\n\nError: {2}\n"
TEXT = "latin: this is not UTF-8 text (byte 9); save it as UTF-8"


@pytest.fixture
def place(workspace):
    """A workspace with files that are not what they seem."""
    (workspace / "latin").write_bytes(LATIN)
    (workspace / "deep.json").write_text("[" * 100_000)
    return workspace


@pytest.mark.parametrize(
    ("args", "code", "told"),
    [
        (("tool", "fill", "latin"), 1, f"{TEXT}\n"),
        (("run", "./latin", "--input", "@latin"), 1, f"./{TEXT}\n"),
        (("run", "-", "--input", "@latin"), 1, f"{TEXT}\n"),
        (("run", "-", "--vars-file", "latin"), 1, f"{TEXT}\n"),
        (
            ("exec", "python", "latin"), 2,
            USAGE.format("exec [OPTIONS] [RUNTIME] [FILE|-]", "exec", f"Invalid value for FILE: {TEXT}"),
        ),
        (("run", "-", "--input", "NaN"), 2, "--input: this is not a JSON value: NaN is not a JSON number\n"),
        (("run", "-", "--input", "[1e999]"), 2, "--input: this is not a JSON value: 1e999 is larger than 1.8e308\n"),
        (("run", "-", "--input", "@deep.json"), 2, "deep.json: this is not a JSON value: it is nested too deeply\n"),
        (("run", "-", "--vars-file", "deep.json"), 1, "deep.json: cannot read variables: it is nested too deeply\n"),
        (
            ("servers", "call", "a", "b", "--args", "{"), 2,
            "--args: this is not a JSON value: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)\n",
        ),
        (
            ("exec", "python", "-c", "1", "--max-lines", "1"), 2,
            USAGE.format(
                "exec [OPTIONS] [RUNTIME] [FILE|-]", "exec",
                "Invalid value for '--max-lines': 1 is not in the range 10<=x<=1000.",
            ),
        ),
        (
            ("exec", "python", "-c", "1", "--timeout-ms", "0"), 2,
            USAGE.format(
                "exec [OPTIONS] [RUNTIME] [FILE|-]", "exec", "Invalid value for '--timeout-ms': 0 is not in the range x>=1."
            ),
        ),
        (
            ("tool", "run", "a", "--timeout", "nan"), 2,
            USAGE.format(
                "tool run [OPTIONS] ID", "tool run", "Invalid value for '--timeout': must be a number of seconds above 0, or 500ms, 2.5s, 5m or 2h"
            ),
        ),
        (
            ("tool", "run", "a", "--timeout", "1e308"), 2,
            USAGE.format(
                "tool run [OPTIONS] ID", "tool run", "Invalid value for '--timeout': must be a number of seconds above 0, or 500ms, 2.5s, 5m or 2h"
            ),
        ),
        (
            ("output", "query", "runtime-demo-1774356909696-fc5aa1f22e33e17c", "--term", b"\xff"), 2,
            USAGE.format("output query [OPTIONS] HANDLE", "output query", "a term is not UTF-8 text; output is searched as UTF-8"),
        ),
        (("script", "new", ""), 2, USAGE.format("script new [OPTIONS] NAME", "script new", "Invalid value for NAME: '' is not a plain name")),
        (
            ("servers", "approve", "nobody"), 1,
            "nobody: no change waits for approval; paddock servers diff nobody looks for some\n",
        ),
        (("servers", "diff", "nobody"), 1, "warning: nobody: Unknown server: nobody\n"),
        (("servers", "tools", "nobody"), 1, "Unknown server: nobody\n  no servers are configured here; name one in .paddock/servers.json of the workspace\n"),
    ],
)  # fmt: skip
def test_a_mistake_is_told(place, args, code, told):
    assert run_paddock(place, *args, stdin=b"return 1") == (code, "", told)


def test_no_script_without_a_name(place):
    code, output, errors = run_paddock(place, "run", "")
    assert (code, output, errors.splitlines()[:3]) == (
        1, "", ["Script not found: ", "  searched:", f"    {place}/.paddock/scripts/.ts (.js, .mjs)"],
    )  # fmt: skip


NOBODY = """
import pwd, sys

def of_nobody(uid):
    raise KeyError(uid)

pwd.getpwuid = of_nobody
from paddock.surfaces.cli import main
main()
"""


@pytest.mark.parametrize("home", [None, ""])
@pytest.mark.parametrize(
    "args", [("run", "-"), ("config", "show"), ("servers", "list"), ("exec", "python", "-")]
)
def test_a_user_without_a_home_directory_is_told(tmp_path, home, args):
    """As in a container that runs as a number that no user has."""
    places = ("HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME")
    environment = {name: value for name, value in os.environ.items() if name not in places}
    where = environment if home is None else {**environment, "HOME": home}
    done = run_command(tmp_path, sys.executable, "-c", NOBODY, *args, stdin="return 1", environment=where)
    told = f"There is no home directory of user {os.geteuid()}: set HOME to a directory that belongs to it.\n"
    code = 125 if args[0] == "exec" else 1
    assert done == (code, "", told)


@pytest.mark.parametrize("home", ["", "relative"])
def test_a_home_that_is_no_place_is_as_none(place, monkeypatch, home):
    monkeypatch.setenv("HOME", home)
    code, output, errors = run_paddock(place, "run", "missing")
    own = pwd.getpwuid(os.geteuid()).pw_dir
    assert (code, output) == (1, "")
    assert f"    {own}/.paddock/scripts/missing.ts (.js, .mjs)" in errors.splitlines()


@pytest.mark.parametrize("args", [("--help",), ("config", "show"), ("run", "-"), ("completion", "bash")])
def test_output_that_cannot_be_written_is_told(place, args):
    with Path("/dev/full").open("wb") as full:
        found = run_paddock(place, *args, stdin=b"return 1", stdout=full)
    assert found == (1, "", "cannot write the output: No space left on device\n")


@pytest.mark.parametrize("command", ["run -", "exec python -c 1", "config show", "script list"])
def test_a_current_directory_that_was_removed_is_told(place, command):
    gone = place / "gone"
    gone.mkdir()
    code, output, errors = paddock_in_shell(gone, f'rmdir {gone}; exec "$PADDOCK" {command} < /dev/null')
    assert (code, output) == (2, "")
    assert errors.endswith(
        "\n\nError: Invalid value for '--workspace' / '-w': the current directory was removed; go to another one\n"
    )
    assert "Traceback" not in errors


GONE = "the current directory was removed; go to another one\n"
DEAD = "Failed to connect to server dead: Server dead exited with status 1 without an answer.\n"


@pytest.mark.parametrize(
    ("command", "answer"),
    [
        ("run -", (0, "1\n", "")),
        ("run ./program.ts", (1, "", GONE)),
        ("exec shell -c 'echo 1'", (0, "1\n", "")),
        (
            "output list",
            (0, "", "no output is stored for this workspace; `paddock exec` and `paddock run` store it\n"),
        ),
        (
            "exec shell -c 1 --set audit.directory=here",
            (2, "", f"--set audit.directory: audit.directory: {GONE}"),
        ),
        ("servers call dead tool", (1, "", DEAD)),
    ],
)
def test_where_the_current_directory_was_removed_another_workspace_serves(place, command, answer):
    settings = {"mcpServers": {"dead": {"command": "/usr/bin/false"}}}
    (place / ".mcp.json").write_text(json.dumps(settings))
    gone = place / "gone"
    gone.mkdir()
    script = f'rmdir {gone}; echo "return 1" | "$PADDOCK" {command} --workspace {place}'
    assert paddock_in_shell(gone, script) == answer


def paddock_in_shell(place, script):
    return run_command(place, "sh", "-c", script, environment={**os.environ, "PADDOCK": PADDOCK})


@pytest.mark.parametrize(
    ("args", "code"),
    [
        (("run", "-"), 1),
        (("exec", "python", "-c", "1"), 125),
        (("servers", "list"), 1),
        (("serve", "mcp"), 1),
    ],
)
def test_a_workspace_whose_path_is_no_text_is_told(place, args, code):
    odd = place / os.fsdecode(b"lat\xe4n")
    odd.mkdir()
    why = f"{place}/lat\\udce4n: the path of the workspace is not UTF-8; rename the directory, or use another one"
    assert run_paddock(odd, *args, stdin=b"return 1") == (code, "", why + "\n")
    with pytest.raises(ConfigurationError) as told, BlockingPaddock(odd):
        pass
    assert ascii(str(told.value))[1:-1] == why


def test_numbers_that_json_does_not_know_make_no_sense(place):
    with BlockingPaddock(place) as p:
        with pytest.raises(ValueError, match=r"input\[0\] is nan; give None, booleans, finite numbers, "):
            p.execute("return input", input=[float("nan")])
        assert p.execute("return input", input=[1.5]).value == [1.5]
        exact = p.execute("return input", input={"n": [Decimal("12345678901234567890.5"), Decimal(2)]})
        assert dumps(exact.value) == '{"n": [12345678901234567890.5, 2]}'
        for given, why in (
            ({"n": float("nan")}, "arguments.n is nan; give None, "),
            ({"n": p}, "arguments.n is a BlockingPaddock, which JSON does not support; give None, "),
            ([("n", 1)], "arguments must be a dict, but is a list"),
            ("n", "arguments must be a dict, but is a str"),
        ):
            with pytest.raises(ValueError, match=why):
                p.call("odd", "echo", given)


def test_lines_of_a_stream_that_is_empty(place):
    run_paddock(place, "exec", "shell", "-c", "echo told >&2")
    handle = run_paddock(place, "output", "list")[1].split("\t")[1]
    found = run_paddock(place, "output", "query", handle, "--lines", "1-5")
    assert found == (0, "", "no such lines: there was no output on this stream\n")


@pytest.mark.parametrize(
    ("args", "code", "told"),
    [
        (("nothing", "--json"), 2, "No such command 'nothing'. See `paddock --help`."),
        (("run", "--json"), 2, "Missing argument 'NAME|PATH|-'."),
        (("run", "./none.js", "--json"), 1, "Script not found: ./none.js\n  searched:\n    {0}/none.js"),
        (("exec", "pyton", "-c", "1", "--json"), 127, "there is no runtime pyton; did you mean python?"),
        (("audit", "show", "1", "--json"), 1, "No record of 1 in {0}/audit"),
        (("sequence", "run", "none", "--json"), 1, "there is no sequence called none"),
        (
            ("exec", "--timeout", "5s", "--timeout-ms", "3", "--json", "shell", "-c", "true"),
            2,
            "The timeout is given twice: with --timeout and with --timeout-ms.",
        ),
        (
            ("policy", "explain", "--timeout-ms", "3", "--timeout", "5s", "--json", "shell"),
            2,
            "The timeout is given twice: with --timeout and with --timeout-ms.",
        ),
        (("config", "show", "none", "--json"), 2, "Invalid value for PREFIX: there is no setting none"),
    ],
)
def test_json_is_one_document_of_mistakes_too(place, args, code, told):
    (place / "audit").mkdir()
    args = (*args, "--set", f"audit.directory={place}/audit") if args[0] == "audit" else args
    found, output, errors = run_paddock(place, *args)
    message = json.loads(output)["error"]["message"]
    assert (found, json.loads(output)) == (code, {"error": {"message": message}})
    assert message in errors
    assert message.startswith(told.format(place))


@pytest.mark.parametrize(
    "command", ["run -", "exec shell -c 1", "policy check python", "audit verify", "doctor"]
)
def test_a_setting_of_the_command_line_that_makes_no_sense_is_a_mistake_of_usage(place, command):
    """Not a fault of Paddock, nor what a check found."""
    for given, told in (
        ("grants.jitt=true", "--set grants.jitt: unknown key; did you mean `grants.jit`?"),
        ("grants.jit=2", '--set grants.jit: grants.jit must be true or false, not the text "2"'),
        ("sdk.commands=[]", "--set sdk.commands: this can only be set in a settings file"),
    ):
        assert run_paddock(place, *command.split(), "--set", given) == (2, "", f"{told}\n")


def test_json_of_a_failure_that_has_a_document_is_that_document(place):
    (place / ".mcp.json").write_text("{}")
    assert run_paddock(place, "servers", "tools", "none", "--json")[:2] == (1, "[]\n")
    code, output, errors = run_paddock(place, "compute", "--json", stdin=b"{}")
    assert (code, json.loads(output)) == (
        1,
        {"error": {"code": "INVALID_INPUT", "message": "`source` is missing"}},
    )
    assert errors == '{"code":"INVALID_INPUT","message":"`source` is missing"}\n'


def test_what_follows_the_arguments_of_a_program_asks_for_no_json(place):
    assert run_paddock(place, "exec", "cobol", "--", "--json")[1] == ""


def test_the_command_line_is_a_module_too(place):
    """As it is asked for where `paddock` is not on PATH."""
    told = run_command(place, sys.executable, "-m", "paddock", "run", "-", stdin="return 1 + 1")
    assert told == (0, "2\n", "")
    help_of = [
        run_command(None, *start, "--help") for start in ([sys.executable, "-m", "paddock"], [PADDOCK])
    ]
    assert help_of[0].stdout == help_of[1].stdout


def test_nothing_of_the_current_directory_is_imported(place):
    """A program that may write there would run as the user, and not confined."""
    for name in ("click", "orjson", "platformdirs", "pydantic", "tomllib"):
        (place / f"{name}.py").write_text("raise SystemExit('a file of the workspace was imported')")
    told = run_command(place, sys.executable, "-m", "paddock", "exec", "shell", "-c", "echo ran")
    assert told == (0, "ran\n", "")
