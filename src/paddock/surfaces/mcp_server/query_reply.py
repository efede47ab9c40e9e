"""Render the result of a stored-output query for an agent: as much as an answer holds, and a cursor for the rest."""

from typing import Annotated, TypedDict

from paddock.model.artifact import Cursor, Excerpt, MatchStatus, OutputFound, Stream
from paddock.model.base import Json, count
from paddock.record.output.text import CUT_MARK, excerpt
from paddock.surfaces.mcp_server.replies import compact
from paddock.surfaces.rendering import answers


class StoredOutputAnswer(TypedDict, total=False):
    """The answer of `query_output`: an `OutputFound`, or the answer of a call that waited for a person."""

    artifactHandle: str
    excerpts: list[Annotated[dict[str, Json], Excerpt]]
    totalLines: int
    totalBytes: int
    searchedStreams: list[Stream]
    matchStatus: MatchStatus
    matchCount: int
    nextCursor: Annotated[dict[str, Json], Cursor, "Cursor for the next page."]
    lineCursor: Annotated[dict[str, Json], Cursor, "Cursor for the rest of the first line that was cut."]
    truncated: answers.Truncated
    status: Annotated[answers.FetchStatus, "Missing if stored output was searched."]
    result: Annotated[Json, "The data of the call that waited for a person."]
    run: answers.Run
    command: answers.Command
    message: answers.Message
    error: answers.ErrorFields


_FRAME_CHARS = 200
"""Characters that are reserved in an answer with excerpts for everything else."""


def render_found_output(found: OutputFound) -> str:
    """Return a query's result as text, with the cursors for the rest."""
    matches = count(found.match_count, "match", "matches")
    lines = [f"ok · {found.match_status} · {matches} · {count(found.total_lines, 'line')}"]
    for each in found.excerpts:
        lines += [f"--- {each.source} {each.line_start}-{each.line_end}", each.content]
    for label, place in (("more", found.next_cursor), ("the rest of a cut line", found.line_cursor)):
        if place is not None:
            lines.append(f"{label}: cursor {compact(_encode_cursor(place))}")
    return "\n".join(lines)


def fit_found_output(found: OutputFound, cap: int, *, within: int | None = None) -> OutputFound:
    """Return a query's result, shortened to `cap` characters, with a cursor for the rest.

    `within` is the character in a line after which the query began, if it continues within a line.
    """
    if len(compact(found.to_wire())) <= cap:
        return found
    room = cap - 2 * _FRAME_CHARS
    kept: list[Excerpt] = []
    for each in found.excerpts:
        room -= _FRAME_CHARS
        lines: list[str] = []
        for line in each.content.split("\n"):
            room -= len(compact(line))
            if room < 0:
                break
            lines.append(line)
        if lines:
            kept.append(excerpt(each.source, each.line_start, lines))
        if room < 0:
            break
    if not kept:
        return _cut_first_line(found, cap, within)
    last = kept[-1]
    following = Cursor(stream=last.source, after_line=last.line_end)
    return found.model_copy(update={"excerpts": tuple(kept), "next_cursor": following})


def _cut_first_line(found: OutputFound, cap: int, within: int | None) -> OutputFound:
    """Return only the beginning of the first line, which alone exceeds an answer."""
    first = found.excerpts[0]
    line = first.content.partition("\n")[0]
    room = max(cap - 3 * _FRAME_CHARS, _FRAME_CHARS)
    while len(compact(line)) > room:
        line = line[: len(line) // 2]
    after = 0 if line.startswith(CUT_MARK) else (within or 0) + len(line)
    following = Cursor(stream=first.source, after_line=first.line_start - 1, after_char=after)
    shown = excerpt(first.source, first.line_start, [line])
    return found.model_copy(update={"excerpts": (shown,), "next_cursor": following, "line_cursor": None})


def _encode_cursor(place: Cursor) -> dict[str, object]:
    return place.model_dump(by_alias=True, exclude_none=True)
