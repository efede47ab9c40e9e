"""`/runs/ID`: one run, from its program to its place in the record, and what was stored of it."""

import asyncio
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from paddock.gate.past_runs.command import RerunCommand, write_command
from paddock.gate.past_runs.describe import PastRun, describe_run, read_text, read_texts
from paddock.gate.past_runs.stored import StoredFile, list_stored, read_stored
from paddock.gate.past_runs.terms import LimitUse, Remedy, Terms
from paddock.model.errors import ArtifactError, RecordingError, VaultError
from paddock.model.numbers import dumps
from paddock.record.ledger.runs import find_run_records
from paddock.surfaces.http_server.problems import NOT_FOUND, Problem
from paddock.surfaces.web.inert import send_file_to_show, send_text_to_save
from paddock.surfaces.web.render import render
from paddock.surfaces.web.request import find_viewer
from paddock.surfaces.web.viewer import Viewer

if TYPE_CHECKING:
    from paddock.model.artifact import Stream
    from paddock.policy.settings.schema import Settings
    from paddock.record.output.artifacts import Artifacts
    from paddock.record.payloads.recorded_run import RecordedRun

MAX_RECORDS = 4000
"""Maximum number of records of a run on a page, the oldest ones."""
_SHOWN_ROWS, _SHOWN_TEXTS = 100, 20
"""Maximum number of rows of each table, and of texts of calls, unless the viewer asks for all."""
_SHOWN_LINES, _MAX_LINES = 300, 5000
"""Maximum number of lines of a program and of its console, and maximum number if the viewer asks for all."""
_SHOWN_CHARS = 10_000
"""Maximum length of a stream of output on the page, in characters."""
_T = TypeVar("_T")


class StoredText(NamedTuple):
    """The beginning and the end of an output stream."""

    handle: str
    stream: str
    text: str
    size: int


class _Kept(NamedTuple):
    """What was kept of a run beside its records."""

    recording: "RecordedRun | None"
    why_no_recording: str
    texts: tuple[StoredText, ...]
    files: tuple[StoredFile, ...]
    why_no_output: str


class _Shown(NamedTuple):
    """Everything that the page shows of a run."""

    past: PastRun
    limits: list[LimitUse]
    remedies: dict[tuple[str, str, str], Remedy]
    """By kind, name and rule of what was refused."""
    command: RerunCommand
    kept: _Kept


