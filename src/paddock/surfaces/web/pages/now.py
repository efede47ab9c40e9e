"""`/`: what runs now in all processes of this user, and the button that ends it."""

import asyncio
import time
from functools import partial
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from paddock.gate.live_runs.reader import LiveRuns, LiveState
from paddock.model.errors import PaddockError
from paddock.model.live_runs import STATE_NAMES, OutputNow, RunNow
from paddock.surfaces.http_server.problems import NOT_FOUND, Problem
from paddock.surfaces.web.events import send_events
from paddock.surfaces.web.pages.run import is_recorded
from paddock.surfaces.web.render import render, render_part
from paddock.surfaces.web.request import find_form, find_viewer, go_to

_MAX_RUNS = 50
"""Maximum number of runs on the page, the oldest ones."""
_OUTPUT_CHARS = 2000
"""Length of the output of each run on the page, in characters."""


def find_live_runs(request: Request) -> LiveRuns:
    """Return the runs and sessions that the viewer may see."""
    viewer = find_viewer(request)
    return LiveRuns(None if viewer.is_owner else viewer.actor, by=f"{viewer.name} (paddock ui)")


async def show_now(request: Request) -> Response:
    """Show what runs."""
    return render(request, "now.html", **_describe(await find_live_runs(request).list_all(_OUTPUT_CHARS)))


async def stream_now(request: Request) -> Response:
    """Send what runs, whenever it has changed."""

    async def make_part() -> str:
        state = await find_live_runs(request).list_all(_OUTPUT_CHARS)
        return render_part(request, "now_live.html", **_describe(state))

    return send_events("now", make_part)


def _describe(state: LiveState) -> dict[str, Any]:
    """Return what the templates show of it."""
    paddocks, runs = state.paddocks, state.runs
    tiers = sorted({paddock.tier for paddock in paddocks if paddock.tier})
    return {
        "state": state,
        "runs": runs[:_MAX_RUNS],
        "hidden": max(0, len(runs) - _MAX_RUNS),
        "now": time.time(),
        "states": STATE_NAMES,
        "numbers": {
            "runs": len(runs),
            "programs that wait for a slot": sum(paddock.waiting for paddock in paddocks),
            "JavaScript workers": sum(paddock.workers for paddock in paddocks),
            "MCP servers": sum(paddock.servers for paddock in paddocks),
            "open sessions": len(state.sessions),
            "tier in force": ", ".join(tiers) or "not needed yet",
        },
    }


async def show_output(request: Request) -> Response:
    """Show the output of a run so far. One that has ended meanwhile is in the record."""
    try:
        run, output = await _find_output(request)
    except Problem:
        id_ = request.path_params["id"]
        if not await asyncio.to_thread(is_recorded, find_viewer(request), id_):
            raise
        return go_to(request, f"/runs/{id_}")
    return render(request, "now_output.html", run=run, output=output, states=STATE_NAMES, now=time.time())


async def stream_output(request: Request) -> Response:
    """Send the output of a run whenever there is more, until it ends."""
    has_ended = asyncio.Event()

    async def make_part() -> str:
        try:
            run, output = await _find_output(request)
        except Problem:
            run, output = None, None
            has_ended.set()
        return render_part(
            request, "now_output_live.html", run=run, output=output, states=STATE_NAMES, now=time.time()
        )

    return send_events("output", make_part, has_ended)


async def _find_output(request: Request) -> tuple[RunNow, OutputNow]:
    """Return a run and its output. Raises Problem for one that has ended."""
    id_, live = request.path_params["id"], find_live_runs(request)
    try:
        output = await live.read_output(id_)
        return next(run for run in (await live.list_all()).runs if run.id == id_), output
    except (PaddockError, StopIteration):
        raise Problem(
            NOT_FOUND, "This run has ended, or is another user's. Runs has what happened."
        ) from None


async def stop_run(request: Request) -> Response:
    """End a run in order. One that has ended meanwhile needs no more."""
    await find_live_runs(request).stop_run(find_form(request).get("run", ""))
    return go_to(request, "/")


_post = partial(Route, methods=["POST"])
ROUTES = (
    Route("/", show_now),
    Route("/now/events", stream_now),
    _post("/now/stop", stop_run),
    Route("/now/{id}", show_output),
    Route("/now/{id}/events", stream_output),
)
