"""`/servers`: the upstream servers, their tools, and the changes of tools that wait for approval.

Only the button of one server's page starts it. Users of a server see names and tools: entries, addresses and errors
may contain what belongs to the owner.
"""

import hashlib
import shlex
from collections.abc import Iterator, Sequence
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote, urlencode

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from paddock.gate import server_facts
from paddock.gate.pin_approvals import PinApprovals
from paddock.gate.policy_trial import PolicyTrials
from paddock.gate.visible_tools import VisibleTools
from paddock.model.request import ExecutionRequest, GuestRun
from paddock.surfaces.http_server.problems import INVALID_REQUEST, NOT_FOUND, Problem
from paddock.surfaces.web.render import render, show_visible
from paddock.surfaces.web.request import find_form, find_viewer, go_to, read_number, require_owner
from paddock.surfaces.web.viewer import SURFACE, Viewer

if TYPE_CHECKING:
    from paddock.engines.servers.result import CatalogTool
    from paddock.foundation.side_by_side import LinePair
    from paddock.gate.server_facts import ServerFacts, ShownChange

_PATIENCE_S = 15.0
"""Maximum wait for a server that a person connects to, in seconds. It continues to start."""
_TOOLS_PER_PAGE = 100
_MAX_SERVERS = 60
_MAX_FAULTS = 20
_MAX_CHANGES = 30
"""Maximum number of servers, of faults of their files, and of changes of tools on one page."""
_MAX_LINK_CHARS = 500
_MAX_CHANGE_CHARS = 60_000
"""Maximum length of all changes on a page, in characters of HTML. A longer one has a separate page."""
_MAX_DECLARATION_CHARS = 40_000
"""The same for declarations of tools."""
_MAX_SINGLE_CHARS = 100_000
"""Maximum length of one change on its own page. A longer one cannot be approved here: the page must show all of it."""
_ROW_CHARS = 110
"""Characters of HTML around a pair of lines."""
_CONTEXT_LINES = 3
_DONE = {
    "connected": "The server answered.",
    "approved": "The change is approved.",
    "unstable": "Any text of this tool is accepted. Models read only the approved one.",
    "changed": "The tool has changed again, or was approved elsewhere. Nothing was approved.",
}
"""What a form did, by the word in the address that it leads to."""


class ServerRow(NamedTuple):
    """A server in the list."""

    link: str
    facts: "ServerFacts"
    state: str
    breaker_open: bool
    tools: int
    changes: int


class ToolView(NamedTuple):
    """A tool of a server."""

    name: str
    key: str
    """Its name in addresses."""
    changed: bool
    declaration: str
    """Its TypeScript; empty if the page has no room for it."""
    notes: tuple[str, ...]


class ChangeRow(NamedTuple):
    """A pair of lines, or a number of equal lines that are left out."""

    pair: "LinePair | None"
    skipped: int = 0


class ChangeView(NamedTuple):
    """A change of a tool, side by side."""

    tool: str
    key: str
    digest: str
    is_removed: bool
    is_new: bool
    note: str
    accepts_unstable: bool
    """Whether a person may accept any text of the tool."""
    rows: list[ChangeRow] | None
    """None if the page has no room for it."""


async def show_servers(request: Request) -> Response:
    """Show the configured servers. Starts none."""
    viewer = find_viewer(request)
    servers = viewer.opened.servers
    first = read_number(request.query_params.get("from", "")) or 0
    if not viewer.is_owner:
        names = [(name, _link_if_short(name)) for name in _list_visible(viewer)]
        shown, following = names[first : first + _MAX_SERVERS], _find_following(first, len(names))
        return render(request, "servers.html", rows=[], names=shown, first=first, following=following)
    statuses = servers.server_statuses()
    entries, config = server_facts.list_servers(servers), servers.config
    rows = [
        ServerRow(
            _link_if_short(facts.name),
            facts,
            server_facts.summarize_state(statuses[facts.name]),
            statuses[facts.name].breaker_open,
            len((await server_facts.find_known_tools(servers, facts.name)).tools),
            await server_facts.count_changes(servers, facts.name),
        )
        for facts in entries[first : first + _MAX_SERVERS]
    ]
    faults = [("", text) for text in config.warnings]
    return render(
        request,
        "servers.html",
        rows=rows,
        names=[],
        faults=[*faults, *sorted(config.absent.items())][:_MAX_FAULTS],
        more_faults=max(0, len(faults) + len(config.absent) - _MAX_FAULTS),
        first=first,
        following=_find_following(first, len(entries)),
    )


