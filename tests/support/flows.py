"""The servers of the lethal combination, and settings that label their tools."""

import json
from pathlib import Path
from typing import Any

from tests.support.servers import make_entry, write_servers

from paddock.policy.settings.flow import FlowEffect, FlowLabel, FlowRule, FlowSettings

ROLES = ("mail", "web", "repository")
LABELS = (
    FlowLabel(tool="mail/*", source=("private",)),
    FlowLabel(tool="mail/send", sink="external"),
    FlowLabel(tool="web/fetch", source=("untrusted",)),
    FlowLabel(tool="web/*", sink="external"),
    FlowLabel(tool="repository/read_issue", source=("untrusted",)),
    FlowLabel(tool="repository/read_file", source=("private",)),
    FlowLabel(tool="repository/comment-issue", sink="external"),
)
TOML = """
[[flow.label]]
tool = "mail/*"
source = "private"

[[flow.label]]
tool = "web/*"
source = "untrusted"
sink = "external"

[[flow.rule]]
source = ["private", "untrusted"]
sink = "external"
effect = "{effect}"
"""


def make_rules(effect: FlowEffect, **fields: Any) -> FlowSettings:
    """Return labels for the three servers, and the rule about private and untrusted data together."""
    rule = FlowRule(source=("private", "untrusted"), sink="external", effect=effect, **fields)
    return FlowSettings(label=LABELS, rule=(rule,))


def write_trifecta(workspace: Path, log: Path) -> None:
    """Write the servers file of a workspace. Calls of sinks are appended to `log`."""
    write_servers(workspace, {role: make_entry("trifecta", role, "--log", log) for role in ROLES})


def read_sent(log: Path) -> list[Any]:
    """Return the calls of sinks that reached a server: name and arguments."""
    return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