async def show_run(request: Request) -> Response:
    """Show a run."""
    viewer, id_ = find_viewer(request), request.path_params["id"]
    shown = await asyncio.to_thread(_find_shown, viewer, id_)
    past, recording = shown.past, shown.kept.recording
    is_all = "all" in request.query_params
    failed_line = None if recording is None or recording.error is None else recording.error.line
    source = [] if recording is None else _number_lines(recording.program.source or "")
    shown_lines = _MAX_LINES if is_all else _SHOWN_LINES
    first = max(0, min((failed_line or 1) - shown_lines // 2, len(source) - shown_lines))
    return render(
        request,
        "run.html",
        past=past,
        run=past.run,
        facts=past.facts,
        limits=shown.limits,
        remedies=shown.remedies,
        command=shown.command,
        kept=shown.kept,
        recording=recording,
        source=source[first : first + shown_lines],
        source_lines=len(source),
        failed_line=failed_line,
        shown_lines=shown_lines,
        write_json=_write_json,
        shown_chars=_SHOWN_CHARS,
        rows=None if is_all else _SHOWN_ROWS,
        texts=None if is_all else _SHOWN_TEXTS,
        tier=read_text(past.facts, "tier"),
        layers=read_texts(past.facts, "layers"),
        labels=read_texts(past.facts, "labels"),
        flows=[call for call in past.calls if {"reads", "flow"} & call.facts.keys()],
        payloads=viewer.settings.record.payloads,
    )


async def send_output(request: Request) -> Response:
    """Send an output stream of a run as a file to save."""
    stream: Stream = "stderr" if request.path_params["stream"] == "stderr" else "stdout"
    file, data = await _read_file(request, stream)
    return send_text_to_save(data, f"{file.handle}-{stream}.txt")


async def send_file(request: Request) -> Response:
    """Send a stored file of a run: a raster image to show, anything else to save."""
    file, data = await _read_file(request, "stdout")
    return send_file_to_show(data, file.path.rpartition("/")[2] or file.handle)


async def _read_file(request: Request, stream: "Stream") -> tuple[StoredFile, bytes]:
    """Return a stored file that belongs to a run of the viewer, and its content. Raises Problem."""
    viewer, handle = find_viewer(request), request.path_params["handle"]
    past = await asyncio.to_thread(_find_run, viewer, request.path_params["id"])

    def read(settings: "Settings") -> tuple[StoredFile, bytes] | None:
        return read_stored(_open_artifacts(viewer, settings), past, handle, stream)

    try:
        found = await asyncio.to_thread(_try_stores, viewer, past, read)
    except ArtifactError as error:
        raise Problem(NOT_FOUND, f"{error}.") from None
    if found is None:
        raise Problem(NOT_FOUND, "The run has no such file, or it has expired.")
    return found


def is_recorded(viewer: Viewer, id_: str) -> bool:
    """Return whether the record has a run that the viewer may see."""
    try:
        _find_run(viewer, id_)
    except Problem:
        return False
    return True


def _find_run(viewer: Viewer, id_: str) -> PastRun:
    """Return the run that an id belongs to. Raises Problem if there is none that the viewer may see."""
    found = find_run_records(viewer.settings.audit.directory, id_, limit=MAX_RECORDS)
    past = describe_run(found.run, found.records, is_cut=found.is_cut) if found.run else None
    own = viewer.find_recorded_actor()
    if past is None or (own is not None and past.run.actor != own):
        raise Problem(NOT_FOUND, f"The record has no run {id_[:64]!r}.")
    return past


def _find_shown(viewer: Viewer, id_: str) -> _Shown:
    past = _find_run(viewer, id_)
    terms = Terms(viewer.settings, viewer.workspace, viewer.opened.programs.executables)
    refused = [call.facts for call in past.calls if call.is_refused]
    if past.run.status == "denied":
        refused.append(past.facts)
    remedies: dict[tuple[str, str, str], Remedy] = {}
    for facts in refused:
        key = read_text(facts, "kind"), read_text(facts, "name"), read_text(facts, "rule")
        if key not in remedies and (remedy := terms.suggest_remedy(facts)) is not None:
            # Rules are the owner's. A user of a server sees the reasons, as in the outcome.
            remedies[key] = remedy if viewer.is_owner else remedy._replace(present="", wanted="")
    return _Shown(
        past, terms.list_limits(past), remedies, write_command(past, viewer.name), _find_kept(viewer, past)
    )


def _find_kept(viewer: Viewer, past: PastRun) -> _Kept:
    recording, why = _find_recording(viewer, past)
    try:
        found = _try_stores(viewer, past, lambda settings: _read_output(viewer, settings, past))
    except ArtifactError as error:
        return _Kept(recording, why, (), (), f"{error}.")
    if found is not None:
        return _Kept(recording, why, *found, "")
    has_output = bool(read_text(past.facts, "artifact"))
    missing = "The stored output has expired (artifacts.ttl_hours), or was deleted." if has_output else ""
    return _Kept(recording, why, (), (), missing)


def _find_recording(viewer: Viewer, past: PastRun) -> "tuple[RecordedRun | None, str]":
    """Return the recording of a run, or why there is none."""
    from paddock.gate.replay.recordings import read_recording

    sha256 = read_text(past.facts, "recording_sha256")
    if not sha256:
        return None, ""
    try:
        return _try_stores(viewer, past, lambda settings: read_recording(settings, past.run.id, sha256)), ""
    except (RecordingError, VaultError) as error:
        return None, f"{error}."


def _read_output(
    viewer: Viewer, settings: "Settings", past: PastRun
) -> tuple[tuple[StoredText, ...], tuple[StoredFile, ...]] | None:
    artifacts = _open_artifacts(viewer, settings)
    stored = list_stored(artifacts, past)
    if not stored:
        return None
    texts = tuple(text for each in stored if not each.path for text in _read_texts(artifacts, each))
    return texts, tuple(each for each in stored if each.path)


def _read_texts(artifacts: "Artifacts", stored: StoredFile) -> Iterator[StoredText]:
    streams: tuple[tuple[Stream, int], ...] = (("stdout", stored.size), ("stderr", stored.stderr_size))
    for stream, size in streams:
        if size:
            try:
                text = artifacts.read(stored.handle, None, stream).decode("utf-8", "replace")
            except ArtifactError as error:
                text = f"{error}. Save it instead."
            yield StoredText(stored.handle, stream, text, size)


def _open_artifacts(viewer: Viewer, settings: "Settings") -> "Artifacts":
    from paddock.gate.stored_output import open_artifacts
    from paddock.policy.redaction.scanner import Scanner
    from paddock.policy.settings.schema import RedactionSettings

    # The owner of a server has stores like a user. The settings have those of the command line.
    if not viewer.is_owner:
        return viewer.opened.output.artifacts()
    return open_artifacts(settings, Scanner(RedactionSettings(enabled=False)))  # it only reads


def _try_stores(viewer: Viewer, past: PastRun, read: "Callable[[Settings], _T | None]") -> _T | None:
    """Return what `read` finds in the viewer's stores, or, for the owner, in those of the run's actor on a server.

    Raises what `read` raises for the first ones, if it finds nothing.
    """
    from paddock.surfaces.tenants.narrowing import find_user_stores

    problem: Exception | None = None
    for is_other in (False, True) if viewer.is_owner else (False,):
        try:
            found = read(find_user_stores(viewer.settings, past.run.actor) if is_other else viewer.settings)
        except (ArtifactError, RecordingError, VaultError) as error:
            problem = problem or error
        else:
            if found is not None:
                return found
    if problem is not None:
        raise problem
    return None


def _number_lines(source: str) -> list[tuple[int, str]]:
    return list(enumerate(source.split("\n"), 1))


def _write_json(value: object) -> str:
    return dumps(value, indent=2, ensure_ascii=False)


ROUTES = (
    Route("/runs/{id}", show_run),
    Route("/runs/{id}/output/{handle}/{stream}", send_output),
    Route("/runs/{id}/files/{handle}", send_file),
)
