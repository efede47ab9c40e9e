"""`paddock policy`: what is allowed, and why."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from paddock.surfaces.cli.root import command

RULES = """
[runtimes]
network = "full"

[[policy.rule]]
effect = "deny"
runtime = "perl"
reason = "no perl here"

[[policy.rule]]
effect = "ask"
runtime = "ruby"

[[policy.rule]]
effect = "ask"
tool = "git/push*"
reason = "who pushes, answers for it"
"""


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "paddock").mkdir()
    (tmp_path / "paddock" / "paddock.toml").write_text(RULES)
    (tmp_path / "workspace").mkdir()
    monkeypatch.chdir(tmp_path / "workspace")


def policy(*args: str) -> Result:
    return CliRunner().invoke(command, ["policy", *args])


@pytest.mark.parametrize(
    ("args", "code", "text"),
    [
        (("python",), 0, "allowed\n"),
        (("python", "--network", "full"), 0, "allowed\n"),
        (("perl",), 126, "denied\n  no perl here\n"),
        (("ruby",), 3, "ask\n  running a ruby program needs a person's approval, says user rule 2\n"),
        (("git/push_force",), 3, "ask\n  who pushes, answers for it\n"),
        (("git/git_log",), 0, "allowed\n"),
        (("a/b/c", "--set", "grants.servers=a/b"), 0, "allowed\n"),
        (("git/x", "--set", "grants.servers=time"), 126, "denied\n  server git is not granted (granted: time); name it in `servers` under [grants] in paddock.toml\n"),
        (("c", "--executable", "rustc"), 126, 'denied\n  Executable "rustc" is not compatible with runtime "c"\n'),
    ],
)  # fmt: skip
def test_a_request_is_tried_on_policy(args: tuple[str, ...], code: int, text: str) -> None:
    result = policy("check", *args)
    assert (result.exit_code, result.stdout) == (code, text)


def test_what_the_command_line_grants_by_itself_is_told(tmp_path: Path) -> None:
    """As `paddock exec --access workspace-write` does, where the settings do not speak of it."""
    why = (
        "  access workspace-write to the workspace is not granted (granted: read-only); set `access ="
        ' "workspace-write"` under [runtimes] in the paddock.toml of the user or the system\n'
    )
    for runtime, told in (("python", "allowed"), ("ruby", "ask")):
        result = policy("check", runtime, "--access", "workspace-write")
        command = "paddock exec --access workspace-write --network none"
        first = f"denied to agents and programs; for a person's own `{command}`: {told}"
        last = "  no setting decides this, so the flags of your own command do"
        assert (result.exit_code, result.stdout) == (126, f"{first}\n{why}{last}\n")
    denied = f"denied\n{why}"
    assert policy("check", "perl", "--access", "workspace-write").stdout == f"{denied}  no perl here\n"
    (tmp_path / "workspace" / "paddock.toml").write_text('[runtimes]\naccess = "read-only"\n')
    assert policy("check", "python", "--access", "workspace-write").stdout == denied


@pytest.mark.parametrize("half", ["git/", "/git_log"])
def test_half_a_tool_is_no_request(half: str) -> None:
    result = policy("check", half)
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"Invalid value for TARGET: {half} is neither a runtime (node, " in result.stderr


def test_what_is_no_request() -> None:
    result = policy("check", "cobol")
    assert result.exit_code == 2
    assert "cobol is neither a runtime (node, typescript, " in result.stderr
    assert policy("check", "pyton").stderr.endswith("nor SERVER/TOOL; did you mean `python`?\n")
    for ask in ("check", "explain"):
        result = policy(ask, "python", "--timeout-ms", "700000")
        fault = "a program's timeout is 100 to 600000 ms, not 700000"
        assert (result.exit_code, result.stderr.splitlines()[-1]) == (2, f"Error: {fault}")
        assert policy(ask, "python", "--executable", "").exit_code == 2


def test_the_explanation_ends_with_the_first_objection() -> None:
    found = json.loads(policy("explain", "go", "--timeout-ms", "40000", "--network", "full", "--json").stdout)
    assert [step["asks"] for step in found["steps"] if not step["objects"]] == [
        "programs run at all",
        "the runtime is allowed, the executable fits it",
        "the executable is allowed",
        "the executable is a name",
        "the working directory is inside of the workspace",
    ]
    assert found["steps"][-1] == {
        "asks": "the limits are within their maximum",
        "objects": ["Requested timeout (40000ms) exceeds maximum (30000ms)"],
    }
    assert (found["allowed"], found["rule"]) == (False, "runtimes.timeout_ms")


def test_the_explanation_names_who_decided(tmp_path: Path) -> None:
    *_, last, decided = policy("explain", "perl").stdout.splitlines()
    assert last == "rules and grants of the settings\tobjects\tno perl here"
    assert decided == f"decided by\tuser rule 1\t{tmp_path}/paddock/paddock.toml, line 5"
    *_, decided = policy("explain", "python").stdout.splitlines()
    assert decided == "decided by\tdefault\tno rule and no grant of the settings objects"


def test_what_is_in_force(tmp_path: Path) -> None:
    lines = policy("show").stdout.splitlines()
    assert f'runtimes.network\t"full"\t{tmp_path}/paddock/paddock.toml, line 3' in lines
    assert lines[-3] == 'policy.rule\teffect = "deny", runtime = "perl", reason = "no perl here"\tuser'
    found = json.loads(policy("show", "--json").stdout)
    assert found["grants"]["runtimes.access"] == {"value": "read-only", "source": "built in"}
    assert found["rules"] == [
        {"effect": "deny", "runtime": "perl", "reason": "no perl here", "origin": "user"},
        {"effect": "ask", "runtime": "ruby", "reason": "", "origin": "user"},
        {
            "effect": "ask",
            "tool": "git/push*",
            "reason": "who pushes, answers for it",
            "origin": "user",
        },
    ]


def test_the_explanation_says_that_a_person_is_asked() -> None:
    *_, settings, asked, decided = policy("explain", "git/push").stdout.splitlines()
    assert settings == "rules and grants of the settings\tagrees\t"
    assert asked == "a person\tis asked\twho pushes, answers for it"
    assert decided.split("\t")[:2] == ["decided by", "user rule 3"]
    found = json.loads(policy("check", "git/push", "--json").stdout)
    assert (found["allowed"], found["asks"]) == (False, ["who pushes, answers for it"])


FLOW = """
[[flow.label]]
server = "mail"
source = ["private", "untrusted"]
sink = "external"

