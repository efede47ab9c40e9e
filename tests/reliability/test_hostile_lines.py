"""Lines of strangers: of a server's answers, of a client's requests, of a record that somebody changed."""

import asyncio
import json
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from mcp.shared.message import SessionMessage

from paddock.confinement.sandbox.child import cgroup
from paddock.engines.servers.calls.stdio import parse_message
from paddock.record.ledger.read import read
from paddock.record.ledger.verify import verify
from paddock.record.ledger.writer import Ledger
from paddock.surfaces.mcp_server.stdio import LineReader, LineWriter

KEYS = st.sampled_from(["jsonrpc", "id", "method", "params", "result", "error", "code", "message", "2.0"])
SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(alphabet=st.characters(), max_size=9)
)
VALUES = st.recursive(
    SCALARS | KEYS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4)
)
LINES = VALUES.map(lambda value: json.dumps(value).encode()) | st.binary(max_size=40).map(
    lambda data: data.replace(b"\n", b"")
)


@given(LINES)
@example(b"[" * 100_000)
@example(b'{"jsonrpc":"2.0","id":' + b"9" * 5000 + b',"result":{}}')
@example(b'{"id":1,"error":' + b"[" * 900 + b"]" * 900 + b"}")
def test_a_line_of_a_server_is_a_message_or_passed_over(line: bytes) -> None:
    assert isinstance(parse_message(line), SessionMessage | None)


class Client:
    """Takes what the reader writes back."""

    def __init__(self) -> None:
        self.told: list[bytes] = []
        self.transport = self

    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return False

    def write(self, data: bytes) -> None:
        self.told.append(data)

    async def drain(self) -> None:
        """Follow `StreamWriter.drain`."""


@given(st.lists(LINES, max_size=4))
@example([b"[" * 100_000])
@example([b'{"jsonrpc":"2.0","id":' + b"9" * 5000 + b',"method":"x"}'])
def test_every_line_of_a_client_is_a_message_or_answered(lines: list[bytes]) -> None:
    async def main() -> None:
        stdin, client = asyncio.StreamReader(), Client()
        stdin.feed_data(b"".join(line + b"\n" for line in lines))
        stdin.feed_eof()
        reader, taken = LineReader(stdin, LineWriter(client)), 0  # pyright: ignore[reportArgumentType]
        async for message in reader:
            assert isinstance(message, SessionMessage)
            taken += 1
        assert taken + len(client.told) == sum(bool(line.strip()) for line in lines)
        codes = [json.loads(data)["error"]["code"] for data in client.told]
        assert {-32700, -32600}.issuperset(codes)

    asyncio.run(main())


@settings(max_examples=40)
@given(st.data())
def test_a_damaged_record_is_told_and_goes_on(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    directory = tmp_path_factory.mktemp("ledger")
    with Ledger(directory, clock=lambda: 1_900_000_000.0) as ledger:
        for number in range(4):
            ledger.append("decided", f"r{number}", {"name": "x"})
    [file] = directory.glob("*.ndjson")
    whole = file.read_bytes().splitlines(keepends=True)
    junk = st.sampled_from(
        [b"", b"\n", b"{}\n", b"\xff\xfe\n", b"[" * 70_000 + b"\n", b"9" * 5000 + b"\n", whole[0][:50]]
    )
    changed = data.draw(st.lists(st.sampled_from(whole) | junk, max_size=6))
    file.write_bytes(b"".join(changed))
    if data.draw(st.booleans()):
        (directory / "head").write_bytes(data.draw(st.binary(max_size=300)))
        verify(directory)  # who empties everything is not found (see the module); nothing else may happen
    else:
        assert verify(directory).ok is (changed[:4] == whole and b"\n" not in b"".join(changed[4:]))
    assert len(list(read(directory))) <= len(changed)
    with Ledger(directory, clock=lambda: 1_900_000_000.0) as ledger:
        ledger.append("decided", "after", {})
    assert next(read(directory)).request == "after"


MOUNTS = st.lists(
    st.sampled_from(["1", "/", "/sys", " ", "-", " - ", "cgroup2", "\n", "rw", "\\040"]), max_size=14
)


@given(
    MOUNTS.map("".join) | st.text(max_size=40),
    MOUNTS.map("".join) | st.sampled_from(["0::/\n", "0::/a\n", "0::\n"]),
)
def test_mounts_of_any_shape_give_a_folder_or_a_refusal(
    tmp_path_factory: pytest.TempPathFactory, mounts: str, own: str
) -> None:
    root: Any = tmp_path_factory.getbasetemp() / "root"
    (root / "proc/self").mkdir(parents=True, exist_ok=True)
    (root / "proc/self/mountinfo").write_text(mounts, encoding="utf-8")
    (root / "proc/self/cgroup").write_text(own, encoding="utf-8")
    with pytest.raises(cgroup.GroupRefusal):
        cgroup.find_delegated_folder(str(root))
