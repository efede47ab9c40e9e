"""Work as the JSON that the API takes."""

from base64 import b64encode
from typing import Any

from paddock.model.base import Json
from paddock.model.errors import RequestError
from paddock.model.limits import Calls, LimitOverrides
from paddock.model.request import GuestRun, RuntimeRun, ServerCall, Work
from paddock.model.work_files import InputFile

_WRITTEN_OTHERWISE = {"kind", "runtime", "stdin", "access", "network", "hosts", "files", "output"}
"""Fields of a program that the API has under another name, or in another form."""


def make_body(work: Work, limits: LimitOverrides, calls: Calls, *, jit: bool) -> dict[str, Json]:
    """Return the body of an execution. Raises RequestError for work that the API does not offer."""
    match work:
        case GuestRun() if work.computes:
            body = {
                "kind": "compute",
                "code": work.source,
                "input": work.input,
                "deterministic": work.deterministic,
                "partial": work.partial,
                "jit": jit,
            }
        case GuestRun(profile="execute"):
            body = {"kind": "run", "code": work.source, "input": work.input, "session": work.session}
            body |= {"mode": calls, "jit": jit}
        case RuntimeRun():
            body = _describe_program(work)
        case ServerCall():
            body = {"kind": "call", "server": work.server, "tool": work.tool, "arguments": work.arguments}
        case _:
            raise RequestError("the HTTP API does not offer this kind of work")
    body |= {name: value for name, value in limits if value is not None}
    return {name: value for name, value in body.items() if value is not None}


def _describe_program(work: RuntimeRun) -> dict[str, Any]:
    """Return the body for a program: what differs from the API's defaults."""
    return {
        **work.model_dump(exclude_defaults=True, exclude=_WRITTEN_OTHERWISE),
        "kind": "exec",
        "language": work.runtime,
        "stdin_base64": None if work.stdin is None else b64encode(work.stdin).decode(),
        "access": work.access if "access" in work.model_fields_set else None,
        "network": list(work.hosts) if work.hosts is not None else work.network,
        "files": [_describe_file(file) for file in work.files] or None,
        "combined": work.output.combined or None,
        "keep": None if work.output.persist else False,
    }


def _describe_file(file: InputFile) -> dict[str, Json]:
    if file.data is not None:
        return {"path": file.path, "base64": b64encode(file.data).decode()}
    if file.workspace is not None:
        return {"path": file.path, "workspace": file.workspace}
    return {"path": file.path, "artifact": file.artifact}
