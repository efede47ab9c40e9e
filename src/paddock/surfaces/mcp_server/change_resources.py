"""Change sets as resources: the difference that a program made to its overlay of the workspace."""

import asyncio
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from mcp.shared.uri_template import UriTemplate

from paddock.model.base import Json
from paddock.model.changes import ChangesSummary
from paddock.model.errors import ChangesError
from paddock.model.path_privacy import hide_paths
from paddock.surfaces.mcp_server.output_resources import MAX_RANGE_BYTES, UnknownResourceError
from paddock.surfaces.rendering.terminal import make_encodable

if TYPE_CHECKING:
    from paddock.gate.open_paddock import OpenPaddock
    from paddock.record.changes.store import StoredChanges

_TEMPLATE = UriTemplate.parse("paddock://changes/{id}")
_ID_PREFIX = "changes-"
_DIFF = "text/x-diff"


class ChangeDifferences:
    """The differences of the change sets of a workspace."""

    template = str(_TEMPLATE)
    name = "changes"
    description = "What a run with the access overlay changed, as a unified diff."

    def __init__(self, opened: "OpenPaddock", workspace: Path) -> None:
        self._changes = opened.changes
        self._note_changes = opened.gate.note_changes
        self._workspace = workspace

    async def read_contents(self, uri: str, client: str) -> dict[str, Json] | None:
        """Return the difference of a change set, and note for flow rules that the client has read it."""
        if (found := _TEMPLATE.match(uri)) is None:
            return None
        try:
            text = await self.read_text(str(found["id"]), client)
        except ChangesError as error:
            raise UnknownResourceError(str(error)) from None
        return {"uri": uri, "mimeType": _DIFF, "text": text}

    async def read_text(self, set_id: str, client: str) -> str:
        """Return the difference of a change set, and note for flow rules that the client has read it.

        Raises ChangesError.
        """
        try:
            stored, text = await asyncio.to_thread(self._render, set_id)
        except ChangesError as error:
            raise type(error)(hide_paths(str(error), self._workspace)) from None
        self._note_changes(client, stored.change_set, text)
        return make_encodable(text)

    async def list_candidates(self, argument: str, _given: Mapping[str, str]) -> Iterable[str]:
        """Return the IDs of the change sets, the newest first."""
        if argument != "id":
            return ()
        try:
            found = await asyncio.to_thread(self._changes.list_sets, self._workspace)
        except ChangesError:  # reading one reports it
            return ()
        return [stored.id for stored in found]

    def _render(self, set_id: str) -> "tuple[StoredChanges, str]":
        stored = self._changes.find(set_id, self._workspace)
        return stored, self._changes.render(stored, MAX_RANGE_BYTES)


def read_changes_id(handle: str) -> str | None:
    """Return the ID of a change set in a handle: the ID, or the address of the resource. None for other handles."""
    found = _TEMPLATE.match(handle) if handle.startswith("paddock:") else None
    set_id = handle if found is None else str(found["id"])
    return set_id if set_id.startswith(_ID_PREFIX) else None


def build_changes_links(changes: ChangesSummary | None) -> list[dict[str, Json]]:
    """Return the content block that links to the difference; none without a change set."""
    if changes is None or not changes.id:
        return []
    uri = _TEMPLATE.expand({"id": changes.id})
    return [
        {
            "type": "resource_link",
            "uri": uri,
            "name": changes.id,
            "title": "what it changed",
            "mimeType": _DIFF,
        }
    ]
