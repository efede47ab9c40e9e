"""What a program finds out about servers by looking, before it calls: what policy lets it call, and nothing else."""

from pathlib import Path
from typing import Any

import pytest
from tests.support.servers import make_entry, write_servers
from tests.support.session import execute_alone

from paddock.model.limits import LimitOverrides
from paddock.model.outcome import Outcome
from paddock.model.request import GuestRun
from paddock.policy.settings.schema import Settings
from paddock.record.ledger.writer import Ledger

OTHERS = ["environment", "crash", "crash_once", "hang", "fail", "refuse", "is_error", "invalid"]
TOOLS = ["echo", "pid", *OTHERS, "no_object", "long", "ask_back", "close_output"]
LOOK = """
const found = {};
for (const name in servers) found[name] = Object.keys(servers[name]);
return found;
"""


def ran(tmp_path: Path, source: str, settings: dict[str, Any] | None = None, calls: Any = "run") -> Outcome:
    """Return what became of a program that has the servers `odd`, `even` and `broken`, and which of them started."""
    workspace = tmp_path / "workspace"
    workspace.mkdir(exist_ok=True)

    def entry(name: str) -> dict[str, Any]:
        starts = str(tmp_path / f"{name}-starts")
        return make_entry("odd", "--starts", starts)

    servers = {"odd": entry("odd"), "even": entry("even"), "broken": {"command": "/nowhere/there"}}
    write_servers(workspace, servers)
    given = {
        "audit": {"directory": tmp_path / "audit"},
        "servers": {"state": tmp_path / "state"},
        **(settings or {}),
    }
    work, limits = GuestRun(source=source), LimitOverrides(timeout_ms=60_000)
    return execute_alone(Settings.model_validate(given), workspace, work, limits=limits, calls=calls)


def started(tmp_path: Path) -> list[str]:
    return sorted(path.name for path in tmp_path.glob("*-starts"))


def test_servers_and_tools_are_found_by_looking(guest: Any) -> None:
    assert guest.value(LOOK) == {"odd": TOOLS, "even": TOOLS}
    assert guest.value("return [Object.keys(servers), servers, servers.odd]") == [
        ["odd", "even"],
        ["odd", "even"],
        TOOLS,
    ]
    source = """
    return ["odd" in servers, "nope" in servers, "echo" in servers.odd, "nope" in servers.odd, "call" in servers.odd,
      Object.hasOwn(servers, "even"), Object.hasOwn(servers.even, "call"), Symbol.iterator in servers];
    """
    assert guest.value(source) == [True, False, True, False, True, True, False, False]


def test_what_is_found_can_be_called(guest: Any) -> None:
    source = """
    const { odd, ...others } = servers;
    const { echo } = odd;
    const told = [];
    for (const [name, server] of Object.entries(others)) told.push(name, await server.echo({ text: "there" }));
    return [await echo({ text: "here" }), ...told];
    """
    assert guest.value(source) == ["here", "even", "there"]


def test_nothing_can_be_put_among_the_servers(guest: Any) -> None:
    for change in ("servers.x = 1", "servers.odd.x = 1", "delete servers.odd", "Object.freeze(servers)"):
        assert guest.failure(change)[:2] == ("failed", "TypeError"), change
    assert guest.value("return [Reflect.set(servers, 'x', 1), Object.keys(servers)]") == [
        False,
        ["odd", "even"],
    ]


def test_a_list_given_to_a_program_is_its_own(guest: Any) -> None:
    source = "const own = servers.toJSON(); own.length = 0; return [own, Object.keys(servers)]"
    assert guest.value(source) == [[], ["odd", "even"]]


def test_looking_is_one_call_and_a_failed_one_can_be_repeated(guest: Any) -> None:
    outcome = guest.run("for (let i = 0; i < 9; i++) Object.keys(servers.odd); return 'echo' in servers.odd")
    assert [(call.server, call.tool, call.status) for call in outcome.calls] == [
        ("paddock", "servers.tools", "ok")
    ]
    source = (
        "try { Object.keys(servers.oddd) } catch (e) { return [e.name, e.message, e.server, e.retryable] }"
    )
    assert guest.value(source) == ["ToolError", "Unknown server: oddd; did you mean `odd`?", "oddd", False]
    outcome = guest.run("\nfor (const tool in servers.oddd) console.log(tool)")
    assert (outcome.error.message, outcome.error.line) == ("Unknown server: oddd; did you mean `odd`?", 2)


