"""Files that anybody may have written or damaged: each is read, or refused in the documented way, and nothing else."""

import contextlib
import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from cryptography.fernet import Fernet
from hypothesis import given, settings
from hypothesis import strategies as st

from paddock.engines.script_tools.library import BrokenTool, ScriptTool, ToolLibrary
from paddock.engines.secrets.vault import FileVault
from paddock.engines.servers.catalog.inferred_types import InferredTypes
from paddock.engines.servers.config import HttpServer, StdioServer, load_servers
from paddock.engines.servers.pins import DefinitionChange, PinCheck, Pins, _hash_identity, memory_of
from paddock.engines.servers.result import ToolInfo, ToolResult
from paddock.gate.schedules.last_runs import LastRuns
from paddock.model.artifact import Handle, OutputQuery
from paddock.model.errors import ArtifactError, ConfigurationError, InvalidHandle, SdkError, VaultError
from paddock.policy.redaction.scanner import Scanner
from paddock.policy.settings.loader import load
from paddock.policy.settings.schema import ArtifactSettings, RedactionSettings
from paddock.record.output.artifacts import Artifacts
from paddock.record.output.query import query

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
RESULT = ToolResult({"content": [{"type": "text", "text": '{"a": [1]}'}]})
PIN_KEYS = st.sampled_from(
    ["servers", "git", "identity", "tools", "pending", "log", "hash", "definition", "name", "inputSchema"]
)
TYPE_KEYS = st.sampled_from(
    ["git", "log", "type", "properties", "required", "items", "additionalProperties", "object", "array"]
)


@st.composite
def damaged_pins(draw: st.DrawFn) -> bytes:
    """Return a file of pins of which one part is anything."""
    tool: Any = {"hash": "0", "definition": {"name": "log", "hash": "0", "characters": 1}}
    entry: Any = {"identity": _hash_identity(SERVER), "tools": {"log": tool}, "pending": {"log": {**tool}}}
    held: Any = {"file": "x", "servers": {"git": entry}}
    places = [(held, "servers"), (held["servers"], "git"), *((entry, key) for key in entry)]
    places += [(entry["tools"], "log"), (entry["pending"], "log"), (tool, "hash"), (tool, "definition")]
    node, key = draw(st.sampled_from(places))
    node[key] = draw(values(PIN_KEYS))
    return json.dumps(held).encode()


@given(json_or_bytes(PIN_KEYS) | damaged_pins())
def test_pins_are_read_or_refused(place: Path, data: bytes) -> None:
    file = memory_of(place / "pins", place / ".mcp.json") / "pins.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    acts = (
        lambda pins: list(pins.review_listing(SERVER, [LOG]).values()),
        lambda pins: list(pins.list_changes()),
        lambda pins: list(pins.approve_changes("git")),
    )
    for act in acts:
        file.write_bytes(data)
        with contextlib.suppress(ConfigurationError):
            found = act(Pins(place / "pins", place / ".mcp.json"))
            assert all(isinstance(each, PinCheck | DefinitionChange) for each in found)
            assert all(
                isinstance(each.render_diff(), str) for each in found if isinstance(each, DefinitionChange)
            )


@given(
    json_or_bytes(TYPE_KEYS)
    | values(TYPE_KEYS).map(lambda schema: json.dumps({"git": {"log": schema}}).encode())
)
def test_damaged_types_are_forgotten_and_learned_anew(place: Path, data: bytes) -> None:
    file = memory_of(place / "observed", place / ".mcp.json") / "observed.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(data)
    observed = InferredTypes(place / "observed", place / ".mcp.json")
    known = observed.type_of("git", "log")
    observed.learn_from_result(SERVER, LOG, RESULT)
    if known is None:
        assert observed.type_of("git", "log") == {
            "type": "object",
            "properties": {"a": {"type": "array", "items": {"type": "number"}}},
            "required": ["a"],
        }


