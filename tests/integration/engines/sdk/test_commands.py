"""Commands of the settings as functions of the SDK: granted by name, confined, without a shell."""

import socket

import pytest

from paddock.model.network import NetworkRule
from paddock.model.outcome import Status
from paddock.policy.settings.commands import SdkCommand
from paddock.policy.settings.rules import Rule

SECRET = "s3cr3t-v4lue"
ECHO = SdkCommand(name="notes.echo", command=("printf", "<%s>", "{text}", "{more:list?}"))
FACTS = SdkCommand(
    name="notes.facts",
    command=(
        *("bash", "-c"),
        'printf \'["%s","%s","%s","%s",%s,"%s"]\' "$1" "$(cat)" "$SHOWN" "$HIDDEN" "${{#TOKEN}}" "$TOKEN"',
        *("--", "{n:integer}"),
    ),
    stdin="{body?}",
    output="json",
    environment=("SHOWN",),
    secrets={"TOKEN": "api"},
)


def bash(code, **fields):
    return SdkCommand(name="notes.run", command=("bash", "-c", code), **fields)


def call(desk, source="return paddock.notes.run()", **how):
    return desk.run(
        f"try {{ {source} }} catch (e) {{ return [e.name, e.status, e.retryable, e.message] }}", **how
    )


def test_a_command_is_a_frozen_function_that_gives_what_it_prints(desk):
    desk.open(sdk={"commands": (ECHO,)})
    outcome = desk.run(
        """
        return [typeof paddock.nothing, Object.isFrozen(paddock.notes), Object.isFrozen(paddock.notes.echo),
          mentu.notes.echo({text: "a b; $(id) `id` > x"}), await paddock.notes.echo({text: "a", more: ["b", "c"]})];
        """
    )
    assert outcome.error is None
    assert outcome.value == ["undefined", True, True, "<a b; $(id) `id` > x>", "<a><b><c>"]
    assert not (desk.workspace / "x").exists()
    started = [record for record in desk.records() if record.event == "started"]
    assert [record.fields["kind"] for record in started] == ["guest", "sdk", "sdk"]
    assert started[1].fields["name"] == "notes.echo"
    assert {record.parent for record in started[1:]} == {outcome.id}


def test_it_gets_the_variables_and_secrets_that_are_named_and_nothing_else(desk, monkeypatch):
    monkeypatch.setenv("SHOWN", "shown")
    monkeypatch.setenv("HIDDEN", "hidden")
    desk.open(sdk={"commands": (FACTS,)}).vault.set("global", "api", SECRET)
    outcome = desk.run("return paddock.notes.facts({n: 3, body: 'in'})")
    assert outcome.value == ["3", "in", "shown", "", len(SECRET), "[REDACTED:vault]"]
    assert SECRET not in "".join(record.model_dump_json() for record in desk.records())


def test_without_its_secret_it_does_not_start(desk):
    desk.open(sdk={"commands": (FACTS,)})
    assert call(desk, "return paddock.notes.facts({n: 3})").value == [
        "CommandError",
        "unavailable",
        True,
        "paddock.notes.facts needs the secret api, which does not exist; store it with: paddock vault set api",
    ]


@pytest.mark.parametrize(
    ("code", "fields", "status", "told"),
    [
        ("echo it broke >&2; exit 3", {}, "failed", "it ended with exit code 3: it broke"),
        ("kill -9 $$", {}, "failed", "it was ended by SIGKILL"),
        ("while :; do :; done", {"timeout_ms": 300}, "timeout", "it exceeded its limit (wall)"),
        ("yes", {"output_bytes": 4096}, "output_limit", "it exceeded its limit (stdout)"),
        ("echo {{", {"output": "json"}, "failed", "its output is not JSON: '{\\n'"),
    ],
)
def test_how_it_can_fail(desk, code, fields, status, told):
    desk.open(sdk={"commands": (bash(code, **fields),)})
    assert call(desk).value == ["CommandError", status, False, f"paddock.notes.run: {told}"]


@pytest.fixture
def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_it_is_confined(desk, free_port):
    code = f"cat {desk.workspace}/f; (exec 3<>/dev/tcp/127.0.0.1/{free_port}) && echo connected; true"
    (desk.workspace / "f").write_text("kept")
    desk.open(sdk={"commands": (bash(code),)})
    assert call(desk).value == ""


