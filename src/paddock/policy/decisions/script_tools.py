"""Decide on a script tool: compare its declarations with the settings.

Timeouts are cut to the maximum. Grants are not: a script with less than it declares would fail halfway through.
"""

from fnmatch import fnmatchcase

from paddock.model.limits import LimitOverrides
from paddock.model.network import NETWORKS
from paddock.model.program import ACCESSES
from paddock.model.request import ToolRun
from paddock.model.tool import ToolTerms
from paddock.policy.decisions.kinds import Reason
from paddock.policy.decisions.network import check_hosts, grant_hosts
from paddock.policy.settings.rules import Rule
from paddock.policy.settings.schema import Settings

DISABLED = "Script tools are disabled in configuration (tools.enabled = false)"


def judge_tool(
    work: ToolRun, asked: LimitOverrides, settings: Settings
) -> tuple[ToolTerms, list[Reason], list[Reason]]:
    """Return the terms of a tool, what was cut, and objections; each with the name of its rule."""
    given = settings.tools
    timeout_ms = asked.timeout_ms or max(1, round(work.timeout_ms or given.timeout_ms))
    memory = asked.memory_bytes or given.memory_bytes
    terms = ToolTerms(
        timeout_ms=min(timeout_ms, given.max_timeout_ms),
        memory_bytes=min(memory, given.memory_bytes),
        output_bytes=min(asked.output_bytes or given.output_bytes, given.output_bytes),
        access=work.access,
        network=work.network,
        hosts=grant_hosts(work, settings),
        environment=given.environment,
    )
    cut: list[Reason] = []
    if timeout_ms > given.max_timeout_ms:
        text = f"the timeout of {timeout_ms} ms is over tools.max_timeout_ms, which holds instead"
        cut.append(("tools.max_timeout_ms", text))
    if not given.enabled:
        return terms, cut, [("tools.enabled", DISABLED)]
    objections: list[Reason] = []
    where = "under [tools] in the paddock.toml of the user or the system"
    if ACCESSES.index(work.access) > ACCESSES.index(given.access):
        text = f"tool {work.tool} declares workspace: {work.access}, but at most {given.access} is allowed"
        objections.append(("tools.access", f"{text}; set `access` {where}"))
    if NETWORKS.index(work.network) > NETWORKS.index(given.network):
        text = f"tool {work.tool} declares network: {work.network}, but {given.network} is allowed"
        objections.append(("tools.network", f"{text}; set `network` {where}"))
    return terms, cut, [*objections, *check_hosts(work, settings)]


def match_tool(rule: Rule, work: ToolRun) -> bool:
    """Return whether a rule about script tools, or about any work, matches; ids are compared in lower case."""
    return fnmatchcase(work.tool, (rule.script or "*").lower())
