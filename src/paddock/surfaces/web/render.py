"""HTML of values. Every value is escaped; `visible` also shows characters that would hide or reorder a text."""

import shlex
import unicodedata
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse

from paddock._version import __version__
from paddock.model.invisible import replace_invisible
from paddock.model.texts import cut_middle
from paddock.surfaces.web.request import LOGIN_KEY, VIEWER_KEY, WAITING_KEY

if TYPE_CHECKING:
    from paddock.surfaces.http_server.asgi import Scope
    from paddock.surfaces.http_server.problems import Problem

MAX_TEXT_CHARS = 100_000
"""Maximum length of one text of a program on a page, in characters. A longer one loses its middle."""
NAVIGATION = (
    ("/", "Now"),
    ("/approvals", "Approvals"),
    ("/runs", "Runs"),
    ("/sessions", "Sessions"),
    ("/changes", "Changes"),
    ("/servers", "Servers"),
    ("/policy", "Policy"),
    ("/record", "Record"),
    ("/doctor", "Doctor"),
)
"""Path and name of each page, in the order of the navigation."""
MAX_MARKS = 6
"""Maximum number of combining marks on one character. More of them cover the lines around it."""
_UNSEEN_CATEGORIES = frozenset({"Cc", "Cs", "Co", "Cn"})
_MARK_CATEGORIES = frozenset({"Mn", "Me"})
_CONTROLS = {number: f"\\x{number:02x}" for number in (*range(0x20), 0x7F) if chr(number) not in "\n\t"}


def show_visible(text: object, max_chars: int = MAX_TEXT_CHARS) -> str:
    r"""Return a text of a program for display.

    Control characters are spelled `\x1b`, characters that hide or reorder a text `\u202e`, as well as combining marks
    beyond `MAX_MARKS` on one character. Line ends stay, and a text in a script from right to left stays readable,
    because the page isolates it (`<bdi>`).
    """
    cut = cut_middle(str(text), max_chars)
    if cut.isascii():
        return cut.translate(_CONTROLS)
    return "".join(_show_characters(replace_invisible(cut, _spell)))


def _show_characters(text: str) -> Iterator[str]:
    marks = 0
    for character in text:
        category = unicodedata.category(character)
        marks = marks + 1 if category in _MARK_CATEGORIES else 0
        if character in "\n\t" or (category not in _UNSEEN_CATEGORIES and marks <= MAX_MARKS):
            yield character
        else:
            yield _spell(character)


def _spell(character: str) -> str:
    number = ord(character)
    if number <= 0xFF:
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number <= 0xFFFF else f"\\U{number:08x}"


def show_duration(ms: float | None) -> str:
    """Return a time span in milliseconds for display; a dash for none."""
    if ms is None:
        return "–"  # noqa: RUF001 - a dash
    if ms < 999.5:
        return f"{ms:.0f} ms"
    seconds = ms / 1000
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if minutes else f"{hours} h"


def show_size(size: float | None) -> str:
    """Return a number of bytes for display; a dash for none."""
    if size is None:
        return "–"  # noqa: RUF001 - a dash
    if size < 1000:
        return f"{size:.0f} B"
    for unit in ("kB", "MB", "GB"):
        size /= 1000
        if size < 1000 or unit == "GB":
            return f"{size:.1f} {unit}"
    raise AssertionError


def show_moment(moment: str | float | datetime) -> str:
    """Return a moment (ISO 8601, or seconds since the epoch) for display: date and time in UTC, to the second."""
    match moment:
        case str():
            return moment.replace("T", " ")[:19]
        case datetime():
            return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")
        case _:
            return show_moment(datetime.fromtimestamp(moment, UTC))


@cache
def open_environment() -> Environment:
    """Return the templates of the pages."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters = {
        "visible": show_visible,
        "shell": shlex.quote,
        "duration": show_duration,
        "size": show_size,
        "moment": show_moment,
    }
    environment.filters.update(filters)
    values: dict[str, Any] = {"navigation": NAVIGATION, "version": __version__}
    environment.globals.update(values)
    return environment


def render(request: Request, template: str, *, status: int = 200, **values: object) -> HTMLResponse:
    """Return a page as an answer.

    Templates also get `viewer`, `csrf_token`, `path` and `waiting`, the number of questions that wait for the viewer.
    `viewer` is None before the login.
    """
    return HTMLResponse(_render(request.scope, template, values), status)


def render_part(request: Request, template: str, **values: object) -> str:
    """Return a part of a page, for an event of a live page."""
    return _render(request.scope, template, values)


def respond_problem(scope: "Scope", problem: "Problem") -> HTMLResponse:
    """Return the page for a problem."""
    text = _render(scope, "problem.html", {"problem": problem.document})
    return HTMLResponse(text, problem.kind.status, problem.headers)


def _render(scope: "Mapping[str, Any]", template: str, values: Mapping[str, object]) -> str:
    login, viewer = scope.get(LOGIN_KEY), scope.get(VIEWER_KEY)
    known = {
        "viewer": viewer,
        "csrf_token": "" if login is None else login.csrf_token,
        "path": scope["path"],
        "waiting": scope.get(WAITING_KEY, 0),
    }
    # A surrogate of a text would make the page impossible to encode.
    text = open_environment().get_template(template).render({**known, **values})
    return text.encode("utf-8", "replace").decode()
