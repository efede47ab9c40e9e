"""Computations from a JSON value, as every surface converts it, on a session."""

from pathlib import Path

from paddock.gate.open_paddock import OpenPaddock
from paddock.model.base import Json
from paddock.surfaces.rendering.computation import (
    Envelope,
    InvalidInput,
    build_envelope,
    build_refused_envelope,
    convert_request,
)


async def compute(session: OpenPaddock, body: Json, *, workspace: Path) -> Envelope:
    """Compute `body`: `{"source": str, "input": str, "limits": {...}}`, and return the answer."""
    try:
        request = convert_request(body).build_request(actor="local", surface="library", workspace=workspace)
    except InvalidInput as problem:
        return build_refused_envelope(problem)
    return build_envelope(await session.gate.execute(request))
