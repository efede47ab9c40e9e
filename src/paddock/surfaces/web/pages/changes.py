"""`/changes`: what programs changed in overlays of a workspace, to read, accept, undo or discard.

    GET  /changes                      the change sets
    GET  /changes/ID                   one of them: its paths with their differences; `?at=N` shows one path in whole
    POST /changes/ID/accept            also `undo` and `discard`: a request to the gate

The owner also sees the sets of the users of a server, whose buttons are for these users.

A path is named by its position in the set, whose ID has the digest of all paths. Where a rule asks about what a person
wants to do, a page shows that person the question. Its form repeats the hash of the question, and then the request is
sent again.
"""

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from paddock.foundation.cancellation import run_shielded
from paddock.gate.change_sets import ReviewedChange, describe_set, print_path
from paddock.model.approval import Answer, Question
from paddock.model.errors import ChangesError, ChangesNotFound
from paddock.model.ids import is_id
from paddock.model.outcome import Outcome, Status
from paddock.model.path_privacy import hide_paths
from paddock.model.request import ChangesAction, ChangeSetRun
from paddock.surfaces.http_server.problems import INVALID_REQUEST, NOT_FOUND, Problem
from paddock.surfaces.rendering import render as rendering
from paddock.surfaces.tenants.narrowing import USERS_DIRECTORY
from paddock.surfaces.web.render import render
from paddock.surfaces.web.request import (
    find_form,
    find_list,
    find_viewer,
    go_to,
    read_number,
    read_page,
)
from paddock.surfaces.web.shown_question import show_question

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from paddock.engines.changes.differ import FileDiff
    from paddock.gate.change_sets import ChangeSets
    from paddock.model.change_set import Change
    from paddock.record.changes.store import StoredChanges
    from paddock.surfaces.web.viewer import Viewer

PAGE_SETS = 100
"""Maximum number of change sets on a page."""
PAGE_PATHS = 100
"""Maximum number of paths on a page."""
_MAX_COMPARED_BYTES = 64 * 1024
"""Maximum size of a file, before and after, whose difference is shown in the list."""
_MAX_LISTED_CHARS = 30_000
"""Maximum length of all differences in the list, in characters."""
_MAX_LISTED_LINES = 600
_MAX_OPEN_LINES = 60
"""Maximum length of a difference that is not folded, in lines."""
_MAX_WHOLE_LINES = 5000
"""Maximum length of the only difference of a page, in lines."""
_DONE: "dict[ChangesAction, str]" = {"accept": "accepted", "undo": "undone", "discard": "discarded"}
_COUNTS = ("paths", "merged", "unchanged", "left")
"""Numbers in a report."""


class _Found(NamedTuple):
    """A change set, and the directory that it is in."""

    sets: "ChangeSets"
    stored: "StoredChanges"


class _Row(NamedTuple):
    """A path on the page."""

    number: int
    """Position in the set."""
    path: str
    change: "Change"
    marks: tuple[str, ...]
    can_tick: bool
    diff: "FileDiff | None"
    """None if it has a separate page."""
    is_open: bool


class _PressedButton:
    """Answers for the person who pressed a button, if they have seen the question."""

    def __init__(self, by: str, seen: str) -> None:
        """`seen` is the hash of what they were asked; empty if they were not."""
        self.question: Question | None = None
        """The question that they have not seen."""
        self._by = by
        self._seen = seen

    async def ask(self, question: Question) -> Answer:
        if question.sha256 == self._seen:
            return Answer(verdict="once", by=self._by)
        self.question = question
        return Answer(verdict="unasked", by="paddock", told="the page shows the question first")


