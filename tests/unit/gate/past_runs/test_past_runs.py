"""What a surface shows of one run: its calls, its limits, what would allow what was refused, and its command."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from paddock.gate.past_runs.command import RerunCommand, write_command
from paddock.gate.past_runs.describe import PastRun, describe_run
from paddock.gate.past_runs.stored import sniff_image
from paddock.gate.past_runs.terms import LimitUse, Remedy, Terms, rebuild_request
from paddock.model.request import RuntimeRun, ServerCall
from paddock.policy.decisions.kinds import empty_catalogue
from paddock.policy.settings.rules import PolicySettings, Rule
from paddock.policy.settings.schema import Settings
from paddock.record.ledger.line_format import chain_record

if TYPE_CHECKING:
    from paddock.record.ledger.sink import AuditRecord

RUN, CALL, INNER = "01KJMMA3F8SVA65PS7CYB6X8C2", "01KJMMA6D0P8FCMJSZKBR75W1Q", "01KJMMA7C803K12X9CQ6AXEAZ8"
IDENTITY = {"actor": "ada", "surface": "cli", "rule": "default"}


class Chain:
    """Records of a run, 100 ms apart."""

    def __init__(self) -> None:
        self.records: list[AuditRecord] = []

    def add(self, event: str, request: str, parent: str | None = None, **facts: Any) -> None:
        previous = self.records[-1] if self.records else None
        seconds = 1_772_366_400 + len(self.records) / 10
        known = {**IDENTITY, **facts}
        self.records.append(chain_record(previous, event, request, known, parent=parent, seconds=seconds))

    def describe(self) -> PastRun:
        past = describe_run(RUN, self.records)
        assert past is not None
        return past


def make_past(**facts: Any) -> PastRun:
    chain = Chain()
    chain.add("started", RUN, **facts)
    chain.add("finished", RUN, status="ok", ms=90.0, **facts)
    return chain.describe()


def make_terms(*rules: Rule, **tables: Any) -> Terms:
    settings = Settings(policy=PolicySettings(rule=rules), **tables)
    return Terms(settings, Path("/work"), empty_catalogue)


def test_records_become_calls_questions_and_connections_with_their_times() -> None:
    chain = Chain()
    chain.add("started", RUN, kind="guest", name="program")
    chain.add("started", CALL, RUN, kind="sdk", name="exec")
    chain.add("asked", INNER, CALL, kind="runtime", name="run it?", question="q1", call_sha256="a")
    chain.add("answered", INNER, CALL, question="q1", answer="allowed", answered_by="a terminal", ms=80.0)
    chain.add("started", INNER, CALL, kind="runtime", name="python")
    chain.add(
        "connected", "01KJMMA8BGAF0N30XTJZDM45BV", INNER, host="example.org", verdict="allowed", ms=40.0
    )
    chain.add("looked", "01KJMMAAAAAAAAAAAAAAAAAAAA", RUN, kind="server", name="git/*", status="ok")
    chain.add("decided", "01KJMMABBBBBBBBBBBBBBBBBBB", RUN, kind="server", name="git/push", status="denied")
    chain.add("finished", INNER, CALL, kind="runtime", name="python", status="ok", ms=350.0)
    chain.add("finished", CALL, RUN, kind="sdk", name="exec", status="ok", ms=750.0)
    past = chain.describe()
    assert (past.run.id, past.run.status, past.run.denied) == (RUN, "unfinished", 1)
    assert past.wall_ms == 900.0
    assert [
        (call.name, call.depth, call.start_ms, call.ms, call.status, call.is_listing, call.is_refused)
        for call in past.calls
    ] == [
        ("exec", 1, 100.0, 750.0, "ok", False, False),
        ("python", 2, 400.0, 350.0, "ok", False, False),
        ("git/*", 1, 600.0, 0.0, "ok", True, False),
        ("git/push", 1, 700.0, 0.0, "denied", False, True),
    ]
    assert [(each.request, each.start_ms, each.facts["host"]) for each in past.connections] == [
        (INNER, 460.0, "example.org")
    ]
    assert past.questions == ((INNER, "run it?", 200.0, "allowed", "a terminal", 80.0),)


def test_a_question_without_an_answer_and_a_call_without_an_end_stay_open() -> None:
    chain = Chain()
    chain.add("started", RUN, kind="guest", name="program")
    chain.add("started", CALL, RUN, kind="server", name="git/log")
    chain.add("asked", INNER, RUN, kind="server", name="git/push", question="q1")
    past = chain.describe()
    assert [(call.status, call.ms) for call in past.calls] == [("", 0.0)]
    assert past.questions == ((INNER, "git/push", 200.0, "", "", None),)


def test_a_run_whose_first_record_is_missing_is_not_described() -> None:
    chain = Chain()
    chain.add("finished", RUN, status="ok")
    assert describe_run(RUN, chain.records) is None


def test_limits_are_those_of_the_settings_with_what_was_used() -> None:
    terms = make_terms(runtimes={"timeout_ms": 5000, "memory_bytes": 2**20})
    end = {"cpu_ms": 9.0, "peak_bytes": 2**20, "limit": "memory", "stdout_bytes": 5}
    past = make_past(kind="runtime", name="python", access="read-only", **end)
    assert terms.list_limits(past) == [
        LimitUse("wall time", 90.0, 5000, "ms", was_reached=False),
        LimitUse("memory", 2**20, 2**20, "bytes", was_reached=True),
    ]
    guest = make_past(kind="guest", name="program", profile="execute", calls=3, bytes_in=20, bytes_out=7)
    assert [(each.name, each.used) for each in terms.list_limits(guest)] == [
        ("wall time", 90.0),
        ("memory", 0.0),
        ("calls", 3.0),
        ("program", 20.0),
        ("result and console", 7.0),
    ]


def test_the_time_of_a_question_counts_for_no_limit() -> None:
    chain = Chain()
    chain.add("asked", RUN, kind="guest", name="program", question="q0")
    chain.add("answered", RUN, question="q0", answer="once", ms=500.0)
    chain.add("started", RUN, kind="guest", name="program", profile="execute")
    chain.add("asked", CALL, RUN, kind="changes", action="accept", question="q1")
    chain.add("answered", CALL, RUN, question="q1", answer="once", ms=99_000.0)
    chain.add("started", CALL, RUN, kind="changes", action="accept")
    chain.add("finished", CALL, RUN, kind="changes", action="accept", status="ok", ms=30.0)
    chain.add("finished", RUN, kind="guest", name="program", profile="execute", status="ok", ms=104_000.0)
    past = chain.describe()
    assert make_terms().list_limits(past)[0][:2] == ("wall time", 5000.0)
    assert [call.name for call in past.calls] == ["accept changes"]
    assert [question.what for question in past.questions] == ["program", "accept changes"]


def test_work_without_a_program_has_no_measurements() -> None:
    given = {"kind": "changes", "action": "undo", "cpu_ms": 0.0, "peak_bytes": 0}
    run = make_past(**given, tier="none").run
    assert (run.title, run.cpu_ms, run.peak_bytes) == ("undo changes", None, None)
    run = make_past(**given, tier="landlock").run
    assert (run.cpu_ms, run.peak_bytes) == (0.0, 0)


def test_a_run_that_policy_refused_used_no_limits() -> None:
    chain = Chain()
    chain.add("decided", RUN, kind="runtime", name="python", status="denied")
    assert make_terms().list_limits(chain.describe()) == []


def test_a_rule_that_refuses_is_shown_as_it_stands_in_its_file() -> None:
    deny = Rule(effect="deny", tool="git/push*", reason="no pushing", origin="user")
    facts = {**IDENTITY, "kind": "server", "name": "git/push", "rule": "user rule 1"}
    assert make_terms(deny).suggest_remedy(facts) == Remedy(
        verdict="denied",
        rule="user rule 1",
        reasons=("no pushing",),
        hint="",
        present='[[policy.rule]]\neffect = "deny"\ntool = "git/push*"\nreason = "no pushing"',
        wanted="",
    )


def test_a_missing_rule_is_written_for_exactly_what_was_refused() -> None:
    allow = Rule(effect="allow", tool="git/log", origin="workspace")
    facts = {**IDENTITY, "kind": "server", "name": "git/[x]*", "rule": "workspace rules"}
    remedy = make_terms(allow).suggest_remedy(facts)
    assert remedy == Remedy(
        verdict="denied",
        rule="workspace rules",
        reasons=("git/[x]* is not allowed by any of the workspace rules",),
        hint="",
        present="",
        wanted='[[policy.rule]]\neffect = "allow"\ntool = "git/[[]x][*]"',
    )
    wanted = Rule(effect="allow", tool="git/[[]x][*]", origin="workspace")
    after = make_terms(allow, wanted)
    assert after.suggest_remedy(facts) == Remedy("allowed", "default", (), "", "", "")
    other = after.suggest_remedy({**facts, "name": "git/[x]y"})
    assert other is not None
    assert other.verdict == "denied"


def test_a_grant_that_is_missing_is_named_by_the_reason() -> None:
    facts = {**IDENTITY, "kind": "server", "name": "mail/send", "rule": "grants.servers"}
    remedy = make_terms(grants={"servers": ("git",)}).suggest_remedy(facts)
    assert remedy is not None
    assert remedy.reasons == (
        "server mail is not granted (granted: git); name it in `servers` under [grants] in paddock.toml",
    )


def test_what_policy_allows_or_asks_about_today_is_said() -> None:
    facts = {**IDENTITY, "kind": "runtime", "name": "python", "rule": "user rule 3", "access": "read-only"}
    ask = Rule(effect="ask", server="git", reason="ask first", origin="user")
    called = {**IDENTITY, "kind": "server", "name": "git/push", "rule": "user rule 1"}
    remedy = make_terms(ask).suggest_remedy(called)
    assert remedy == Remedy("ask", "user rule 1", ("ask first",), "", "", "")
    assert make_terms().suggest_remedy({**facts, "kind": "unknown"}) is None


def test_requests_are_rebuilt_from_facts_and_others_are_none() -> None:
    program = rebuild_request(
        {
            **IDENTITY,
            "kind": "runtime",
            "name": "python",
            "access": "none",
            "network": "hosts",
            "hosts": ["example.org"],
            "variables": "A B",
            "requirements": ["pandas>=2"],
            "cwd": "sub",
        },
        Path("/work"),
    )
    assert program is not None
    assert isinstance(program.work, RuntimeRun)
    assert (program.work.hosts, program.work.env, program.work.packages) == (
        ("example.org",),
        {"A": "", "B": ""},
        ("pandas>=2",),
    )
    method = rebuild_request(
        {**IDENTITY, "kind": "server", "name": "a/b/resources/read", "method": "resources/read"},
        Path("/work"),
    )
    assert method is not None
    assert method.work == ServerCall(server="a/b", tool="resources/read", is_method=True)
    assert rebuild_request({**IDENTITY, "kind": "runtime", "name": "\0"}, Path("/work")) is None
    assert rebuild_request({}, Path("/work")) is None


PROGRAM = ("standard input, if it had any", "limits that its caller asked for")
NO_TEXT = "the program: FILE stands for a file with its text"
COMMANDS: list[tuple[dict[str, Any], str, tuple[str, ...]]] = [
    (
        {"kind": "runtime", "name": "python", "file": "a b.py", "access": "overlay", "network": "none"},
        "paddock exec python './a b.py' --access overlay",
        PROGRAM,
    ),
    (
        {
            "kind": "runtime",
            "name": "rust",
            "access": "none",
            "hosts": ["a.org", "b.org"],
            "network": "hosts",
        },
        "paddock exec rust FILE --access none --network a.org,b.org",
        (NO_TEXT, *PROGRAM),
    ),
    (
        {"kind": "runtime", "name": "python", "variables": "KEY", "argument_count": 2, "file_count": 1},
        "paddock exec python FILE --env KEY=VALUE",
        (
            NO_TEXT,
            "the value of the variable KEY",
            "its arguments (2): write them after --",
            "its input files (1): name them with --file-in",
            *PROGRAM,
        ),
    ),
    (
        {"kind": "guest", "name": "audit", "profile": "script", "jit": True},
        "paddock run audit --jit",
        ("its input and variables, if it had any", "limits that its caller asked for"),
    ),
    (
        {"kind": "guest", "name": "program", "profile": "execute", "recording_sha256": "a" * 64},
        f"paddock replay {RUN} --actor ada",
        (),
    ),
    (
        {"kind": "guest", "name": "program", "profile": "compute"},
        "paddock compute",
        ("the request: its program and its input, as JSON on standard input",),
    ),
    (
        {"kind": "server", "name": "git/log", "bytes_in": 40},
        "paddock servers call git log --args @arguments.json",
        ("the arguments: write them to arguments.json",),
    ),
    ({"kind": "server", "name": "git/log", "bytes_in": 2}, "paddock servers call git log", ()),
    (
        {"kind": "tool", "name": "word_count", "bytes_in": 9},
        "paddock tool run word_count --input @inputs.json",
        ("the inputs: write them to inputs.json",),
    ),
    ({"kind": "replay", "repeats": CALL, "against": "live"}, f"paddock replay {CALL} --against live", ()),
    ({"kind": "sdk", "name": "vault.get"}, "", ("no command runs this kind of work",)),
]


@pytest.mark.parametrize(("facts", "text", "missing"), COMMANDS)
def test_the_command_that_repeats_a_run_says_what_it_lacks(
    facts: dict[str, Any], text: str, missing: tuple[str, ...]
) -> None:
    assert write_command(make_past(**facts), "me") == RerunCommand(text, missing)


@pytest.mark.parametrize("name", ["--jit", "a\u202eb", "a\nb", "\x1b[2J", ""])
def test_a_name_that_is_not_safe_makes_no_command(name: str) -> None:
    refused = ("the record has names that are not safe on a command line",)
    assert write_command(make_past(kind="server", name=f"git/{name}"), "me") == RerunCommand("", refused)
    script = make_past(kind="guest", name=name, profile="script")
    assert write_command(script, "me").text in {"", "paddock run FILE"}


def test_a_name_with_characters_of_a_shell_stays_one_word() -> None:
    found = write_command(make_past(kind="server", name="git/$(rm -rf ~)'; reboot"), "me")
    assert shlex.split(found.text) == ["paddock", "servers", "call", "git", "$(rm -rf ~)'; reboot"]


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"\x89PNG\r\n\x1a\n....", "image/png"),
        (b"\xff\xd8\xff\xe0", "image/jpeg"),
        (b"GIF89a;", "image/gif"),
        (b"RIFF\x00\x00\x00\x00WEBPVP8 ", "image/webp"),
        (b"XXXX\x00\x00\x00\x00WEBPVP8 ", None),
        (b"<svg xmlns='http://www.w3.org/2000/svg'>", None),
        (b"<html>\x89PNG\r\n\x1a\n", None),
        (b"%PDF-1.7", None),
        (b"BM", None),
        (b"", None),
    ],
)
def test_only_raster_images_are_recognized(data: bytes, kind: str | None) -> None:
    assert sniff_image(data) == kind
