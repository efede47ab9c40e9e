"""What a check decides about a program: it does not start, it is warned of, or nothing is said."""

import json

import pytest
from pydantic import BaseModel
from tests.support.command import PADDOCK, run_command, run_paddock
from tests.support.servers import make_entry, write_servers

from paddock import BlockingPaddock, Status
from paddock.engines.programs import directories
from paddock.engines.types import compiler as runs
from paddock.engines.types.installation import NOT_INSTALLED

pytestmark = pytest.mark.usefixtures("home")

WRONG = """\
const first = await servers.local.add({ a: 1, b: 2 });
// ü
return await servers.local.add({ a: first.sum, bb: 2 });
"""


class Sum(BaseModel):
    sum: int


@pytest.fixture
def arguments_seen():
    """The arguments of every call."""
    return []


@pytest.fixture
def adding(opened, arguments_seen):
    """An open Paddock with a function whose types are known."""

    @opened.tool
    def add(a: int, b: int = 0) -> Sum:
        arguments_seen.append((a, b))
        return Sum(sum=a + b)

    return opened


def test_a_program_that_contradicts_its_tools_does_not_start(adding, arguments_seen, compiler):
    outcome = adding.execute(WRONG, check="types")
    error = outcome.error
    assert (outcome.status, error.name, error.phase, outcome.calls) == (
        Status.FAILED,
        "TypeCheckError",
        "parse",
        (),
    )
    assert (error.line, error.column) == (3, 48)
    assert "'bb' does not exist in type 'Arguments$local$add'" in error.message
    assert error.excerpt == "return await servers.local.add({ a: first.sum, bb: 2 });\n" + 47 * " " + "^"
    assert error.hint == 'nothing was called; to run it anyway, ask for the check "warn"'
    assert arguments_seen == []


def test_every_further_mistake_is_in_the_hint(adding, compiler):
    outcome = adding.execute(
        'await servers.local.add({ a: "1" });\nreturn servers.local.sub({ a: 1 });', check="types"
    )
    assert (outcome.error.line, outcome.error.column) == (1, 27)
    assert outcome.error.hint.startswith(
        "nothing was called; line 2, column 22: Property 'sub' does not exist"
    )


def test_javascript_is_warned_and_typescript_refused_by_default(adding, arguments_seen, compiler):
    warned = adding.execute(WRONG)
    assert (warned.error.name, arguments_seen) == ("ToolError", [(1, 2)])
    assert warned.console[-1].text.startswith(
        "type check: line 3, column 48: Object literal may only specify known"
    )
    typed = adding.execute(WRONG.replace("const first", "const first: any"))
    assert (typed.status, typed.error.name) == (Status.FAILED, "TypeCheckError")


def test_a_warning_names_the_place(adding, compiler):
    outcome = adding.execute("const { sun } = await servers.local.add({ a: 1 });\nreturn sun ?? null;")
    assert [line.level for line in outcome.console] == ["warn"]
    assert outcome.console[0].text.startswith("type check: line 1, column 9: Property 'sun' does not exist")
    assert (outcome.ok, outcome.value) == (True, None)


def test_settings_and_requests_turn_the_check_off(workspace, adding, arguments_seen, compiler):
    outcome = adding.execute(WRONG, check="off")
    assert (outcome.error.name, arguments_seen) == ("ToolError", [(1, 2)])
    with BlockingPaddock(workspace, overrides={"guest.check_typescript": "off"}) as paddock:
        outcome = paddock.execute("const x: number = 1; return servers.nothing.like({ it: x });")
        assert (outcome.error.name, outcome.console) == ("ToolError", ())


def test_a_program_of_a_session_may_use_names_of_earlier_ones(adding, compiler):
    first = adding.execute("const one = 1", session="new").check()
    outcome = adding.execute(
        "(await servers.local.add({ a: one })).sum", session=first.session.id, check="types"
    )
    assert outcome.check().value == 1
    wrong = adding.execute("await servers.local.add({ b: one })", session=first.session.id, check="types")
    assert (wrong.error.name, wrong.session.id) == ("TypeCheckError", first.session.id)


def test_positions_are_those_of_the_text_in_a_fence_with_a_default_export(adding, compiler):
    text = "Here it is:\n```ts\nexport default async () => servers.local.add({ a: true });\n```\n"
    error = adding.execute(text, check="types").error
    assert (error.name, error.line, error.column) == ("TypeCheckError", 3, 48)


