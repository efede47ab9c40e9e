"""What a person is shown: nothing in it can pass for anything else, hide, or give a secret away."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.gate.work import KINDS
from paddock.model.limits import LimitOverrides
from paddock.model.outcome import Decision
from paddock.model.printable import make_printable
from paddock.model.request import ExecutionRequest, GuestRun, RuntimeRun, SdkCall, ServerCall, ToolRun
from paddock.policy.decisions.question_texts import format_details, make_act_question
from paddock.policy.redaction.known import KnownSecrets
from paddock.policy.redaction.outgoing import OutgoingRedaction
from paddock.policy.settings.schema import RedactionSettings

from .deciding import hash_request, make_question

ASKING = Decision(allowed=False, asks=("why",), rule="user rule 1")
NOTHING = OutgoingRedaction(RedactionSettings(), KnownSecrets())


def call(arguments: dict[str, Any], **fields: Any) -> ExecutionRequest:
    work = ServerCall(server="git", tool="push", arguments=arguments)
    return ExecutionRequest(**{"id": "01", "parent": "00", "workspace": Path("/w"), "work": work, **fields})


@given(st.text())
def test_any_text_is_shown_as_one_line_from_left_to_right(text: str) -> None:
    shown = make_printable(text, 10_000)
    assert shown.isprintable()
    assert not {"\u202e", "\u2066", "\u200b", "\n", "\x1b", "\u05d0"} & {*shown}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("naïve café 日本", "naïve café 日本"),
        ("ok\nAllow? [y/N] y", r"ok\u000aAllow? [y/N] y"),
        ("\x1b[2J\x1b]0;title\x07", r"\u001b[2J\u001b]0;title\u0007"),
        ("safe\u202etxt.exe", r"safe\u202etxt.exe"),
        ("\u05d0\u0627", r"\u05d0\u0627"),
        ("a\u0336", r"a\u0336"),
        ("a\u20dd\u0903\u0661\uffff", r"a\u20dd\u0903\u0661\uffff"),
        ("\U000e0041\ud800", r"\U000e0041\ud800"),
        ("x" * 1000, "x" * 100 + " [... 800 characters not shown ...] " + "x" * 100),
    ],
)
def test_how_hostile_texts_are_shown(text: str, shown: str) -> None:
    assert make_printable(text) == shown


def test_long_arguments_cannot_push_the_others_out_of_sight() -> None:
    shown = format_details({"a": "x" * 100_000, "force": True}, NOTHING)
    assert shown.startswith('{"a": "xxx')
    assert shown.endswith('"force": true}')
    assert "[... 99600 characters not shown ...]" in shown
    many = format_details({f"k{n}": "v" * 300 for n in range(1000)}, NOTHING)
    assert len(many) < 4100
    assert "characters not shown" in many


def test_arguments_nested_too_deep_are_said_to_be_so() -> None:
    deep: Any = "x"
    for _ in range(5000):
        deep = [deep]
    assert format_details({"a": deep}, NOTHING) == "(nested too deeply to be shown)"


def test_secrets_are_not_shown() -> None:
    secrets = KnownSecrets()
    secrets.learn("from-the-vault")
    asked = make_question(
        call({"password": "hunter2", "note": "from-the-vault"}),
        ASKING,
        OutgoingRedaction(RedactionSettings(), secrets),
        wait_ms=1,
    )
    assert asked.details == '{"password": "[REDACTED:secret]", "note": "[REDACTED:vault]"}'


def test_what_is_asked_about_each_kind_of_work() -> None:
    works = [
        RuntimeRun(runtime="python", code="print(1)", args=("a",), access="workspace-write", network="full"),
        ToolRun(tool="deploy", inputs={"to": "prod"}, access="read-only"),
        SdkCall(method="vault.get", arguments=("KEY",)),
        GuestRun(source="return 1", name="x\n"),
    ]
    asked = [make_question(call({}, work=work), ASKING, NOTHING, wait_ms=1) for work in works]
    assert [(each.what, each.details, each.scopes) for each in asked] == [
        (
            "run a python program (workspace workspace-write, network full)",
            '{"code": "print(1)", "args": ["a"], "cwd": "."}',
            ("once",),
        ),
        (
            "run the script tool deploy (workspace read-only, network none)",
            '{"inputs": {"to": "prod"}, "env": {}}',
            ("once", "run"),
        ),
        ("call paddock.vault.get", '{"arguments": ["KEY"]}', ("once", "run")),
        (r"run the JavaScript program x\u000a", '{"source": "return 1"}', ("once",)),
    ]


def test_the_hash_is_of_all_that_is_done() -> None:
    base = call({"a": 1, "b": 2})
    assert hash_request(base) == hash_request(call({"b": 2, "a": 1}, id="02", parent=None))
    others = [
        call({"a": 1, "b": 3}),
        call({"a": 1, "b": 2}, workspace=Path("/v")),
        call({"a": 1, "b": 2}, actor="somebody"),
        call({"a": 1, "b": 2}, limits=LimitOverrides(timeout_ms=1)),
        call({}, work=ServerCall(server="git", tool="pull", arguments={"a": 1, "b": 2})),
        call({}, work=ServerCall(server="git", tool="push", arguments={"a": 1, "b": 2}, raw=True)),
        call({}, work=GuestRun(source="1", vars={"a": "1"})),
        call({}, work=GuestRun(source="1", vars={"a": "2"})),
        call({}, work=RuntimeRun(runtime="python", code="1", stdin=b"\xff")),
        call({}, work=RuntimeRun(runtime="python", code="1", stdin=b"\xfe")),
    ]
    assert len({hash_request(base), *map(hash_request, others)}) == len(others) + 1


def test_an_act_is_shown_as_a_request_is() -> None:
    asked = make_act_question("01", "enable x\x1b", {"token": "a1b2c3d4e5"}, "because\n", NOTHING, wait_ms=5)
    assert (asked.what, asked.details, asked.reasons, asked.scopes) == (
        r"enable x\u001b",
        '{"token": "[REDACTED:secret]"}',
        (r"because\u000a",),
        ("once",),
    )


def test_the_reasons_of_a_question_hold_no_secret() -> None:
    secrets = KnownSecrets()
    secrets.learn("from-the-vault")
    decision = Decision(
        allowed=False, asks=("git/from-the-vault needs a person's approval",), rule="user rule 1"
    )
    work = ServerCall(server="git", tool="from-the-vault")
    asked = make_question(
        ExecutionRequest(workspace=Path("/w"), work=work),
        decision,
        OutgoingRedaction(RedactionSettings(), secrets),
        wait_ms=1,
    )
    assert asked.reasons == ("git/[REDACTED:vault] needs a person's approval",)
    assert "from-the-vault" not in asked.model_dump_json()


def test_the_question_about_an_act_holds_no_secret() -> None:
    secrets = KnownSecrets()
    secrets.learn("from-the-vault")
    outgoing = OutgoingRedaction(RedactionSettings(), secrets)
    what = "connect a program to from-the-vault.example:443"
    asked = make_act_question(
        "01", what, {"host": "from-the-vault.example"}, "no from-the-vault", outgoing, wait_ms=5
    )
    assert asked.what == "connect a program to [REDACTED:vault].example:443"
    assert asked.reasons == ("no [REDACTED:vault]",)
    assert "from-the-vault" not in asked.model_dump_json()


def test_a_yes_for_the_rest_of_a_run_is_a_yes_to_one_tool_of_one_server() -> None:
    names = [
        KINDS[work.kind].repeatable_name(work)
        for work in (
            ServerCall(server="a", tool="b/c"),
            ServerCall(server="a/b", tool="c"),
            SdkCall(method="a/b/c"),
            ToolRun(tool="c", prompt="a/b"),
            ToolRun(tool="b/c", prompt="a"),
            ToolRun(tool="c", prompt="a/b", script_sha256="0"),
        )
    ]
    assert len({*names}) == len(names)
    assert KINDS["guest"].repeatable_name(GuestRun(source="1")) is None


def test_a_question_says_who_asks_from_where_and_how_long_a_yes_may_hold() -> None:
    def asked(**fields: Any) -> dict[str, Any]:
        named = {"actor": "ada", "surface": "mcp", "root": "0R", **fields}
        found = make_question(call({"a": 1}, **named), ASKING, NOTHING, wait_ms=7)
        return found.model_dump(exclude={"id", "sha256"})

    told = {
        "request": "01",
        "run": "0R",
        "actor": "ada",
        "surface": "mcp",
        "workspace": "/w",
        "what": "call git/push",
        "details": '{"a": 1}',
        "reasons": ("why",),
        "rule": "user rule 1",
        "scopes": ("once", "run"),
        "wait_ms": 7,
    }
    assert asked() == told
    assert asked(parent=None, root=None) == {**told, "run": "01", "scopes": ("once",)}
    odd = asked(actor="a\u202e", surface="s\n", workspace=Path("/w\x1b"))
    assert (odd["actor"], odd["surface"], odd["workspace"]) == (r"a\u202e", r"s\u000a", r"/w\u001b")


def test_everything_that_decides_what_a_program_does_is_shown() -> None:
    program = RuntimeRun(
        runtime="python", code="1", args=("a",), executable="python3", file="f.py", cwd="sub", stdin=b"in\xff"
    )
    guest = GuestRun(source="1", input={"i": 1}, vars={"v": "2"})
    shows = {
        "code": "1",
        "args": ["a"],
        "executable": "python3",
        "file": "f.py",
        "cwd": "sub",
        "stdin": "in\ufffd",
    }
    for work, told in ((program, shows), (guest, {"source": "1", "input": {"i": 1}, "vars": {"v": "2"}})):
        request = ExecutionRequest(workspace=Path("/w"), work=work)
        found = make_question(request, ASKING, NOTHING, wait_ms=1)
        assert json.loads(found.details) == told
        assert hash_request(request) != hash_request(request.model_copy(update={"jit": True}))


def test_an_act_is_told_from_another_by_its_hash() -> None:
    acts = [
        make_act_question("00", what, arguments, "why", NOTHING, wait_ms=1)
        for what, arguments in (("enable x", {}), ("enable y", {}), ("enable x", {"a": 1}))
    ]
    assert len({each.sha256 for each in acts}) == 3
    assert acts[0].model_dump(include={"what", "reasons", "scopes", "run"}) == {
        "what": "enable x",
        "reasons": ("why",),
        "scopes": ("once",),
        "run": "00",
    }