async def show_server(request: Request) -> Response:
    """Show one server. Starts nothing."""
    viewer, name = find_viewer(request), _find_name(request)
    servers, only = viewer.opened.servers, request.query_params.get("tool", "")
    known = await server_facts.find_known_tools(servers, name)
    tools = _list_callable(viewer, known.tools)
    chosen = [each for each in tools if only in {"", _make_key(each.tool.name)}]
    first = read_number(request.query_params.get("from", "")) or 0
    chosen = chosen[first : first + _TOOLS_PER_PAGE]
    shown = await _describe_tools(viewer, chosen, room=_MAX_SINGLE_CHARS if only else _MAX_DECLARATION_CHARS)
    values: dict[str, Any] = {
        "name": name,
        "address": _link(name),
        "only": only,
        "tools": shown,
        "is_listed": known.is_listed,
        "first": first,
        "total": len(tools),
        "previous": max(0, first - _TOOLS_PER_PAGE) if first else None,
        "following": first + _TOOLS_PER_PAGE if not only and first + _TOOLS_PER_PAGE < len(tools) else None,
        "done": _DONE.get(request.query_params.get("done", ""), ""),
        "failed": request.query_params.get("done", "") in {"changed", "failed"},
    }
    if not viewer.is_owner:
        return render(
            request, "server.html", **values, facts=None, state=None, connections=[], changes=[], command=""
        )
    changes = await server_facts.list_changes(
        servers, name, limit=_MAX_CHANGES, is_wanted=lambda tool: only in {"", _make_key(tool)}
    )
    state = servers.server_statuses()[name]
    return render(
        request,
        "server.html",
        **values,
        facts=server_facts.find_server(servers, name),
        state=state,
        summary=server_facts.summarize_state(state),
        connections=[each for each in servers.list_connections(name) if each.verdict == "refused"],
        changes=list(_view_changes(changes, only=only)),
        more_changes=0 if only else await server_facts.count_changes(servers, name) - len(changes),
        command=_write_command(viewer, name),
    )


async def change_server(request: Request) -> Response:
    """Connect to a server, or approve a change of a tool."""
    viewer, name, form = find_viewer(request), _find_name(request), find_form(request)
    servers, digest = viewer.opened.servers, form.get("digest", "")
    match form.get("action"):
        case "connect":
            failed = await server_facts.connect(servers, name, _PATIENCE_S, again=viewer.is_owner)
            return go_to(request, _link(name, done="failed" if failed else "connected"))
        case "approve":
            require_owner(request)
            done = await PinApprovals(viewer.opened, viewer.name, SURFACE).approve_change(name, digest)
            return go_to(request, _link(name, done="approved" if done else "changed"))
        case "unstable":
            require_owner(request)
            done = await PinApprovals(viewer.opened, viewer.name, SURFACE).accept_unstable_change(
                name, digest
            )
            return go_to(request, _link(name, done="unstable" if done else "changed"))
        case _:
            raise Problem(INVALID_REQUEST, "The form does not say what to do.")


def _find_name(request: Request) -> str:
    """Return the server that an address names, if the viewer may see it. Raises Problem."""
    viewer, name = find_viewer(request), request.path_params["name"]
    known = viewer.opened.servers.config.servers if viewer.is_owner else _list_visible(viewer)
    if name not in known:
        raise Problem(NOT_FOUND, f"There is no server {name[:200]!r}.")
    return name


def _list_visible(viewer: Viewer) -> list[str]:
    """Return the servers of which a user may call some tool."""
    configured = viewer.opened.servers.config.servers
    return [name for name in _make_visible(viewer).list_servers(_make_request(viewer)) if name in configured]


