"""`/record`: the ledger. What its last verification found, its records, one record in the chain, and their export."""

import asyncio
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from paddock.record.ledger.chain_place import find_place
from paddock.record.ledger.line_format import LedgerHead, list_irregular_files, read_published_head
from paddock.record.ledger.moment import parse_end, parse_moment
from paddock.record.ledger.runs import title_request
from paddock.record.ledger.search import STATUSES, RecordFilter, find
from paddock.record.ledger.sink import EVENTS, AuditRecord
from paddock.record.ledger.verification import LedgerVerification, Progress, Verdict
from paddock.surfaces.http_server.problems import INVALID_REQUEST, NOT_FOUND, Problem
from paddock.surfaces.web.record_export import FORMATS, export_records
from paddock.surfaces.web.render import render, render_part
from paddock.surfaces.web.request import find_viewer, go_to, require_owner

if TYPE_CHECKING:
    from paddock.surfaces.web.viewer import Viewer

PAGE_RECORDS = 100
"""Maximum number of records on a page."""
_SHOWN_FINDINGS = 100
"""Maximum number of problems, and of notes, on the page."""
_FILTERS = ("name", "event", "actor", "status", "server", "tool", "since", "until")
"""Names of the filters in the address."""
_TIMES = ("since", "until")


class _Wanted(NamedTuple):
    """What an address asks for."""

    given: dict[str, str]
    """The filters in the address that are not empty."""
    filter: RecordFilter
    problem: str
    """What is wrong with the filters; empty if nothing is."""

    def encode(self, **others: str) -> str:
        """Return the query of an address with these filters."""
        return urlencode({**self.given, **others}, errors="replace")


class _ChainState(NamedTuple):
    """What is known of the ledger. Only the owner sees it: the ledger has the records of all."""

    directory: Path
    head: LedgerHead
    progress: Progress | None
    """How far the present verification is."""
    verdict: Verdict | None
    """What the last verification of this server found."""
    in_cluster: bool
    """Whether other machines have records, too."""


async def show_record(request: Request) -> Response:
    """Show the state of the ledger and its newest records that match."""
    viewer, wanted = find_viewer(request), _read_filters(request)
    beyond = request.query_params.get("beyond", "")
    directory = viewer.settings.audit.directory

    def read() -> list[AuditRecord]:
        if wanted.problem:
            return []
        return list(find(directory, wanted.filter, limit=PAGE_RECORDS + 1, beyond=beyond))

    found = await asyncio.to_thread(read)
    records, is_more = found[:PAGE_RECORDS], len(found) > PAGE_RECORDS
    return render(
        request,
        "record.html",
        rows=[(record, _summarize(record)) for record in records],
        wanted=wanted,
        beyond=beyond,
        older=wanted.encode(beyond=records[-1].id) if is_more else "",
        events=EVENTS,
        statuses=STATUSES,
        formats=FORMATS,
        irregular=await asyncio.to_thread(list_irregular_files, directory) if viewer.is_owner else [],
        chain=await _describe_chain(viewer) if viewer.is_owner else None,
        shown_findings=_SHOWN_FINDINGS,
    )


async def show_one(request: Request) -> Response:
    """Show a record and its place in the chain; lead from the id of a request to its records."""
    viewer, id_ = find_viewer(request), request.path_params["id"]
    directory, own = viewer.settings.audit.directory, _make_filter(viewer)
    place = await asyncio.to_thread(find_place, directory, id_)
    if place is None or not own.matches(place.record):
        wanted = _make_filter(viewer, name=id_)
        if await asyncio.to_thread(lambda: any(find(directory, wanted, limit=1))):
            return RedirectResponse(f"/record?{urlencode({'name': id_})}", 303)
        raise Problem(NOT_FOUND, f"There is no record of {id_[:100]!r} that you may see.")
    return render(
        request,
        "record_one.html",
        place=place,
        record=place.record,
        document=json.dumps(place.record.model_dump(mode="json"), indent=2),
        neighbours=[
            (where, each, viewer.is_owner or own.matches(each))
            for where, each in (("before", place.before), ("this one", place.record), ("after", place.after))
            if each is not None
        ],
    )