def test_with_access_it_works_in_the_workspace(desk):
    desk.open(sdk={"commands": (bash("cat f", access="read-only"),)})
    (desk.workspace / "f").write_text("kept")
    assert call(desk).value == "kept"


def test_a_program_of_the_workspace_is_not_run(desk, monkeypatch):
    (desk.workspace / "mine").write_text("#!/bin/sh\necho mine\n")
    (desk.workspace / "mine").chmod(0o755)
    monkeypatch.setenv("PATH", f"{desk.workspace}:/usr/bin:/bin")
    desk.open(sdk={"commands": (SdkCommand(name="notes.run", command=("mine",)),)})
    assert call(desk).value == [
        "CommandError",
        "unavailable",
        True,
        "paddock.notes.run: mine is in the workspace, whose files are untrusted; "
        "set the path of another under [[sdk.commands]]",
    ]


def test_a_program_that_is_not_there_is_told_with_its_remedy(desk):
    desk.open(sdk={"commands": (SdkCommand(name="notes.run", command=("no-such-program",)),)})
    assert call(desk).value[-1] == (
        "paddock.notes.run needs no-such-program, which is not installed; install it, or set its path "
        "in `command` under [[sdk.commands]]"
    )


def test_what_does_not_fit_is_an_error_and_starts_nothing(desk):
    desk.open(sdk={"commands": (ECHO,)})
    assert call(desk, "return paddock.notes.echo({text: '-v'})").value == [
        "TypeError",
        "invalid",
        False,
        "paddock.notes.echo: text may not begin with `-`, which would make it an option",
    ]
    assert call(desk, "return paddock.notes.echo('a', 'b')").value[-1] == (
        "paddock.notes.echo takes one object with its arguments"
    )


def test_policy_names_commands_like_other_methods(desk):
    rule = Rule(effect="deny", method="notes.*", reason="no notes")
    desk.open(sdk={"commands": (ECHO,)}, rules=[rule])
    assert call(desk, "return paddock.notes.echo({text: 'a'})").value == [
        "PolicyError",
        "denied",
        False,
        "no notes",
    ]


def test_programs_of_agents_need_the_grant(desk):
    desk.open(sdk={"commands": (ECHO,)})
    found = call(desk, "return paddock.notes.echo({text: 'a'})", profile="execute").value
    assert found[-1] == (
        "paddock.notes.echo is not granted to programs of the profile execute; "
        "name it in `execute` under [sdk] in paddock.toml"
    )


def test_a_computation_has_no_commands(desk):
    desk.open(sdk={"commands": (ECHO,)})
    outcome = desk.run("emit(typeof paddock)", profile="compute")
    assert (outcome.status, outcome.value) == (Status.OK, "undefined")


def test_output_that_is_nested_too_deep_to_be_written_again_is_a_failure(desk):
    desk.open(
        sdk={"commands": (bash("printf '[%.0s' {{1..300}}; printf ']%.0s' {{1..300}}", output="json"),)}
    )
    assert call(desk).value == [
        "CommandError",
        "failed",
        False,
        "paddock.notes.run: its output is nested more than 200 levels deep",
    ]


def test_a_command_reaches_the_hosts_that_a_rule_allows(desk):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        rule = NetworkRule(
            host="localhost", effect="allow", ports=(port,), addresses=("127.0.0.0/8",), origin="user"
        )
        ask = 'exec 3<>/dev/tcp/127.0.0.1/3128; printf "CONNECT %s HTTP/1.1\\r\\nHost: %s\\r\\n\\r\\n" $1 $1 >&3; head -c 12 <&3'
        fetch = SdkCommand(name="notes.run", command=("bash", "-c", ask, "--", "{host}"), network="hosts")
        desk.open(sdk={"commands": (fetch,)}, network={"rule": (rule,)})
        assert desk.run(f"return paddock.notes.run({{host: 'localhost:{port}'}})").value == "HTTP/1.1 200"
        assert desk.run(f"return paddock.notes.run({{host: 'localhost:{port + 1}'}})").value == "HTTP/1.1 403"
    connected = [record for record in desk.records() if record.event == "connected"]
    assert sorted(record.fields["verdict"] for record in connected) == ["allowed", "refused"]
