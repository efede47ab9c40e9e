"""The process of the model: it reads texts of servers, and returns vectors and similarities.

It reads texts of strangers with native code, therefore it is confined as the parser of programs is: it loads the model,
gives up files and network permanently, and answers requests over its one socket. It keeps nothing from one request for
the next. Requests and answers are frames: 4 bytes of length, then

    parent -> here    "T" and JSON [name, server, description]                  -> a vector
                      "Q", 4 bytes of length, JSON [query, ...], vectors        -> similarities by query, 32 bits each
    here -> parent    first an empty frame when it is ready, or the text of what failed
"""

import json
import os
import resource
import signal
import socket
import struct
import sys
from typing import TYPE_CHECKING

from paddock.confinement.sandbox.child import lockdown
from paddock.confinement.sandbox.child.system_calls import LIBC
from paddock.model.errors import ConfigurationError
from paddock.model.texts import install_command

if TYPE_CHECKING:
    from paddock.engines.servers.catalog.sentence_model import SentenceModel

_LENGTH = struct.Struct("<I")
_MAX_MEMORY_BYTES = 256 << 20
"""Maximum data memory beyond what the loaded model takes, in bytes."""
_NICENESS = 10
"""The model never takes a processor from programs, calls and searches that want it."""


def main() -> None:
    """Serve the model: `python -I -S -c ... SOCKET_FD FOLDER...`, where the folders contain the packages."""
    number, *folders = sys.argv[1:]
    lockdown.die_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # only the parent handles Ctrl-C
    os.nice(_NICENESS)
    connection = socket.socket(fileno=int(number))
    try:
        model = _load_confined(int(number), folders)
    except ImportError as problem:
        _send(
            connection,
            f"the packages of semantic search cannot be loaded: {problem}; "
            f"run: {install_command('semantic', again=True)}".encode(),
        )
    except ConfigurationError as problem:
        _send(connection, str(problem).encode())
    except OSError as problem:
        _send(connection, f"the process of semantic search cannot be confined here: {problem}".encode())
    else:
        _send(connection, b"")
        while True:
            _send(connection, _answer(model, _receive(connection)))


def _load_confined(connection: int, folders: list[str]) -> "SentenceModel":
    """Return the model, in a process that has given up all its powers."""
    sys.path.extend(folders)
    rules = lockdown.prepare_rules("guest")
    from paddock.engines.servers.catalog.sentence_model import SentenceModel

    model = SentenceModel()
    model.embed_text("what is loaded at the first use cannot be loaded later")
    if len(os.listdir("/proc/self/task")) > 1:
        raise OSError("one of its packages has started a thread, which would keep its powers")
    if hasattr(LIBC, "malloc_trim"):  # of glibc
        LIBC.malloc_trim(0)  # loading the model leaves 75 MB of free memory behind
    ceiling = _read_data_bytes() + _MAX_MEMORY_BYTES
    lockdown.close_all_except(connection, rules.ruleset)
    lockdown.shed_powers(rules)
    lockdown.seal_process(rules)
    resource.setrlimit(resource.RLIMIT_DATA, (ceiling, ceiling))
    return model


def _answer(model: "SentenceModel", request: bytes) -> bytes:
    kind, content = request[:1], request[1:]
    if kind == b"T":
        return model.embed_tool(*json.loads(content)).tobytes()
    end = _LENGTH.size + _LENGTH.unpack_from(content)[0]
    return model.compare_texts(json.loads(content[_LENGTH.size : end]), content[end:]).tobytes()


def _receive(connection: socket.socket) -> bytes:
    """Return the next frame; exit if the parent has closed its end."""
    (length,) = _LENGTH.unpack(_read_exactly(connection, _LENGTH.size))
    return _read_exactly(connection, length)


def _read_exactly(connection: socket.socket, count: int) -> bytes:
    content = bytearray()
    while len(content) < count:
        piece = connection.recv(min(count - len(content), 1 << 20))
        if not piece:
            os._exit(0)
        content += piece
    return bytes(content)


def _send(connection: socket.socket, content: bytes) -> None:
    try:
        connection.sendall(_LENGTH.pack(len(content)) + content)
    except OSError:
        os._exit(0)


def _read_data_bytes() -> int:
    """Return the size of this process's data segment, which RLIMIT_DATA limits, in bytes."""
    with open("/proc/self/status", "rb") as file:
        return int(file.read().partition(b"\nVmData:")[2].split(None, 1)[0]) * 1024