async def export(request: Request) -> Response:
    """Send the records that match as a file, the oldest one first."""
    viewer, wanted = find_viewer(request), _read_filters(request)
    form = request.query_params.get("format", "")
    if wanted.problem or form not in FORMATS:
        text = f"Records are exported as {' or '.join(FORMATS)}, not as {form[:40]!r}."
        raise Problem(INVALID_REQUEST, wanted.problem or text)
    name = f"paddock-record-{datetime.now(UTC):%Y-%m-%dT%H%M%SZ}.{form}"
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    if request.method == "HEAD":
        return Response(headers=headers, media_type=FORMATS[form])
    pieces = export_records(find(viewer.settings.audit.directory, wanted.filter, newest_first=False), form)
    first = await asyncio.to_thread(next, pieces)  # an error is answered with a page

    def stream() -> Iterator[bytes]:
        yield first
        yield from pieces

    return StreamingResponse(stream(), headers=headers, media_type=FORMATS[form])


async def verify(request: Request) -> Response:
    """Begin a verification, unless one is under way."""
    _find_verification(require_owner(request).settings.audit.directory).start()
    return go_to(request, "/record")


async def show_verification(request: Request) -> Response:
    """Show how far the verification is, or its result: a part of the page, which asks for it again and again."""
    chain = await _describe_chain(require_owner(request))
    return HTMLResponse(
        render_part(request, "record_verification.html", chain=chain, shown_findings=_SHOWN_FINDINGS)
    )


@cache
def _find_verification(directory: Path) -> LedgerVerification:
    """Return the verifications of a ledger by this server."""
    return LedgerVerification(directory)


async def _describe_chain(viewer: "Viewer") -> _ChainState:
    directory = viewer.settings.audit.directory
    verification = _find_verification(directory)
    # In this order: a verification that ends in between still counts as under way.
    progress, verdict = verification.progress, verification.last
    head = await asyncio.to_thread(read_published_head, directory)
    return _ChainState(directory, head, progress, verdict, bool(viewer.settings.cluster.url))


def _read_filters(request: Request) -> _Wanted:
    """Return what the address asks for."""
    viewer = find_viewer(request)
    names = _FILTERS if viewer.is_owner else (name for name in _FILTERS if name != "actor")
    texts = {name: request.query_params.get(name, "").strip() for name in names}
    given = {name: text for name, text in texts.items() if text}
    times: dict[str, datetime] = {}
    problem = ""
    for name in _TIMES:
        if name in given:
            try:
                times[name] = (parse_end if name == "until" else parse_moment)(given[name])
            except ValueError as error:
                problem = f"{name}: {error}."
    facts = {name: text for name, text in given.items() if name not in _TIMES}
    return _Wanted(given, _make_filter(viewer, **facts, **times), problem)


def _make_filter(viewer: "Viewer", **wanted: str | datetime) -> RecordFilter:
    """Return a filter for the records that a person may see."""
    actor = viewer.find_recorded_actor()
    return RecordFilter.model_validate(wanted if actor is None else {**wanted, "actor": actor})


def _summarize(record: AuditRecord) -> str:
    """Return what a record is about, in a few words."""
    facts = record.fields
    if record.event == "answered":
        return " by ".join(str(facts[name]) for name in ("answer", "answered_by") if facts.get(name))
    if facts.get("kind") == "changes":
        return title_request(facts)
    told = [str(facts[name]) for name in ("kind", "name", "host") if facts.get(name)]
    if not told:
        told = [f"{name} {value}" for name, value in islice(facts.items(), 4) if isinstance(value, str | int)]
    return " ".join(told)


ROUTES = (
    Route("/record", show_record),
    Route("/record/export", export),
    Route("/record/verify", verify, methods=["POST"]),
    Route("/record/verification", show_verification),
    Route("/record/{id}", show_one),
)
