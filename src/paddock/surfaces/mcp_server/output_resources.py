"""Stored output as resources: listed newest first, read by byte ranges, linked from results."""

import asyncio
import base64
import codecs
import re
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, cast

from mcp.shared.uri_template import UriTemplate

from paddock.model.artifact import STREAMS, Handle, Stream
from paddock.model.base import Json
from paddock.model.errors import ArtifactError
from paddock.model.session import Result
from paddock.model.work_files import OutputFile
from paddock.surfaces.rendering.images import MAX_IMAGE_BYTES, MAX_IMAGES, SHOWN_IMAGES

if TYPE_CHECKING:
    from paddock.gate.open_paddock import OpenPaddock

PAGE_ENTRIES = 100
"""Number of artifacts per page; each has up to two streams."""
MAX_RANGE_BYTES = 1024 * 1024
"""Maximum and default size of one answer, in bytes."""
_STREAM_TEMPLATE = UriTemplate.parse("paddock://artifacts/{handle}/{stream}{?start,length}")
_NUMBER_PATTERN = re.compile(r"[0-9]{1,15}", re.ASCII)
_CURSOR_PATTERN = re.compile(r"([0-9]{1,14})-([0-9a-f]{16})", re.ASCII)


class UnknownResourceError(ValueError):
    """The resource, range or page does not exist; the text says what to do."""


class StoredOutput:
    """The stored output that a workspace may read; expired output does not exist."""

    template = str(_STREAM_TEMPLATE)
    name = "output"
    description = f"Output of a run, from byte `start` on, at most {MAX_RANGE_BYTES} bytes."

    def __init__(self, opened: "OpenPaddock", workspace: Path) -> None:
        self._opened = opened
        self._workspace = workspace

    async def list_page(self, cursor: str | None) -> tuple[list[dict[str, Json]], str | None]:
        """Return one page, newest first, and the cursor of the next. Raises UnknownResourceError."""
        return await asyncio.to_thread(self._collect_page, cursor)

    async def read_contents(self, uri: str, client: str) -> dict[str, Json] | None:
        """Return the contents of a range, and note for flow rules that the client has read it."""
        if (found := _STREAM_TEMPLATE.match(uri)) is None:
            return None
        contents = await asyncio.to_thread(self._read_range, uri, cast("dict[str, str]", found))
        await self._opened.gate.note_output(
            client, str(found["handle"]), self._workspace, contents.get("text", "")
        )
        return contents

    async def list_candidates(self, argument: str, _given: Mapping[str, str]) -> Iterable[str]:
        """Return the possible values of an argument."""
        match argument:
            case "handle":
                return await asyncio.to_thread(lambda: [str(handle) for handle in self._list_handles()])
            case "stream":
                return STREAMS
            case _:
                return ()

    def _collect_page(self, cursor: str | None) -> tuple[list[dict[str, Json]], str | None]:
        place = None if cursor is None else _CURSOR_PATTERN.fullmatch(cursor)
        if cursor is not None and place is None:
            raise UnknownResourceError(f"unknown cursor {cursor[:50]!r}; leave it out to begin again")
        older = self._list_handles()
        if place is not None:
            before = (int(place[1]), place[2])
            older = [handle for handle in older if (handle.epoch_ms, handle.token) < before]
        artifacts = self._opened.output.artifacts()
        found = list(islice(artifacts.readable(self._workspace, older), PAGE_ENTRIES + 1))
        entries: list[dict[str, Json]] = []
        for artifact in found[:PAGE_ENTRIES]:
            manifest = artifact.manifest
            title = f"{manifest.runtime} ({manifest.status})" if manifest else "a run"
            sizes = {"stdout": manifest.stdout_bytes, "stderr": manifest.stderr_bytes} if manifest else {}
            when: dict[str, Json] = {"lastModified": artifact.handle.created.isoformat()}
            for stream in STREAMS:
                if sizes.get(stream, 1):  # not certainly empty
                    entry = _build_entry(str(artifact.handle), stream, title)
                    entries.append({**entry, "annotations": when})
        if len(found) <= PAGE_ENTRIES:
            return entries, None
        last = found[PAGE_ENTRIES - 1].handle
        return entries, f"{last.epoch_ms}-{last.token}"

    def _list_handles(self) -> list[Handle]:
        """Return all stored output, newest first, readable or not; normally only this workspace's."""
        return self._opened.output.artifacts().newest_handles(self._workspace)

    def _read_range(self, uri: str, asked: Mapping[str, str]) -> dict[str, Json]:
        from paddock.record.output.query import OpenArtifact, read_bytes

        stream, start = asked["stream"], _parse_number(asked, "start", 0)
        if stream not in STREAMS:
            raise UnknownResourceError(f"there is no stream {stream[:20]!r}; there are stdout and stderr")
        length = min(_parse_number(asked, "length", MAX_RANGE_BYTES), MAX_RANGE_BYTES)
        try:
            reading = OpenArtifact(self._opened.output.artifacts(), asked["handle"], self._workspace)
            data = read_bytes(reading, stream, start, length + 1)
        except ArtifactError as error:
            raise UnknownResourceError(str(error)) from None
        more = len(data) > length
        contents, taken = _build_contents(data[:length], after=start, more=more)
        meta: dict[str, Json] = {"paddock/start": start}
        if more and taken:
            handle = str(reading.found.handle)
            meta["paddock/next"] = _STREAM_TEMPLATE.expand(
                {"handle": handle, "stream": stream, "start": str(start + taken)}
            )
        return {"uri": uri, **contents, "_meta": meta}