@given(json_or_bytes(st.sampled_from(["s", "n"])), st.binary(max_size=50) | st.none())
def test_a_vault_is_read_or_refused(place: Path, data: bytes, key: bytes | None) -> None:
    right = Fernet.generate_key()
    (place / "key").write_bytes(right if key is None else key)
    acts = (
        lambda vault: vault.get("s", "n"),
        lambda vault: vault.names("s"),
        lambda vault: vault.set("s", "m", "x"),
        lambda vault: vault.delete("s", "n"),
    )
    for act in acts:
        (place / "secrets.fernet").write_bytes(Fernet(right).encrypt(data))
        with contextlib.suppress(VaultError):
            found = act(FileVault(place))
            assert found is None or isinstance(found, str | bool | list)


@given(st.binary(max_size=150) | st.text(alphabet="0123456789-:TZ+.W", max_size=30).map(str.encode))
def test_a_moment_is_read_or_refused(place: Path, data: bytes) -> None:
    runs = LastRuns(place / "runs", place)
    with runs.turn("often"):
        (runs.directory / "often").write_bytes(data)
    with contextlib.suppress(SdkError):
        assert isinstance(runs.last("often"), datetime)


SETTING_KEYS = st.sampled_from(
    ["policy", "rule", "effect", "tool", "artifacts", "directory", "ttl_hours", "audit", "limits", "origin"]
)
TOML = st.lists(
    st.sampled_from(["[", "]", "[[", "]]", "{", "}", "=", ",", ".", "\n", '"', "'", "#", "policy", "rule"])
    | st.sampled_from(
        ["artifacts", "directory", "~nobody-there", "9" * 5000, "0x" + "f" * 5000, "1979-05-27"]
    )
    | st.sampled_from(["\0", "\\u0000", "inf", "nan", "true", "[" * 3000, "a." * 500])
    | TEXTS,
    max_size=12,
).map(lambda parts: "".join(parts).encode("utf-8", "surrogatepass"))
TREES = st.dictionaries(SETTING_KEYS, values(SETTING_KEYS), max_size=3)


def toml(value: Any) -> str:
    """Return a JSON value as inline TOML, as far as TOML can say it."""
    match value:
        case dict():
            return "{" + ", ".join(f"{json.dumps(key)} = {toml(each)}" for key, each in value.items()) + "}"
        case list():
            return "[" + ", ".join(map(toml, value)) + "]"
        case None:
            return '""'
        case _:
            return json.dumps(value)


@given(
    TOML | TREES.map(lambda tree: "\n".join(f"{key} = {toml(each)}" for key, each in tree.items()).encode())
)
def test_settings_files_are_read_or_refused(place: Path, data: bytes) -> None:
    (place / "paddock.toml").write_bytes(data)
    for mine in ("user", "workspace"):
        with contextlib.suppress(ConfigurationError):
            load(
                place if mine == "workspace" else place / "none",
                environment={},
                system=place / "none.toml",
                user=place / "paddock.toml" if mine == "user" else place / "none.toml",
            )


@given(
    st.sampled_from(
        ["ARTIFACTS_DIRECTORY", "ARTIFACTS_TTL_HOURS", "GRANTS_SERVERS", "GRANTS_JIT", "NOTHING"]
    ),
    TEXTS | st.sampled_from(["\udc80", "~nobody-there/x", "~", "a\0b", "9" * 5000, "-9" + "0" * 17, "٣", ""]),
)
def test_variables_and_flags_are_read_or_refused(place: Path, name: str, text: str) -> None:
    key = name.lower().replace("_", ".", 1)
    for given_as in ({"environment": {f"PADDOCK_{name}": text}}, {"environment": {}, "flags": {key: text}}):
        with contextlib.suppress(ConfigurationError):
            load(place / "none", system=place / "none.toml", user=place / "none.toml", **given_as)