def test_a_check_over_its_limit_warns_and_the_program_runs(adding, arguments_seen, compiler, monkeypatch):
    monkeypatch.setattr(runs, "_LIMITS", runs._LIMITS.replace(timeout_ms=1))
    outcome = adding.execute(WRONG, check="types")
    assert (outcome.error.name, arguments_seen) == ("ToolError", [(1, 2)])
    assert outcome.console[-1].text == "types were not checked: it took longer than 0 s"


def test_a_request_for_a_check_without_the_compiler_is_told(adding, monkeypatch):
    monkeypatch.setattr(directories, "list_search_directories", lambda _user: ())
    outcome = adding.execute("return servers.local.add({ a: 1 })", check="types")
    assert (outcome.value, [line.text for line in outcome.console]) == (
        {"sum": 1},
        [f"types were not checked: {NOT_INSTALLED}"],
    )
    assert adding.execute("return servers.local.add({ a: 1 })").console == ()


def test_observed_results_and_broken_schemas_only_warn(workspace, compiler):
    write_servers(workspace, {"odd": make_entry("odd")})
    with BlockingPaddock(workspace) as paddock:
        code = "const { a } = await servers.odd.environment({});\nreturn a ?? null;"
        assert paddock.execute(code, check="types").console == ()  # nothing was observed yet
        outcome = paddock.execute(code, check="types")
        assert (outcome.ok, [line.level for line in outcome.console]) == (True, ["warn"])
        assert "line 1, column 9: Property 'a' does not exist" in outcome.console[0].text


def test_the_server_is_listed_and_the_record_says_so(workspace, compiler):
    write_servers(workspace, {"odd": make_entry("odd"), "even": make_entry("odd")})
    with BlockingPaddock(workspace) as paddock:
        outcome = paddock.execute("return await servers.odd.echoo({ text: 'a' });", check="types")
        assert outcome.error.message.endswith("Did you mean 'echo'?")
        looked = [each.fields["name"] for each in paddock.find_records(event="looked")]
        assert looked == ["odd/*"]


@pytest.mark.usefixtures("as_root")
def test_the_command_refuses_with_exit_code_1_and_json(workspace, compiler_root, tmp_path):
    write_servers(workspace, {"odd": make_entry("odd")})
    (workspace / "wrong.ts").write_text(
        "const said: string = await servers.odd.echoo({ text: 'a' });\nreturn said;\n"
    )
    mount = 'mount -t tmpfs none /var/lib && mkdir -p /var/lib/paddock/toolchains && mount --bind "$0" /var/lib/paddock/toolchains'
    inside = ["unshare", "--mount", "sh", "-c", f'{mount} && exec "$@"', compiler_root]
    ended = run_command(workspace, *inside, PADDOCK, "run", "./wrong.ts", "--json")
    outcome = json.loads(ended.stdout)
    assert (ended.returncode, outcome["status"], outcome["calls"]) == (1, "failed", [])
    assert (outcome["error"]["line"], outcome["error"]["column"]) == (1, 40)
    found = json.loads(run_command(workspace, *inside, PADDOCK, "doctor", "--json").stdout)
    assert found["types"] == {"state": "available"}


def test_the_command_passes_the_mode_on(workspace):
    (workspace / "none.js").write_text("return Object.keys(servers);")
    ended = run_paddock(workspace, "run", "./none.js", "--check", "other")
    assert ended.returncode == 2
    assert "'other' is not one of 'types', 'warn', 'off'" in ended.stderr


def test_resources_and_prompts_are_known_where_their_server_has_them(workspace, compiler):
    write_servers(workspace, {"lib": make_entry("library"), "bare": make_entry("library", "--plain")})
    right = "const [{ text }] = await servers.lib.resources.read('file:///notes.md');\nreturn text;"
    wrong = "const [{ txt }] = await servers.lib.prompts.list();\nreturn servers.lib.prompts.got('x') ?? txt;"
    absent = "return servers.bare.prompts.list();"
    with BlockingPaddock(workspace) as paddock:
        outcomes = [paddock.execute(each, check="types") for each in (right, wrong, absent)]
    assert (outcomes[0].value, [each.calls for each in outcomes[1:]]) == ("# Notes", [(), ()])
    assert [(each.error.name, each.error.line) for each in outcomes[1:]] == [
        ("TypeCheckError", 1),
        ("TypeCheckError", 1),
    ]
    assert "Property 'txt' does not exist" in outcomes[1].error.message
    assert "Property 'got' does not exist" in outcomes[1].error.hint
    assert "Property 'prompts' does not exist" in outcomes[2].error.message
