"""Copying from one stream to another: bulk traffic is spliced, and the bytes and their counts stay the same."""

import asyncio
import errno
import os
import socket
import struct
import threading
import time
from dataclasses import dataclass, field

import pytest
from tests.support.processes import PATIENCE_S, open_files

from paddock.confinement.network.streams import ByteStream

BULK = os.urandom(1024 * 1024) * 8


@dataclass
class Copied:
    """What arrived, and what the streams counted."""

    data: bytes = b""
    read: list[int] = field(default_factory=list)
    written: list[int] = field(default_factory=list)


@pytest.fixture
def spliced(monkeypatch) -> list[int]:
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


def copy(send, *, splices: bool = True, pause_s: float = 0) -> Copied:
    """Copy what `send` sends to a client that reads after a pause."""
    host, source = connect()
    target, client = connect()
    copied = Copied()

    def receive() -> None:
        time.sleep(pause_s)
        while data := client.recv(1024 * 1024):
            copied.data += data

    async def run() -> None:
        stream = ByteStream(source, copied.read.append, lambda _number: None)
        await stream.copy_to(ByteStream(target, lambda _number: None, copied.written.append), splices=splices)

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


@pytest.mark.parametrize("pause_s", [0, 0.2])
def test_bulk_traffic_is_spliced_and_counted(spliced, pause_s):
    """A client that reads late lets the buffers fill: what is in the pipe then is sent, too."""
    copied = copy(send_bulk, pause_s=pause_s)
    assert copied.data == BULK
    assert sum(copied.read) == sum(copied.written) == len(BULK)
    assert spliced


def test_without_being_asked_nothing_is_spliced(spliced):
    assert copy(send_bulk, splices=False).data == BULK
    assert not spliced


def test_small_messages_are_not_spliced(spliced):
    def send_slowly(host: socket.socket) -> None:
        for _ in range(50):
            host.sendall(b"message")
            time.sleep(0.001)
        host.shutdown(socket.SHUT_WR)

    assert copy(send_slowly).data == b"message" * 50
    assert not spliced


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
