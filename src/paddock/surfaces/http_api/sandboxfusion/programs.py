"""Turn a request into one pure program: the work of a request to the gate, with its limits."""

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from paddock.model.limits import MIB, LimitOverrides
from paddock.model.network import NETWORKS, Network
from paddock.model.program import MIN_TIMEOUT_MS
from paddock.model.request import RuntimeRun
from paddock.model.work_files import InputFile
from paddock.surfaces.http_api.sandboxfusion.errors import reject_value
from paddock.surfaces.http_api.sandboxfusion.language_table import LanguageEntry
from paddock.surfaces.http_api.sandboxfusion.models import RunCodeRequest

OUTPUT_BYTES = 8 * MIB
"""Maximum output on each stream, in bytes. All of it is in the answer; with more, the program ends."""
_PURE: Mapping[str, Any] = {
    "access": "none",
    "own_packages": False,
    "output": {"persist": False, "kept_bytes": 1024, "live": False},
}
"""What makes a program pure. Its output is collected while it arrives, so that little of it is kept elsewhere."""


def make_program(
    body: RunCodeRequest, entry: LanguageEntry, files: tuple[InputFile, ...], network: Network
) -> RuntimeRun:
    """Return the program of a request. `network` is the maximum that policy grants. Raises InvalidRequest."""
    code: str | None = body.code
    if entry.file_name:
        files = (*files, InputFile(path=entry.file_name, data=body.code.encode()))
        code = entry.launcher or None
    has_workdir = bool(files or body.fetch_files)
    return make_pure_program(
        entry.runtime,
        code,
        network,
        args=entry.arguments,
        stdin=None if body.stdin is None else body.stdin.encode(),
        files=files,
        outputs=() if has_workdir else None,
    )


def make_pure_program(runtime: str, code: str | None, network: Network, **fields: object) -> RuntimeRun:
    """Return a program without any access: no workspace, no packages, no network except its own `127.0.0.1`.

    Raises InvalidRequest if it is too large, or is given files that one directory cannot hold.
    """
    own = min(network, "loopback", key=NETWORKS.index)
    try:
        return RuntimeRun.model_validate(
            {**_PURE, "runtime": runtime, "code": code, "network": own, **fields}
        )
    except ValidationError as problem:
        fault = problem.errors(include_url=False, include_context=False)[0]
        path = ["code" if each == "runtime" else each for each in fault["loc"]]
        raise reject_value(path, fault["msg"].removeprefix("Value error, "), None) from None


def make_limits(body: RunCodeRequest) -> LimitOverrides:
    """Return the limits of a program. A time limit has at least `MIN_TIMEOUT_MS`."""
    return LimitOverrides(
        timeout_ms=to_milliseconds(body.run_timeout),
        compile_timeout_ms=to_milliseconds(body.compile_timeout),
        memory_bytes=to_bytes(body.memory_limit),
        output_bytes=OUTPUT_BYTES,
    )


def to_milliseconds(seconds: float) -> int:
    """Return a time limit in milliseconds, at least the minimum of programs."""
    return max(MIN_TIMEOUT_MS, round(max(seconds, 0) * 1000))


def to_bytes(mebibytes: int) -> int | None:
    """Return a memory limit in bytes; None without one."""
    return mebibytes * MIB if mebibytes > 0 else None
