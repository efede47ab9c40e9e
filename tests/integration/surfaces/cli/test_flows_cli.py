"""`paddock policy flows` and the line `flow` of `paddock doctor`: what servers could do together, and what to paste."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.support.command import Ended, make_environment, run_paddock
from tests.support.flows import TOML, write_trifecta
from tests.support.servers import make_entry, write_servers

PROPOSED = """\
# named like mail servers
[[flow.label]]
tool = "mail/*"
source = ["private", "untrusted"]

# named like mail servers
[[flow.label]]
tool = "mail/*"
read_only = false
sink = "external"

# named like web servers
[[flow.label]]
tool = "web/*"
source = ["untrusted"]
sink = "external"

# tools that say they reach nothing outside: what they know is yours
[[flow.label]]
tool = "repository/*"
open_world = false
source = ["private"]

# tools that may reach anything: openWorldHint is not false
[[flow.label]]
tool = "repository/*"
open_world = true
source = ["untrusted"]
sink = "external"

[[flow.rule]]
source = ["private", "untrusted"]
sink = "external"
effect = "ask"
"""
WHY = "broken: Failed to connect to server broken: command /does/not/exist is not an executable file; correct `command`"


class Desk:
    """A workspace with the servers mail, web and repository."""

    def __init__(self, root: Path) -> None:
        self.workspace = root / "workspace"
        self.workspace.mkdir()
        self.home = root / "home"
        self.home.mkdir()
        self.environment = make_environment(self.home)
        write_trifecta(self.workspace, root / "sent")

    def type_in(self, *words: str) -> Ended:
        return run_paddock(self.workspace, *words, environment=self.environment)

    def paste(self, text: str) -> None:
        """Write the settings of the user."""
        file = self.home / ".config/paddock/paddock.toml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def examine(self) -> tuple[str, Any]:
        """Return the line `flow` of `paddock doctor`, and the same of `--json`."""
        shown, facts = self.type_in("doctor"), self.type_in("doctor", "--json")
        [line] = [line for line in shown.stdout.splitlines() if line.startswith("flow\t")]
        return line, json.loads(facts.stdout)["flow"]


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def test_what_is_proposed_can_be_pasted(desk: Desk) -> None:
    assert desk.type_in("policy", "flows") == Ended(0, PROPOSED, "")
    desk.paste(PROPOSED)
    line, facts = desk.examine()
    assert line == "flow\twatched\tflow rules decide about calls that could send what a run has read\t"
    assert (facts["state"], facts["rules"]) == ("watched", 1)


def test_the_proposal_as_json(desk: Desk) -> None:
    done = desk.type_in("policy", "flows", "--json")
    found = json.loads(done.stdout)
    assert (done.returncode, found["failures"], found["rule"]) == (
        0,
        [],
        {"source": ["private", "untrusted"], "sink": "external", "effect": "ask"},
    )
    assert found["labels"][2:4] == [
        {
            "tool": "web/*",
            "source": ["untrusted"],
            "sink": "external",
            "why": "named like web servers",
        },
        {
            "tool": "repository/*",
            "open_world": False,
            "source": ["private"],
            "why": "tools that say they reach nothing outside: what they know is yours",
        },
    ]


def test_a_server_that_does_not_start_is_named_and_the_others_are_proposed(desk: Desk) -> None:
    broken = {"command": "/does/not/exist"}
    write_servers(desk.workspace, {"mail": make_entry("trifecta", "mail"), "broken": broken})
    done = desk.type_in("policy", "flows")
    mail = PROPOSED[: PROPOSED.index("# named like web")] + PROPOSED[PROPOSED.index("[[flow.rule]]") :]
    assert (done.returncode, done.stdout) == (1, mail)
    assert done.stderr == f"warning: {WHY}\n"
    again = desk.type_in("policy", "flows", "--json")
    assert json.loads(again.stdout)["failures"] == [WHY]


def test_doctor_says_whether_a_run_may_read_and_send_everything(desk: Desk) -> None:
    line, facts = desk.examine()
    assert line == (
        "flow\tunguarded\tone run may read and send all of: private (mail), untrusted (mail, web), external (mail, web). "
        "An instruction in the content could make it do so\tpaste what `paddock policy flows` proposes"
    )
    assert facts == {
        "state": "unguarded",
        "rules": 0,
        "private": ["mail"],
        "untrusted": ["mail", "web"],
        "external": ["mail", "web"],
    }
    desk.paste('[grants]\nservers = ["web", "repository"]\n')
    line, facts = desk.examine()
    assert line == (
        "flow\tno rule\tno private data, untrusted content and a way out together, by the names of servers\t"
    )
    assert (facts["state"], facts["private"]) == ("no rule", [])
    desk.paste(PROPOSED[PROPOSED.index("[[flow.rule]]") :])
    line, facts = desk.examine()
    assert line == (
        "flow\tno label\tno label names a tool that is private or untrusted or external, so that the flow rules wait for "
        "it in vain\tlabel such tools, if there are any; `paddock policy flows` proposes labels"
    )
    assert (facts["state"], facts["rules"]) == ("no label", 1)
    desk.paste(TOML.format(effect="mark"))
    assert desk.examine()[1]["state"] == "watched"
