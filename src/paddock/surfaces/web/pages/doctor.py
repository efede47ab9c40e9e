"""`/doctor`: the confinement that this machine supports, as `paddock doctor` shows it, with remedies to copy.

Facts without a proof are there at once. Programs prove the others, which takes seconds: the page asks for them when it
has loaded. Without script, a link does.
"""

import asyncio
import time
from typing import TYPE_CHECKING, NamedTuple

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from paddock.gate.machine_check import MachineReport, check_machine, check_setup
from paddock.model.errors import PaddockError
from paddock.surfaces.web.render import render, render_part
from paddock.surfaces.web.request import require_owner

if TYPE_CHECKING:
    from starlette.datastructures import State

    from paddock.surfaces.web.viewer import Viewer

MAX_AGE_S = 60
"""Time for which proofs are shown again, in seconds."""
_STATUSES = {
    **dict.fromkeys(("available", "proved", "private", "watched", "overlayfs"), "status-ok"),
    **dict.fromkeys(("missing", "not proved", "open", "copy", "no label", "unguarded"), "status-waiting"),
    "refused": "status-refused",
}
"""Class of each state that is good, needs attention or is bad."""


class _Proof(NamedTuple):
    """The last result of the checks that need programs."""

    at: float
    """When it was found, in seconds since the epoch."""
    machine: MachineReport | None
    """None if no program could be started."""
    problem: str = ""
    """Why none could."""


class _Prover:
    """Runs the checks, once at a time, and keeps their result for `MAX_AGE_S`."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()
        self._last: _Proof | None = None

    def find_recent(self) -> _Proof | None:
        """Return the last result, unless it is too old."""
        recent = self._last is not None and 0 <= time.time() - self._last.at < MAX_AGE_S
        return self._last if recent else None

    async def prove(self, viewer: "Viewer") -> _Proof:
        """Return a result that is not too old, and run the checks for it if need be."""
        async with self._turn:
            if (recent := self.find_recent()) is not None:
                return recent
            try:
                machine = await check_machine(viewer.settings, viewer.workspace)
            except PaddockError as error:
                self._last = _Proof(time.time(), None, str(error))
            else:
                self._last = _Proof(time.time(), machine)
            return self._last


async def show_doctor(request: Request) -> Response:
    """Show what is known at once, and the proofs if they are asked for or recent."""
    viewer, prover = require_owner(request), _find_prover(request)
    setup = await asyncio.to_thread(check_setup, viewer.settings, viewer.workspace)
    proof = await prover.prove(viewer) if "run" in request.query_params else prover.find_recent()
    return render(
        request,
        "doctor.html",
        setup=setup,
        proof=proof,
        minimum=viewer.settings.sandbox.minimum_tier,
        statuses=_STATUSES,
    )


async def show_proof(request: Request) -> Response:
    """Show the proofs: a part of the page, which asks for it."""
    viewer = require_owner(request)
    proof = await _find_prover(request).prove(viewer)
    return HTMLResponse(render_part(request, "doctor_proof.html", proof=proof, statuses=_STATUSES))


def _find_prover(request: Request) -> _Prover:
    """Return what runs the checks of this server."""
    state: State = request.app.state
    if not hasattr(state, "prover"):
        state.prover = _Prover()
    return state.prover


ROUTES = (Route("/doctor", show_doctor), Route("/doctor/proof", show_proof))