SERVER_KEYS = st.sampled_from(
    [
        "mcpServers",
        "a",
        "command",
        "args",
        "env",
        "cwd",
        "url",
        "headers",
        "timeoutMs",
        "lifecycle",
        "mode",
        "type",
    ]
)


@given(
    json_or_bytes(SERVER_KEYS)
    | values(SERVER_KEYS).map(lambda entry: json.dumps({"mcpServers": {"a": entry}}).encode())
    | st.dictionaries(
        SERVER_KEYS, TEXTS | st.sampled_from(["http://[", "${A}", "${A:-", "http://x:99999"])
    ).map(lambda entry: json.dumps({"mcpServers": {"a": entry}}).encode())
)
def test_a_servers_file_never_fails(place: Path, data: bytes) -> None:
    (place / ".mcp.json").write_bytes(data)
    found = load_servers(place / ".mcp.json", {"A": "\udc80"})
    assert all(isinstance(server, StdioServer | HttpServer) for server in found.servers.values())
    assert all(isinstance(text, str) for text in (*found.warnings, *map(repr, found.servers.values())))


TAGS = st.sampled_from(
    ["!!timestamp ", "!!bool ", "!!float ", "!!int ", "!!binary ", "!!set ", "!!omap ", "!x ", ""]
)
FIELDS = st.sampled_from(
    ["id", "name", "script", "timeout", "env", "execution", "schemaFile", "enabled", "workspace"]
)
SCHEMA_KEYS = st.sampled_from(
    ["type", "properties", "required", "$ref", "pattern", "items", "enum", "x", "object"]
)


@settings(max_examples=50)
@given(
    st.lists(st.tuples(FIELDS, TAGS, values(FIELDS).map(json.dumps)), max_size=4),
    st.binary(max_size=30),
    json_or_bytes(SCHEMA_KEYS),
)
def test_a_tool_is_read_or_broken(
    place: Path, fields: list[tuple[str, str, str]], junk: bytes, schema: bytes
) -> None:
    tool = place / "ws/.paddock/tools/echo"
    tool.mkdir(parents=True, exist_ok=True)
    lines = "".join(f"{name}: {tag}{value}\n" for name, tag, value in fields)
    (tool / "schema.json").write_bytes(schema)
    for text in (lines.encode(), junk, b"id: echo\nname: Echo\nscript: echo.py\n" + junk):
        (tool / "tool.yaml").write_bytes(text)
        [found] = ToolLibrary(place / "ws").all()
        assert isinstance(found, ScriptTool | BrokenTool)


HANDLE = Handle(repo="ws", epoch_ms=0, token="0" * 16)
QUESTION = OutputQuery(artifact_handle=str(HANDLE), query_terms=("x",))


@given(
    json_or_bytes(st.sampled_from(["workspace", "createdAt", "expiresAt", "stdoutSha256", "artifactId"])),
    st.binary(max_size=60),
)
def test_stored_output_is_read_or_refused(place: Path, manifest: bytes, packed: bytes) -> None:
    place_of = ArtifactSettings(directory=place / "artifacts")
    folder = place_of.directory / str(HANDLE)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "manifest.json").write_bytes(manifest)
    for stream in ("stdout", "stderr"):
        (folder / f"{stream}.gz").write_bytes(b"\x1f\x8b\x08" + packed)
    artifacts = Artifacts(place_of, Scanner(RedactionSettings()), clock=lambda: HANDLE.created)
    with contextlib.suppress(ArtifactError):
        query(artifacts, QUESTION, None)
    assert [str(handle) for handle in artifacts.list()] == [str(HANDLE)]


@given(
    st.text(max_size=60) | st.from_regex(r"runtime-[a-z/.]{1,5}-[0-9]{1,20}-[0-9a-f]{14,18}", fullmatch=True)
)
def test_a_handle_is_one_or_refused(text: str) -> None:
    with contextlib.suppress(InvalidHandle):
        handle = Handle.parse(text)
        assert str(handle) == text
        assert isinstance(handle.created, datetime)