def _list_callable(viewer: Viewer, tools: "Sequence[CatalogTool]") -> "list[CatalogTool]":
    """Return the tools that a viewer may see: the owner all, a user those that policy lets them call."""
    if viewer.is_owner:
        return list(tools)
    visible, asked = _make_visible(viewer), _make_request(viewer)
    return [each for each in tools if visible.may_call(asked, each)]


def _make_visible(viewer: Viewer) -> VisibleTools:
    policy, servers = PolicyTrials(viewer.settings).policy, viewer.opened.servers
    return VisibleTools.for_policy(viewer.settings, policy, servers, lambda _request, _allowed: None)


def _make_request(viewer: Viewer) -> ExecutionRequest:
    return ExecutionRequest(
        actor=viewer.actor, surface=SURFACE, workspace=viewer.workspace, work=GuestRun(source="")
    )


async def _describe_tools(viewer: Viewer, tools: "Sequence[CatalogTool]", *, room: int) -> list[ToolView]:
    """Return tools with their declarations, as long as there is room for them."""
    shown: list[ToolView] = []
    for described in await server_facts.describe_tools(viewer.opened.servers, tools):
        name = tools[len(shown)].tool.name
        room -= _measure(described.declaration) + sum(map(_measure, described.notes))
        declaration = described.declaration if room >= 0 else ""
        notes = described.notes if room >= 0 else ()
        shown.append(ToolView(name, _make_key(name), described.changed, declaration, notes))
    return shown


def _view_changes(changes: "Sequence[ShownChange]", *, only: str) -> Iterator[ChangeView]:
    room = _MAX_SINGLE_CHARS if only else _MAX_CHANGE_CHARS
    for shown in changes:
        change, rows = shown.change, list(_fold_equal_lines(shown.lines))
        room -= sum(_measure_row(row) for row in rows)
        yield ChangeView(
            change.tool,
            _make_key(change.tool),
            shown.digest,
            change.after is None,
            change.is_new,
            change.explain(),
            bool(change.explain()) and change.changed_fields == ("description",),
            rows if room >= 0 else None,
        )


def _fold_equal_lines(lines: "Sequence[LinePair]") -> Iterator[ChangeRow]:
    """Yield the lines that differ, with some equal ones around them, and the numbers of those left out."""
    near: set[int] = set()
    for at, pair in enumerate(lines):
        if pair.differs:
            near |= set(range(at - _CONTEXT_LINES, at + _CONTEXT_LINES + 1))
    skipped = 0
    for at, pair in enumerate(lines):
        if at not in near:
            skipped += 1
            continue
        if skipped:
            yield ChangeRow(None, skipped)
            skipped = 0
        yield ChangeRow(pair)
    if skipped:
        yield ChangeRow(None, skipped)


def _measure_row(row: ChangeRow) -> int:
    halves = (row.pair.before, row.pair.after) if row.pair is not None else ()
    return _ROW_CHARS + sum(_measure("".join(half)) for half in halves if half is not None)


def _measure(text: str) -> int:
    """Return how many characters of HTML a text takes."""
    return len(escape(show_visible(text)))


def _write_command(viewer: Viewer, name: str) -> str:
    """Return the command that logs in to a server."""
    words = ["paddock", "servers", "login", "--workspace", str(viewer.workspace.resolve())]
    return shlex.join([*words, *(["--"] if name.startswith("-") else []), name])


def _link(name: str, **query: str) -> str:
    return f"/servers/{quote(name, safe='', errors='replace')}{'?' if query else ''}{urlencode(query)}"


def _find_following(first: int, total: int) -> int | None:
    """Return the number of the first server of the next page; None on the last one."""
    return first + _MAX_SERVERS if first + _MAX_SERVERS < total else None


def _link_if_short(name: str) -> str:
    """Return the address of a server's page; empty for a name that no address has room for."""
    link = _link(name)
    return link if len(link) <= _MAX_LINK_CHARS else ""


def _make_key(tool: str) -> str:
    """Return the name of a tool in addresses and forms: a server may use any character, and many of them."""
    return hashlib.sha256(tool.encode("utf-8", "surrogatepass")).hexdigest()[:16]


ROUTES = (
    Route("/servers", show_servers),
    Route("/servers/{name:path}", show_server),
    Route("/servers/{name:path}", change_server, methods=["POST"]),
)