async def show_list(request: Request) -> Response:
    """Show the change sets of a viewer, the newest first: those of the workspace, for the owner those of all."""
    viewer = find_viewer(request)

    def read() -> list[_Found]:
        viewer.opened.changes.recover(viewer.workspace)
        workspace = None if viewer.is_owner else viewer.workspace
        found = [
            _Found(sets, each) for sets in _list_readable(viewer) for each in sets.store.list_sets(workspace)
        ]
        found.sort(key=lambda each: (each.stored.change_set.ended_ns, each.stored.id), reverse=True)
        return found

    try:
        found = await asyncio.to_thread(read)
    except ChangesError as error:
        raise _explain(error, viewer) from None
    page = read_page(request)
    first = (page - 1) * PAGE_SETS
    return render(
        request,
        "changes.html",
        sets=[_describe(each, viewer) for each in found[first : first + PAGE_SETS]],
        page=page,
        has_more=len(found) > first + PAGE_SETS,
    )


async def show_set(request: Request) -> Response:
    """Show one change set."""
    return await _show_set(request, request.path_params["id"])


async def settle(request: Request) -> Response:
    """Accept, undo or discard, through the gate."""
    viewer, form = find_viewer(request), find_form(request)
    action = _read_action(request.path_params["action"])
    set_id = await _find_id(viewer, request.path_params["id"], action)
    paths: tuple[str, ...] = ()
    if action != "discard" and "whole" not in form:
        found = await _find(viewer, set_id)
        paths = _name_paths(await _review(found, viewer), find_list(request, "at"))
        if not paths:
            return await _show_set(request, set_id, problem="Tick at least one path.", status=422)
    work = ChangeSetRun(
        action=action, id=set_id, paths=paths, merge=action == "accept" and form.get("merge") == "1"
    )
    pressed = _PressedButton(f"{viewer.name} (page)", form.get("seen", ""))
    # For a user of the server, another person is asked: no person answers their own question.
    running = viewer.attach(pressed.ask if viewer.is_owner else None).settle_changes(work)
    outcome = await _until_disconnect(request, running)
    if pressed.question is not None:
        fields = [(name, form[name]) for name in ("whole", "merge") if name in form]
        fields += [("at", each) for each in find_list(request, "at")]
        question = pressed.question
        return render(
            request,
            "changes_confirm.html",
            set_id=set_id,
            action=action,
            shown=show_question(question),
            fields=[*fields, ("seen", question.sha256)],
        )
    report = cast("dict[str, Any]", outcome.value) if outcome.has_value else {}
    if not outcome.ok:
        return await _show_failure(request, set_id, outcome, report)
    counts = {name: len(report[name]) for name in _COUNTS if report.get(name)}
    return go_to(request, f"/changes/{set_id}?{urlencode({'done': action, **counts})}")


def _read_action(given: str) -> ChangesAction:
    match given:
        case "accept" | "undo" | "discard":
            return given
        case _:
            raise Problem(NOT_FOUND, "Changes are accepted, undone or discarded.")


async def _show_failure(request: Request, set_id: str, outcome: Outcome, report: dict[str, Any]) -> Response:
    error = outcome.error
    own = error is not None and error.name.startswith("Changes")
    text = error.message if error is not None and own else rendering.error_text(outcome)
    if outcome.status is Status.INVALID:
        raise Problem(NOT_FOUND, f"{hide_paths(text, find_viewer(request).workspace)}.")
    status = 403 if outcome.status is Status.DENIED else 409
    return await _show_set(
        request,
        set_id,
        problem=f"{text}." if not report.get("conflicts") else "Nothing was written, because of conflicts:",
        conflicts=report.get("conflicts", ()),
        can_merge="can_merge" in report,
        status=status,
    )