def read_address(uri: str) -> tuple[str, str] | None:
    """Return handle and stream of a stored stream's address; None for another text."""
    found = _STREAM_TEMPLATE.match(uri) if uri.startswith("paddock:") else None
    return None if found is None else (str(found["handle"]), str(found["stream"]))


def build_links(handle: str, streams: Iterable[Stream], title: str) -> list[dict[str, Json]]:
    """Return content blocks that link to streams of an artifact."""
    return [{"type": "resource_link", **_build_entry(handle, stream, title)} for stream in streams]


def build_file_blocks(files: Iterable[OutputFile], read: Callable[[str], bytes]) -> list[dict[str, Json]]:
    """Return content blocks of stored files: images themselves, as far as they have room, and links to the others."""
    blocks: list[dict[str, Json]] = []
    images = 0
    for file in files:
        if file.handle is None:
            continue
        shown = file.media_type in SHOWN_IMAGES and file.size <= MAX_IMAGE_BYTES and images < MAX_IMAGES
        if shown:
            try:
                data = base64.b64encode(read(file.handle)).decode()
            except ArtifactError:  # it has just been deleted
                continue
            images += 1
            blocks.append({"type": "image", "data": data, "mimeType": file.media_type})
        link = {**_build_entry(file.handle, "stdout", file.path), "name": file.path, "title": file.path}
        blocks.append({"type": "resource_link", **link, "mimeType": file.media_type, "size": file.size})
    return blocks


def build_result_blocks(results: Iterable[Result]) -> list[dict[str, Json]]:
    """Return content blocks of the values that a program shows: images themselves, and links to other forms."""
    blocks: list[dict[str, Json]] = []
    images = 0
    for result in results:
        kind = result.image_type
        if kind in SHOWN_IMAGES and images < MAX_IMAGES:
            images += 1
            blocks.append({"type": "image", "data": result.data[kind], "mimeType": kind})
        for kind, handle in result.handles.items():
            if kind not in SHOWN_IMAGES:
                link = {**_build_entry(handle, "stdout", kind), "name": kind, "title": f"result as {kind}"}
                blocks.append({"type": "resource_link", **link, "mimeType": kind})
    return blocks


def _build_entry(handle: str, stream: Stream, title: str) -> dict[str, Json]:
    return {
        "uri": _STREAM_TEMPLATE.expand({"handle": handle, "stream": stream}),
        "name": f"{handle}/{stream}",
        "title": f"{stream} of {title}",
        "mimeType": "text/plain",
    }


def _parse_number(asked: Mapping[str, str], name: str, default: int) -> int:
    text = asked.get(name, "")
    if not text:
        return default
    if _NUMBER_PATTERN.fullmatch(text) is None:
        raise UnknownResourceError(f"`{name}` is a number of bytes, not {text[:20]!r}")
    return int(text)


def _build_contents(data: bytes, *, after: int, more: bool) -> tuple[dict[str, Json], int]:
    """Return bytes as text, or as base64 if they are not text; and how many bytes that covers.

    A range may begin or end within a character. The rest of an earlier character is skipped; a character that continues
    is left to the next range.
    """
    begun = 0
    while after and begun < min(3, len(data)) and data[begun] & 0xC0 == 0x80:  # continuation bytes of UTF-8
        begun += 1
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        text = decoder.decode(data[begun:], final=not more)
    except UnicodeDecodeError:
        blob = base64.b64encode(data).decode()
        return {"mimeType": "application/octet-stream", "blob": blob}, len(data)
    left = len(decoder.getstate()[0])
    return {"mimeType": "text/plain", "text": text}, len(data) - left
