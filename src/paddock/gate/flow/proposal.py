"""Propose labels for the tools of servers, from annotations and from names of well-known servers."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from paddock.engines.servers.result import ToolInfo
from paddock.model.base import Json
from paddock.policy.settings.schema import Settings

PRIVATE, UNTRUSTED, EXTERNAL = "private", "untrusted", "external"


class KnownServers(NamedTuple):
    """Servers with one of these words in their name."""

    words: frozenset[str]
    source: tuple[str, ...]
    is_sink: bool
    """Whether tools that change something are a way out."""
    reads_send: bool = False
    """Whether tools that only read are one, too: an address can carry data."""


def _make(words: str, *source: str, is_sink: bool, reads_send: bool = False) -> KnownServers:
    return KnownServers(frozenset(words.split()), source, is_sink, reads_send)


KNOWN = (
    _make("mail email gmail imap smtp outlook exchange", PRIVATE, UNTRUSTED, is_sink=True),
    _make("slack teams discord telegram whatsapp signal matrix", PRIVATE, UNTRUSTED, is_sink=True),
    _make("github gitlab bitbucket jira linear asana trello", PRIVATE, UNTRUSTED, is_sink=True),
    _make("notion confluence drive gdrive onedrive dropbox calendar zendesk", PRIVATE, UNTRUSTED, is_sink=True),
    _make("salesforce hubspot crm stripe", PRIVATE, UNTRUSTED, is_sink=True),
    _make("postgres postgresql mysql sqlite mongodb redis bigquery snowflake database db", PRIVATE, is_sink=False),
    _make("filesystem files git memory vault contacts notes obsidian", PRIVATE, is_sink=False),
    _make("fetch web http browser puppeteer playwright chrome", UNTRUSTED, is_sink=True, reads_send=True),
    _make("search brave tavily exa firecrawl serper duckduckgo rss", UNTRUSTED, is_sink=True, reads_send=True),
    _make("webhook twilio sendgrid mailgun ntfy pushover", is_sink=True),
)  # fmt: skip
"""Well-known servers. The first that has a word of a server's name counts."""


class ProposedLabel(NamedTuple):
    """One `[[flow.label]]` to paste, and the reason for it."""

    fields: dict[str, Json]
    why: str

    def render(self) -> str:
        """Return it as TOML."""
        given = [f"{name} = {_render_value(value)}" for name, value in self.fields.items()]
        return "\n".join([f"# {self.why}", "[[flow.label]]", *given])

    def list_kinds(self) -> list[Json]:
        """Return what it says of the tools: `private`, `untrusted`, `external`."""
        source, sink = self.fields.get("source"), self.fields.get("sink")
        return [*(source if isinstance(source, list) else ()), *(() if sink is None else (sink,))]


_RULE = f"""[[flow.rule]]
source = ["{PRIVATE}", "{UNTRUSTED}"]
sink = "{EXTERNAL}"
effect = "ask\""""
"""The proposed rule, as TOML."""


def render_rule(labels: Iterable[ProposedLabel]) -> str:
    """Return the rule to paste after labels, with a comment on what they lack for it, as TOML."""
    given = {kind for each in labels for kind in each.list_kinds()}
    missing = [kind for kind in (PRIVATE, UNTRUSTED, EXTERNAL) if kind not in given]
    if not missing:
        return _RULE
    return f"# no label above is {' or '.join(missing)}: label such tools, or leave out this rule\n{_RULE}"


def propose_labels(tools: Mapping[str, Sequence[ToolInfo]]) -> list[ProposedLabel]:
    """Return labels for servers and the tools that they list. They also cover tools that a server adds later."""
    return [label for server, listed in tools.items() for label in _propose(server, listed)]


def find_dangers(settings: Settings, servers: Iterable[str]) -> dict[str, list[str]]:
    """Return what can be private, untrusted and external under settings: names of granted servers, and `programs`.

    Names of servers decide, and the labels of the settings. Nothing is started.
    """
    found: dict[str, list[str]] = {PRIVATE: [], UNTRUSTED: [], EXTERNAL: []}
    granted = settings.grants.servers
    for server in servers:
        known = _find_known(server)
        if known is not None and ("*" in granted or server in granted):
            for source in known.source:
                found[source].append(server)
            if known.is_sink:
                found[EXTERNAL].append(server)
    for label in settings.flow.label:
        name = label.tool or label.server or label.method or label.script or label.runtime or "tools"
        for kind in (*label.source, label.sink):
            if kind is not None and name not in found[kind]:
                found[kind].append(name)
    if settings.runtimes.network in {"hosts", "full"}:
        found[UNTRUSTED].append("programs")
        found[EXTERNAL].append("programs")
    return found


def _propose(server: str, tools: Sequence[ToolInfo]) -> Iterator[ProposedLabel]:
    every: dict[str, Json] = {"tool": f"{_escape(server)}/*"}
    if (known := _find_known(server)) is not None:
        why = f"named like {min(known.words & _split(server))} servers"
        source: dict[str, Json] = {"source": list(known.source)} if known.source else {}
        if known.is_sink and (known.reads_send or not any(map(_reads_only, tools))):
            yield ProposedLabel({**every, **source, "sink": EXTERNAL}, why)
            return
        if source:
            yield ProposedLabel({**every, **source}, why)
        if known.is_sink:
            yield ProposedLabel({**every, "read_only": False, "sink": EXTERNAL}, why)
        return
    closed = [each.annotations.get("openWorldHint") is False for each in tools]
    if any(closed):
        label = {**every, "open_world": False, "source": [PRIVATE]}
        yield ProposedLabel(label, "tools that say they reach nothing outside: what they know is yours")
    if not all(closed):
        label = {**every, "open_world": True, "source": [UNTRUSTED], "sink": EXTERNAL}
        yield ProposedLabel(label, "tools that may reach anything: openWorldHint is not false")


def _reads_only(tool: ToolInfo) -> bool:
    return tool.annotations.get("readOnlyHint") is True


def _find_known(server: str) -> KnownServers | None:
    words = _split(server)
    return next((known for known in KNOWN if known.words & words), None)


def _split(server: str) -> set[str]:
    """Return the words of a server's name: `my-GitHub_2` has my, github and 2."""
    return set(re.findall(r"[a-z]+|\d+", server.lower()))


def _escape(name: str) -> str:
    """Return a name as a glob that matches only it."""
    return re.sub(r"([*?\[])", r"[\1]", name)


def _render_value(value: Json) -> str:
    """Return a value as TOML; strings are escaped, because a servers file may have any name."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
