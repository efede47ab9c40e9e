"""Files that anybody may have written or damaged: each is read, or refused in the documented way, and nothing else."""

import contextlib
import json
import os
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from cryptography.fernet import Fernet
from hypothesis import example, given
from hypothesis import strategies as st

from paddock.configuration import load
from paddock.hub.config import HttpServer, StdioServer, load_servers
from paddock.hub.observed import Observed
from paddock.hub.pins import Change, Pins, Standing, memory_of
from paddock.hub.result import ToolInfo, ToolResult
from paddock.model.artifact import Handle, Manifest, OutputQuery
from paddock.model.errors import ArtifactError, ConfigurationError, InvalidHandle, SdkError, VaultError
from paddock.model.settings import ArtifactSettings, RedactionSettings
from paddock.policy.redaction import Redactor
from paddock.store.artifacts import Artifacts
from paddock.store.moments import Moments
from paddock.store.query import query
from paddock.store.vault import FileVault
from paddock.tools.library import Broken, Tool, ToolLibrary

TEXTS = st.text(alphabet=st.characters(), max_size=20)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | TEXTS


def values(keys: st.SearchStrategy[str]) -> st.SearchStrategy[Any]:
    """Return JSON values whose objects often have keys that mean something."""
    return st.recursive(
        SCALARS | st.sampled_from([[], {}]),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys | TEXTS, inner, max_size=4),
        max_leaves=12,
    )


DIGITS = b"9" * 5000
DEEP = b"[" * 100_000
BYTES = st.binary(max_size=60) | st.sampled_from([DEEP, DIGITS, b"{" * 5000, b"\xff\xfe{}", b"\0", b""])


def json_or_bytes(keys: st.SearchStrategy[str]) -> st.SearchStrategy[bytes]:
    return values(keys).map(lambda value: json.dumps(value).encode()) | BYTES


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("hostile")


SERVER = StdioServer("git", "git-server")
LOG = ToolInfo("log", "Show the log.", {"type": "object"}, None, {})
PIN_KEYS = st.sampled_from(
    ["servers", "git", "identity", "tools", "pending", "log", "hash", "definition", "name", "inputSchema"]
)


@st.composite
def damaged_pins(draw: st.DrawFn) -> bytes:
    """Return a file of pins, of which one part is anything."""
    tool: Any = {"hash": "0", "definition": {"name": "log"}}
    entry: Any = {"identity": IDENTITY, "tools": {"log": tool}, "pending": {"log": tool}}
    held: Any = {"file": "x", "servers": {"git": entry}}
    node, key = draw(
        st.sampled_from(
            [
                (held, "servers"),
                (held["servers"], "git"),
                *((entry, key) for key in entry),
                (entry["tools"], "log"),
                (entry["pending"], "log"),
                (tool, "hash"),
                (tool, "definition"),
            ]
        )
    )
    node[key] = draw(values(PIN_KEYS))
    return json.dumps(held).encode()


def _identity() -> str:
    from paddock.hub.pins import _identity as identity  # noqa: PLC0415

    return identity(SERVER)


IDENTITY = _identity()


@given(json_or_bytes(PIN_KEYS) | damaged_pins())
def test_pins_are_read_or_refused(place: Path, data: bytes) -> None:
    file = memory_of(place / "pins", place / ".mcp.json") / "pins.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    for act in (
        lambda pins: list(pins.review(SERVER, [LOG]).values()),
        lambda pins: list(pins.changes()),
        lambda pins: list(pins.approve("git")),
    ):
        file.write_bytes(data)
        with contextlib.suppress(ConfigurationError):
            found = act(Pins(place / "pins", place / ".mcp.json"))
            assert all(isinstance(each, Standing | Change) for each in found)
            assert all(each.diff() for each in found if isinstance(each, Change))