def test_a_look_into_a_server_is_on_the_record_and_one_at_their_names_is_not(tmp_path: Path) -> None:
    source = """
    const refused = (() => { try { return Object.keys(servers.even) } catch (e) { return e.message } })();
    return [Object.keys(servers), "pid" in servers.odd, refused];
    """
    outcome = ran(tmp_path, source, {"grants": {"servers": ["odd"]}})
    denied = outcome.value[2]
    assert outcome.value == [["odd"], True, denied]
    with Ledger(tmp_path / "audit") as ledger:
        found = [
            (record.fields["name"], record.fields["status"], record.parent == outcome.id)
            for record in ledger.query(event="looked", newest_first=False)
        ]
    assert found == [("even/*", "denied", True), ("odd/*", "ok", True)]


def test_a_name_longer_than_that_of_any_call_is_not_looked_for(guest: Any) -> None:
    told = "The name of a server has at most 256 characters; see `Object.keys(servers)`"
    source = 'try { Object.keys(servers["x".repeat(1_000_000)]) } catch (e) { return [e.name, e.message] }'
    assert guest.value(source) == ["TypeError", told]


def test_nothing_starts_that_nobody_has_looked_into(tmp_path: Path) -> None:
    outcome = ran(tmp_path, "console.log(servers); return ['odd' in servers, typeof servers.even.echo]")
    assert (outcome.value, outcome.console[0].text) == ([True, "function"], '["odd","even","broken"]')
    assert started(tmp_path) == []
    assert ran(tmp_path, "return 'pid' in servers.even").value is True
    assert started(tmp_path) == ["even-starts"]


def test_a_server_that_cannot_start_says_why(tmp_path: Path) -> None:
    outcome = ran(tmp_path, "return Object.keys(servers.broken)")
    assert outcome.error is not None
    assert (outcome.error.name, outcome.error.line, outcome.error.message) == (
        "ToolError",
        1,
        "Failed to connect to server broken: command /nowhere/there is not an executable file; correct `command`",
    )


@pytest.mark.parametrize(
    ("settings", "found"),
    [
        ({"grants": {"servers": ["odd"]}}, {"odd": TOOLS}),
        ({"grants": {"servers": []}}, {}),
        ({"policy": {"rule": [{"effect": "deny", "server": "[!o]*"}]}}, {"odd": TOOLS}),
        ({"policy": {"rule": [{"effect": "allow", "tool": "even/*i*"}]}}, {"even": None}),
        (
            {
                "policy": {
                    "rule": [{"effect": "deny", "tool": "*/*c*"}, {"effect": "deny", "server": "[!o]*"}]
                }
            },
            {"odd": [tool for tool in TOOLS if "c" not in tool]},
        ),
        (
            {"policy": {"rule": [{"effect": "ask", "tool": "odd/*"}, {"effect": "deny", "server": "[!o]*"}]}},
            {"odd": TOOLS},
        ),
    ],
)
def test_only_what_policy_lets_the_program_call_is_found(
    tmp_path: Path, settings: dict[str, Any], found: dict[str, Any]
) -> None:
    expected = {name: tools or [tool for tool in TOOLS if "i" in tool] for name, tools in found.items()}
    assert ran(tmp_path, LOOK, settings).value == expected
    assert started(tmp_path) == [f"{name}-starts" for name in expected]


def test_a_server_that_is_not_granted_is_not_asked(tmp_path: Path) -> None:
    outcome = ran(tmp_path, "return Object.keys(servers.even)", {"grants": {"servers": ["odd"]}})
    assert outcome.error is not None
    assert outcome.error.message == (
        "server even is not granted (granted: odd); name it in `servers` under [grants] in paddock.toml"
    )
    assert started(tmp_path) == []


def test_a_program_that_may_only_read_finds_what_reads(tmp_path: Path) -> None:
    assert ran(tmp_path, "return Object.keys(servers.odd)", calls="read_only").value == ["pid"]
    assert ran(tmp_path, "return Object.keys(servers.odd)", calls="dry_run").value == TOOLS
