"""`/sessions`: the open sessions of all processes of this user, their files, and the button that closes one."""

import base64
import binascii
import csv
from io import StringIO
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from paddock.gate.live_runs.reader import LiveRuns
from paddock.gate.past_runs.stored import sniff_image
from paddock.model.errors import PaddockError
from paddock.model.live_runs import ContentNow, SessionNow
from paddock.surfaces.http_server.problems import NOT_FOUND, Problem
from paddock.surfaces.web.inert import send_file_to_show
from paddock.surfaces.web.pages.now import find_live_runs
from paddock.surfaces.web.render import render
from paddock.surfaces.web.request import find_form, go_to

_MAX_ROWS, _MAX_COLUMNS, _MAX_CELL_CHARS = 200, 50, 200
"""Maximum part of a CSV file that is shown as a table."""
_SHOWN_CHARS = 100_000
_TABLES = {".csv": ",", ".tsv": "\t"}
"""Suffixes of files that are shown as tables, with what separates their cells."""


class Place(NamedTuple):
    """A session and the workspace of its process."""

    session: SessionNow
    workspace: str


class TextTable(NamedTuple):
    """A text with rows of cells."""

    header: list[str]
    rows: list[list[str]]
    omitted: bool
    """Whether there is more."""


async def show_sessions(request: Request) -> Response:
    """Show the open sessions."""
    state = await find_live_runs(request).list_all()
    places = [Place(session, each.workspace) for each in state.paddocks for session in each.sessions]
    return render(request, "sessions.html", places=places, problems=state.problems)


async def show_session(request: Request) -> Response:
    """Show a session with its files."""
    live = find_live_runs(request)
    session = await _find_session(live, request.path_params["name"])
    try:
        found = await live.list_files(session.name)
    except PaddockError as error:
        raise Problem(NOT_FOUND, f"{error}.") from None
    return render(request, "session.html", session=session, found=found)


async def show_file(request: Request) -> Response:
    """Show the content of a file of a session."""
    name, path, content = await _read_content(request)
    table, data = None, _read_data(content)
    if content.text is not None:
        separator = next((each for suffix, each in _TABLES.items() if path.lower().endswith(suffix)), None)
        table = None if separator is None else read_table(content.text, separator)
    return render(
        request,
        "session_file.html",
        name=name,
        file_path=path,
        text=content.text,
        shown_chars=_SHOWN_CHARS,
        table=table,
        size=len(data),
        is_image=sniff_image(data) is not None,
    )


async def send_file(request: Request) -> Response:
    """Send a file of a session: an image to show, anything else to save."""
    _, path, content = await _read_content(request)
    return send_file_to_show(_read_data(content), path.rpartition("/")[2])


async def close_session(request: Request) -> Response:
    """Close a session. One that has ended meanwhile needs no more."""
    await find_live_runs(request).close_session(find_form(request).get("session", ""))
    return go_to(request, "/sessions")


def read_table(text: str, separator: str) -> TextTable | None:
    """Return the beginning of a text with separated cells (RFC 4180) as a table; None for a text that is none."""
    rows: list[list[str]] = []
    omitted = False
    try:
        for row in csv.reader(StringIO(text), delimiter=separator):
            if len(rows) > _MAX_ROWS:
                omitted = True
                break
            rows.append([cell[:_MAX_CELL_CHARS] for cell in row[:_MAX_COLUMNS]])
            omitted = omitted or len(row) > _MAX_COLUMNS or any(len(cell) > _MAX_CELL_CHARS for cell in row)
    except csv.Error:
        return None
    rows = [row for row in rows if row]
    return TextTable(rows[0], rows[1:], omitted) if rows else None


async def _find_session(live: LiveRuns, name: str) -> SessionNow:
    """Return an open session of the viewer. Raises Problem."""
    found = next((each for each in (await live.list_all()).sessions if each.name == name), None)
    if found is None:
        raise Problem(NOT_FOUND, "This session has ended, or is another user's.")
    return found


async def _read_content(request: Request) -> tuple[str, str, ContentNow]:
    """Return the name of a session, the path of its file, and the content. Raises Problem."""
    name, path = request.path_params["name"], request.query_params.get("path", "")
    try:
        return name, path, await find_live_runs(request).read_file(name, path)
    except PaddockError as error:
        raise Problem(NOT_FOUND, f"The file cannot be shown: {error}.") from None


def _read_data(content: ContentNow) -> bytes:
    """Return the bytes of a file. Raises Problem for an answer that has none."""
    if content.text is not None:
        return content.text.encode("utf-8", "replace")
    try:
        return base64.b64decode(content.data, validate=True)
    except binascii.Error:
        raise Problem(NOT_FOUND, "The file cannot be shown.") from None


ROUTES = (
    Route("/sessions", show_sessions),
    Route("/sessions/close", close_session, methods=["POST"]),
    Route("/sessions/{name}", show_session),
    Route("/sessions/{name}/file", show_file),
    Route("/sessions/{name}/content", send_file),
)
