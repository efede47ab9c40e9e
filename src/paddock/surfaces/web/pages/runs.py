"""`/runs`: the runs in the ledger by filter, a histogram of them, and how long they take."""

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from paddock.record.ledger.moment import parse_end, parse_moment
from paddock.record.ledger.runs import (
    RUN_STATUSES,
    RunFilter,
    RunPage,
    RunSummary,
    list_run_values,
    list_runs,
    summarize_runs,
)
from paddock.surfaces.web.render import render
from paddock.surfaces.web.request import find_viewer
from paddock.surfaces.web.viewer import Viewer

if TYPE_CHECKING:
    from datetime import datetime

PAGE_RUNS = 30
"""Number of runs of one page."""
_FIELDS = ("actor", "surface", "name", "server", "tool", "status", "since", "until", "text")
_MAX_CHARS = 200
_MOMENTS = ("since", "until")


async def show_runs(request: Request) -> Response:
    """Show the runs that match the filter of the query."""
    viewer = find_viewer(request)
    given = read_fields(request.query_params)
    wanted, problem = make_filter(given, viewer)
    cursor = request.query_params.get("cursor", "")
    page, summary, values = await asyncio.to_thread(_ask, viewer, None if problem else wanted, cursor)
    return render(
        request,
        "runs.html",
        given=given,
        problem=problem,
        page=page,
        summary=summary,
        values=values,
        statuses=RUN_STATUSES,
        older=f"/runs?{urlencode({**given, 'cursor': page.next})}" if page.next else "",
        is_first=not cursor,
    )


def read_fields(query: Mapping[str, str]) -> dict[str, str]:
    """Return the fields of a filter that have a value, as they were typed."""
    return {name: text for name in _FIELDS if (text := query.get(name, "").strip()[:_MAX_CHARS])}


def make_filter(given: Mapping[str, str], viewer: Viewer) -> tuple[RunFilter, str]:
    """Return the filter of some fields, for a viewer, and what is wrong with the fields; "" for nothing."""
    problem = ""
    moments: dict[str, datetime] = {}
    for name in _MOMENTS:
        if name in given:
            try:
                moments[name] = (parse_end if name == "until" else parse_moment)(given[name])
            except (ValueError, OverflowError) as error:
                problem = f"{error}."
    plain = {name: text for name, text in given.items() if name not in _MOMENTS}
    if (own := viewer.find_recorded_actor()) is not None:
        plain["actor"] = own
    return RunFilter.model_validate({**plain, **moments}), problem


def _ask(
    viewer: Viewer, wanted: RunFilter | None, cursor: str
) -> tuple[RunPage, RunSummary, dict[str, list[str]]]:
    """Return a page of the runs that are wanted, figures about all of them, and the values to choose from."""
    directory = viewer.settings.audit.directory
    values = list_run_values(directory, viewer.find_recorded_actor())
    if wanted is None:
        return RunPage(), RunSummary(), values
    page = list_runs(directory, wanted, count=PAGE_RUNS, cursor=cursor)
    return page, summarize_runs(directory, wanted), values


ROUTES = (Route("/runs", show_runs),)
