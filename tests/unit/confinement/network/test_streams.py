"""Copying from one stream to another: bulk traffic is spliced, and the bytes and their counts stay the same."""

import asyncio
import contextlib
import errno
import os
import socket
import stat
import struct
import threading
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.support.processes import PATIENCE_S, open_files

from paddock.confinement.network.streams import CHUNK_BYTES, ByteStream

BULK = os.urandom(1024 * 1024) * 8
MAX_PIPES = 8


@dataclass
class Copied:
    """What arrived, and what the streams counted."""

    data: bytes = b""
    read: list[int] = field(default_factory=list)
    written: list[int] = field(default_factory=list)
    pipes: list[int] = field(default_factory=list)
    """How many ends of pipes were open at each write."""

    def note_written(self, number: int) -> None:
        self.written.append(number)
        self.pipes.append(count_pipe_ends())


def count_pipe_ends() -> int:
    found = 0
    for descriptor in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):  # the descriptor of the listing itself is closed by now
            found += str(descriptor.readlink()).startswith("pipe:")
    return found


@pytest.fixture
def splices(monkeypatch) -> list[int]:
    """Return the sizes for which splice(2) is called."""
    sizes: list[int] = []
    splice = os.splice

    def note(source: int, target: int, number: int, **flags) -> int:
        sizes.append(number)
        return splice(source, target, number, **flags)

    monkeypatch.setattr(os, "splice", note)
    return sizes


def connect() -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        near = socket.create_connection(listener.getsockname(), timeout=PATIENCE_S)
        far, _ = listener.accept()
        far.settimeout(PATIENCE_S)
        return near, far


def copy(send, *, splices: bool = True, late: bool = False) -> Copied:
    """Copy what `send` sends to a client, which may read late: when some of it has been read from the source."""
    host, source = connect()
    target, client = connect()
    copied, begun = Copied(), threading.Event()

    def note_read(number: int) -> None:
        copied.read.append(number)
        begun.set()

    def receive() -> None:
        if late:
            assert begun.wait(PATIENCE_S)
        while data := client.recv(1024 * 1024):
            copied.data += data

    async def run() -> None:
        stream = ByteStream(source, note_read, lambda _number: None)
        await stream.copy_to(ByteStream(target, lambda _number: None, copied.note_written), splices=splices)

    threads = [threading.Thread(target=send, args=(host,)), threading.Thread(target=receive)]
    for thread in threads:
        thread.start()
    try:
        asyncio.run(run())
    finally:
        for each in (source, target):
            each.close()
        for thread in threads:
            thread.join()
        for each in (host, client):
            each.close()
    return copied


def send_bulk(host: socket.socket) -> None:
    host.sendall(BULK)
    host.shutdown(socket.SHUT_WR)


@pytest.mark.parametrize("late", [False, True])
def test_bulk_traffic_is_spliced_and_counted(splices, late):
    """A client that reads late lets the buffers fill: what is in the pipe then is sent, too."""
    copied = copy(send_bulk, late=late)
    assert copied.data == BULK
    assert sum(copied.read) == sum(copied.written) == len(BULK)
    assert splices


def test_without_being_asked_nothing_is_spliced(splices):
    assert copy(send_bulk, splices=False).data == BULK
    assert not splices


def test_small_messages_are_not_spliced(splices):
    def send_messages(host: socket.socket) -> None:
        for _ in range(50):
            host.sendall(b"message")
        host.shutdown(socket.SHUT_WR)

    assert copy(send_messages).data == b"message" * 50
    assert not splices


@pytest.mark.parametrize(("call", "code"), [("pipe2", errno.EMFILE), ("splice", errno.EINVAL)])
def test_where_splicing_is_impossible_bulk_traffic_is_copied(monkeypatch, call, code):
    def fail(*_arguments, **_flags):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, call, fail)
    assert copy(send_bulk).data == BULK


def test_a_reset_in_bulk_traffic_is_an_error_and_not_an_end():
    def send_and_reset(host: socket.socket) -> None:
        host.sendall(BULK)
        host.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        host.close()

    with pytest.raises(ConnectionResetError):
        copy(send_and_reset)


def test_no_descriptor_of_a_pipe_stays_open():
    copy(send_bulk)
    before = open_files()
    copy(send_bulk)
    assert open_files() == before


@pytest.fixture
def full(monkeypatch) -> list[int]:
    """Let every target take 1000 bytes from a pipe, then none; return how many each splice into a target moved."""
    moved: list[int] = []
    splice = os.splice

    def fill(source: int, target: int, number: int, **flags) -> int:
        if stat.S_ISFIFO(os.fstat(target).st_mode):
            return splice(source, target, number, **flags)
        if moved and moved[-1]:
            moved.append(0)
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        moved.append(splice(source, target, min(number, 1000), **flags))
        return moved[-1]

    monkeypatch.setattr(os, "splice", fill)
    return moved


def test_while_a_target_is_full_no_pipe_is_open(full):
    """Pipes of 1 MiB count for the user, and a program may stop reading for as long as it likes."""
    before = count_pipe_ends()
    copied = copy(send_bulk)
    assert copied.data == BULK
    assert sum(copied.read) == sum(copied.written) == len(BULK)
    assert full
    spliced = [number for number, pipes in zip(copied.written, copied.pipes, strict=True) if pipes > before]
    assert sum(spliced) == sum(full)  # all other bytes were sent without a pipe


def test_each_part_that_a_target_takes_is_counted_at_once(full):
    """Otherwise a slow reader would look idle while it reads."""
    copied = copy(send_bulk)
    taken = [number for number in full if number]
    assert taken
    assert [number for number in copied.written if number in set(taken)] == taken
    assert copied.written[copied.written.index(taken[0]) + 1] <= CHUNK_BYTES


def test_few_transfers_are_spliced_at_once_and_the_others_are_copied(splices):
    before, most = count_pipe_ends(), 0
    pairs = [(connect(), connect()) for _ in range(MAX_PIPES + 4)]
    received = [0] * len(pairs)

    def note(_number: int) -> None:
        nonlocal most
        most = max(most, count_pipe_ends() - before)

    def receive(number: int, client: socket.socket) -> None:
        while data := client.recv(1024 * 1024):
            received[number] += len(data)

    async def run() -> None:
        async with asyncio.TaskGroup() as group:
            for (_, source), (target, _) in pairs:
                stream = ByteStream(source, lambda _number: None, lambda _number: None)
                group.create_task(
                    stream.copy_to(ByteStream(target, lambda _number: None, note), splices=True)
                )

    threads = [threading.Thread(target=send_bulk, args=(host,)) for (host, _), _ in pairs] + [
        threading.Thread(target=receive, args=(number, client))
        for number, (_, (_, client)) in enumerate(pairs)
    ]
    for thread in threads:
        thread.start()
    asyncio.run(run())
    for thread in threads:
        thread.join()
    for connected in (each for pair in pairs for both in pair for each in both):
        connected.close()
    assert received == [len(BULK)] * len(pairs)
    assert 2 <= most <= 2 * MAX_PIPES


@pytest.mark.parametrize("call", ["pipe2", "splice"])
def test_failed_transfers_use_up_no_pipe(splices, monkeypatch, call):
    def fail(*_arguments, **_flags):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    def send(host: socket.socket) -> None:
        with contextlib.suppress(ConnectionError):  # the failed transfer closed its streams
            send_bulk(host)

    with monkeypatch.context() as patch:
        patch.setattr(os, call, fail)
        for _ in range(MAX_PIPES + 1):
            with contextlib.suppress(OSError):
                copy(send)
    splices.clear()
    assert copy(send_bulk).data == BULK
    assert splices
