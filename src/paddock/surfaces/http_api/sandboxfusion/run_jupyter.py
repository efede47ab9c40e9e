"""Answer `/run_jupyter`: cells that run one after the other in one interpreter, which ends with the last one.

The interpreter is a pure program like any other. What it reports about the cells is hostile until it is checked; how it
ended is what the parent saw.
"""

import asyncio
import json
from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from paddock.engines.sessions.bundles import MAX_RESULTS, read_result
from paddock.engines.sessions.languages import NOTEBOOK
from paddock.model.base import Json
from paddock.model.json_meter import holds_more
from paddock.model.limits import MIB, LimitOverrides
from paddock.model.outcome import Outcome
from paddock.surfaces.http_api.sandboxfusion.files import (
    FetchedFiles,
    PaddingError,
    check_fetched_paths,
    decode_files,
)
from paddock.surfaces.http_api.sandboxfusion.language_table import LANGUAGES
from paddock.surfaces.http_api.sandboxfusion.models import (
    DEFAULT_TOTAL_TIMEOUT,
    CellError,
    CellResult,
    RunJupyterRequest,
    RunJupyterResponse,
)
from paddock.surfaces.http_api.sandboxfusion.programs import make_pure_program, to_bytes, to_milliseconds
from paddock.surfaces.http_api.sandboxfusion.responses import (
    OVER_AT_ONCE,
    ProgramOutput,
    explain,
    has_ended,
    is_missing,
    raise_refusal,
    render_command,
    render_missing_command,
)
from paddock.surfaces.http_api.sandboxfusion.running import PureRunner

REPORT_BYTES = 32 * MIB
"""Maximum size of what all cells write and show, in bytes."""
_MAX_REPORT_VALUES = 100_000
"""Maximum number of JSON values in it: decoding and removing secrets take microseconds for each of them."""
_QUICK_BYTES = 64 * 1024
"""Maximum size of a report that is read faster than a thread starts."""


class _ReportedCell(BaseModel):
    """What the interpreter reports about a cell."""

    model_config = ConfigDict(extra="forbid", strict=True, defer_build=True)

    stdout: str
    stderr: str
    display: list[dict[str, Any]] = Field(max_length=MAX_RESULTS)
    error: list[Annotated[list[str], Field(min_length=3, max_length=3)]] = Field(max_length=1)


class Hiding(NamedTuple):
    """Removes secrets."""

    text: Callable[[str], str]
    json: Callable[[Json], Json]


async def run_jupyter(body: RunJupyterRequest, runner: PureRunner) -> RunJupyterResponse:
    """Run the cells of a request. Raises InvalidRequest, and Refused if nothing started."""
    paths = check_fetched_paths(body.fetch_files)
    try:
        files = decode_files(body.files)
    except PaddingError as error:
        return RunJupyterResponse(status="SandboxError", message=f"a file is not base64: {error}")
    if body.total_timeout <= 0:
        return RunJupyterResponse(status="Failed", driver=OVER_AT_ONCE)
    work = make_pure_program(
        "python",
        NOTEBOOK.text,
        runner.tenant.settings.runtimes.network,
        stdin=json.dumps({"cells": body.cells}).encode(),
        files=files,
        outputs=(),
    )
    fetched = FetchedFiles(paths, runner.hide_secrets)
    report: list[bytes] = []
    timeout_ms = to_milliseconds(body.total_timeout)
    if body.total_timeout == DEFAULT_TOTAL_TIMEOUT:  # the default is at most the maximum of policy
        timeout_ms = min(timeout_ms, runner.tenant.settings.runtimes.timeout_ms)
    limits = LimitOverrides(
        timeout_ms=timeout_ms, memory_bytes=to_bytes(body.memory_limit), output_bytes=REPORT_BYTES
    )
    outcome, output = await runner.run(
        work,
        limits,
        on_workdir=fetched.read if paths else None,
        on_raw_stdout=report.append,
    )
    given = outcome, output, b"".join(report), len(body.cells), runner
    quick = len(given[2]) <= _QUICK_BYTES
    answer = _render(*given) if quick else await asyncio.to_thread(_render, *given)
    if answer.status != "Success":
        return answer
    if fetched.refusal is not None:
        raise fetched.refusal
    return answer.model_copy(update={"files": fetched.contents})


def _render(
    outcome: Outcome, output: ProgramOutput, report: bytes, count: int, runner: PureRunner
) -> RunJupyterResponse:
    if is_missing(outcome):
        missing = render_missing_command(LANGUAGES["python"], explain(outcome))
        return RunJupyterResponse(status="Failed", driver=missing.run_result)
    if outcome.program is None or not has_ended(outcome):
        raise_refusal(outcome)
        return RunJupyterResponse(status="SandboxError", message=explain(outcome))
    driver = render_command(outcome, outcome.program, ProgramOutput(b"", output.stderr))
    outgoing = runner.tenant.opened.outgoing
    if not outcome.ok:
        return RunJupyterResponse(status="Failed", driver=driver)
    cells = read_report(report, count, Hiding(outgoing.text, outgoing.json))
    if cells is None:
        note = {
            "stderr": f"{driver.stderr}paddock: what the interpreter reports about its cells is damaged\n"
        }
        return RunJupyterResponse(status="Failed", driver=driver.model_copy(update=note))
    return RunJupyterResponse(status="Success", driver=driver, cells=cells)


def read_report(report: bytes, count: int, hide: Hiding) -> list[CellResult] | None:
    """Return what an interpreter reports about its cells; None if it is no such report, or has too many values."""
    if holds_more(report, _MAX_REPORT_VALUES):
        return None
    try:
        found = json.loads(report)
        if b"\\ud" in report.lower():  # half of a surrogate pair cannot be sent
            found = json.loads(json.dumps(found, ensure_ascii=False).encode("utf-8", "replace"))
        cells = [_ReportedCell.model_validate(cell) for cell in found["cells"]]
    except (ValueError, KeyError, TypeError, RecursionError, ValidationError):
        return None
    return [_render_cell(cell, hide) for cell in cells] if len(cells) == count else None


def _render_cell(cell: _ReportedCell, hide: Hiding) -> CellResult:
    show = partial(read_result, hide=hide.text, hide_json=hide.json)
    return CellResult(
        stdout=hide.text(cell.stdout),
        stderr=hide.text(cell.stderr),
        display=[show(bundle).data for bundle in cell.display],
        error=[
            CellError(
                ename=hide.text(name),
                evalue=hide.text(text),
                traceback=hide.text(traceback).splitlines(),
            )
            for name, text, traceback in cell.error
        ],
    )