async def _show_set(
    request: Request,
    set_id: str,
    *,
    problem: str = "",
    conflicts: Sequence[dict[str, str]] = (),
    can_merge: bool = False,
    status: int = 200,
) -> Response:
    viewer = find_viewer(request)
    try:
        found = await _find(viewer, set_id)
    except Problem as missing:
        if not problem:
            raise
        raise Problem(missing.kind, problem) from None
    stored, reviewed = found.stored, await _review(found, viewer)
    page, one = read_page(request), read_number(request.query_params.get("at", ""))
    first = (page - 1) * PAGE_PATHS
    wanted = range(first, min(first + PAGE_PATHS, len(reviewed)))
    if one is not None:
        wanted = range(one, min(one + 1, len(reviewed)))
    rows = await asyncio.to_thread(_make_rows, found, reviewed, wanted, whole=one is not None)
    query = request.query_params
    done = query.get("done", "")
    counts = {name: read_number(query.get(name, "")) or 0 for name in _COUNTS}
    return render(
        request,
        "changes_one.html",
        status=status,
        stored=stored,
        about=_describe(found, viewer),
        rows=rows,
        reviewed=reviewed,
        problem=problem,
        conflicts=conflicts,
        can_merge=can_merge,
        done=_DONE.get(cast("ChangesAction", done), ""),
        counts=counts,
        left_out=[print_path(each) for each in stored.change_set.left_out],
        page=page,
        is_one=one is not None,
        has_more=one is None and len(reviewed) > first + PAGE_PATHS,
    )


def _list_readable(viewer: "Viewer") -> "Iterator[ChangeSets]":
    """Yield the directories of change sets that a viewer may read, first that of the viewer."""
    own = viewer.opened.changes
    yield own
    if not viewer.is_owner:
        return
    directory = viewer.settings.overlay.directory
    users = directory / USERS_DIRECTORY
    for each in (directory, *(sorted(users.iterdir()) if users.is_dir() else ())):
        if each != own.store.directory:
            yield own.at(each)


async def _find(viewer: "Viewer", set_id: str) -> _Found:
    """Return a set that a viewer may read. Raises Problem."""
    workspace = None if viewer.is_owner else viewer.workspace

    def find() -> _Found:
        viewer.opened.changes.recover(viewer.workspace)
        missing: ChangesNotFound | None = None
        for sets in _list_readable(viewer):
            try:
                return _Found(sets, sets.store.find(set_id, workspace))
            except ChangesNotFound as error:
                missing = missing or error
        assert missing is not None
        raise missing

    try:
        return await asyncio.to_thread(find)
    except ChangesError as error:
        raise _explain(error, viewer) from None


async def _find_id(viewer: "Viewer", given: str, action: ChangesAction) -> str:
    """Return the ID of a set of this workspace. Raises Problem."""
    try:
        return await asyncio.to_thread(viewer.opened.changes.find_id, given, viewer.workspace, action)
    except ChangesError as error:
        raise _explain(error, viewer) from None


async def _review(found: _Found, viewer: "Viewer") -> list[ReviewedChange]:
    """Return the changes of a set with what decides how they can be accepted. Raises Problem."""
    (sets, stored), workspace = found, viewer.workspace
    if stored.change_set.workspace != str(workspace):  # it is only shown; its workspace may be gone
        accepted = frozenset(stored.state.accepted)
        return [
            ReviewedChange(each, "protected" if each.protected else "", False, each.path in accepted)
            for each in stored.change_set.changes
        ]
    try:
        return await asyncio.to_thread(sets.review, stored, workspace)
    except ChangesError as error:
        raise _explain(error, viewer) from None


def _make_rows(
    found: _Found,
    reviewed: Sequence[ReviewedChange],
    wanted: Iterable[int],
    *,
    whole: bool,
) -> list[_Row]:
    """Return the rows of a page, with as many differences as it may have."""
    rows: list[_Row] = []
    chars, lines = _MAX_LISTED_CHARS, _MAX_LISTED_LINES
    tickable = {each.change.path for each in reviewed} - _list_full_directories(reviewed)
    sets, stored = found
    is_discarded = stored.state.discarded_at is not None
    for number in wanted:
        each = reviewed[number]
        diff = None
        if not is_discarded and (whole or _is_small(each.change)):
            [diff] = sets.compare_changes(stored, [each.change])
            if whole:
                diff = diff._replace(lines=diff.lines[:_MAX_WHOLE_LINES])
            else:
                chars -= sum(map(len, diff.lines))
                lines -= len(diff.lines)
                diff = diff if chars >= 0 and lines >= 0 else None
        is_open = diff is not None and (whole or len(diff.lines) <= _MAX_OPEN_LINES)
        path, marks = print_path(each.change.path), _list_marks(each)
        rows.append(_Row(number, path, each.change, marks, each.change.path in tickable, diff, is_open))
    return rows