[[flow.rule]]
source = "untrusted"
sink = "external"
effect = "ask"

[[flow.rule]]
source = ["private", "untrusted"]
sink = "external"
effect = "deny"
"""


@pytest.fixture
def _flow_rules(tmp_path: Path) -> None:
    (tmp_path / "paddock" / "paddock.toml").write_text(RULES + FLOW)


@pytest.mark.usefixtures("_flow_rules")
def test_flow_rules_about_a_request_are_listed_strictest_first() -> None:
    told = (
        "denied once its run has read private and untrusted data, says user flow rule 2",
        "a person is asked once its run has read untrusted data, says user flow rule 1",
    )
    lines = (*told, "its results count as private and untrusted")
    assert policy("check", "mail/send").stdout == "\n  ".join(("allowed", *lines)) + "\n"
    assert policy("explain", "mail/send").stdout.splitlines()[-3:] == [
        f"flow rules\tsay\t{line}" for line in lines
    ]
    full = (*told, "its results count as untrusted")
    assert policy("check", "python", "--network", "full").stdout == "\n  ".join(("allowed", *full)) + "\n"


@pytest.mark.usefixtures("_flow_rules")
def test_flow_rules_are_left_out_where_they_cannot_apply() -> None:
    assert policy("check", "python").stdout == "allowed\n"
    assert policy("check", "git/git_log").stdout == "allowed\n"
    assert policy("check", "perl").stdout == "denied\n  no perl here\n"


@pytest.mark.usefixtures("_flow_rules")
def test_flow_rules_and_the_source_stand_in_json(tmp_path: Path) -> None:
    checked = json.loads(policy("check", "mail/send", "--json").stdout)
    assert checked["flow"] == {
        "sources": ["private", "untrusted"],
        "sinks": ["external"],
        "rules": [
            {"rule": "user flow rule 2", "effect": "deny", "source": ["private", "untrusted"]},
            {"rule": "user flow rule 1", "effect": "ask", "source": ["untrusted"]},
        ],
    }
    explained = json.loads(policy("explain", "ruby", "--json").stdout)
    assert explained["source"] == f"{tmp_path}/paddock/paddock.toml, line 10"
    assert explained["flow"] == {"sources": [], "sinks": [], "rules": []}
