"""Change sets as resources, when their store cannot be used."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.support.change_sets import open_no_sink

from paddock.gate.change_sets import ChangeSets
from paddock.policy.settings.overlay import OverlaySettings
from paddock.policy.settings.schema import Settings
from paddock.surfaces.mcp_server.change_resources import ChangeDifferences
from paddock.surfaces.mcp_server.output_resources import UnknownResourceError


def test_a_client_sees_no_path_of_a_store_that_cannot_be_read(tmp_path: Path) -> None:
    store = tmp_path / "store"
    store.mkdir()
    store.chmod(0o777)
    sets = ChangeSets(Settings(overlay=OverlaySettings(directory=store)), str, open_no_sink)
    opened = SimpleNamespace(changes=sets, gate=SimpleNamespace(note_changes=None))
    differences = ChangeDifferences(cast("Any", opened), tmp_path / "workspace")
    with pytest.raises(UnknownResourceError) as caught:
        asyncio.run(differences.read_contents(f"paddock://changes/changes-{'0' * 32}", "client"))
    assert str(tmp_path) not in str(caught.value)
    assert asyncio.run(differences.list_candidates("id", {})) == ()