def _is_small(change: "Change") -> bool:
    sides = (change.before, change.after)
    return all(each is None or each.size <= _MAX_COMPARED_BYTES for each in sides)


def _list_marks(each: ReviewedChange) -> tuple[str, ...]:
    marks = (
        (each.is_accepted, "accepted"),
        (bool(each.guard), each.guard),
        (each.is_hidden, "hidden"),
        (each.change.changed_meanwhile, "changed during the run"),
        (each.change.renamed_from is not None, f"from {print_path(each.change.renamed_from or '')}"),
    )
    return tuple(text for holds, text in marks if holds)


def _list_full_directories(reviewed: Sequence[ReviewedChange]) -> set[str]:
    """Return the directories without a check box: naming one would name all below it.

    What is guarded has a box in any case, because it must be named itself.
    """
    above = {
        "/".join(parts[:count])
        for parts in (each.change.path.split("/") for each in reviewed)
        for count in range(1, len(parts))
    }
    return {each.change.path for each in reviewed if each.change.path in above and not each.guard}


def _name_paths(reviewed: Sequence[ReviewedChange], ticked: Iterable[str]) -> tuple[str, ...]:
    """Return the paths for the ticked boxes, and the directories of which all is ticked. Raises Problem."""
    numbers = [read_number(each) for each in ticked]
    if any(number is None or number >= len(reviewed) for number in numbers):
        raise Problem(INVALID_REQUEST, "The form names a path that the change set does not have.")
    named = {reviewed[number].change.path for number in numbers if number is not None}
    full = _list_full_directories(reviewed)
    for folder in sorted(full, reverse=True):  # inner ones first
        below = [each.change.path for each in reviewed if each.change.path.startswith(f"{folder}/")]
        if named.issuperset(below):
            named.add(folder)
    return tuple(each.change.path for each in reviewed if each.change.path in named)


class _SetRow(NamedTuple):
    """What the page says of a change set."""

    facts: dict[str, Any]
    is_run: bool
    """Whether it is of one run, and not of a session."""
    elsewhere: str
    """The workspace, if it is not the one of this page; such a set is only shown."""
    held_by: Literal["", "owner", "user"]
    """Who else has the set: the owner at the command line, or a user of the server. Such a set is only shown."""


def _describe(found: _Found, viewer: "Viewer") -> _SetRow:
    sets, stored = found
    workspace = stored.change_set.workspace
    elsewhere = "" if workspace == str(viewer.workspace) else print_path(workspace)
    held_by: Literal["", "owner", "user"] = ""
    if sets is not viewer.opened.changes:
        held_by = "owner" if sets.store.directory == viewer.settings.overlay.directory else "user"
    return _SetRow(describe_set(stored), is_id(stored.change_set.request), elsewhere, held_by)


async def _until_disconnect(request: Request, running: "Coroutine[Any, Any, Outcome]") -> Outcome:
    """Return the outcome of a request. It ends if the browser disconnects first."""
    task = asyncio.ensure_future(running)
    leaving = asyncio.ensure_future(_await_disconnect(request))
    try:
        await asyncio.wait({task, leaving}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        leaving.cancel()
        if not task.done():
            task.cancel()
            await run_shielded(asyncio.wait({task}))
    return task.result()


async def _await_disconnect(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _explain(error: ChangesError, viewer: "Viewer") -> Problem:
    kind = NOT_FOUND if isinstance(error, ChangesNotFound) else INVALID_REQUEST
    return Problem(kind, f"{hide_paths(str(error), viewer.workspace)}.")


ROUTES = (
    Route("/changes", show_list, methods=["GET"]),
    Route("/changes/{id}", show_set, methods=["GET"]),
    Route("/changes/{id}/{action}", settle, methods=["POST"]),
)
