"""The process that reads programs: parsers and the TypeScript compiler in a locked V8, away from programs and parent.

It parses what nobody has reviewed, so it is confined like a guest, with two differences: it lives on, for it runs only
our own vendored code, and it may make memory executable, for the compiler is WebAssembly. One request at a time: a
frame with the JSON that intake.js takes, a frame with its answer. Only the standard library may be imported here.
"""

import json
import os
import resource
import signal
import socket
import sys
from pathlib import Path

from paddock.confine import lockdown
from paddock.guest import v8
from paddock.guest.worker import Channel, data_segment

SCRIPTS = ("vendor/acorn.js", "module_words.js", "intake.js")
TYPESCRIPT_SCRIPTS = ("vendor/swc.js", "typescript.js")
TYPESCRIPT_WASM = "vendor/swc.wasm"
_PROFILE = "guest-jit"
_FLAGS = ("--single-threaded",)
_MEMORY = 768 << 20


class Reader:
    """The vendored parsers in one isolate."""

    def __init__(self, isolate: v8.Isolate, sources: dict[str, bytes]) -> None:
        self._isolate = isolate
        for name in SCRIPTS:
            isolate.evaluate(sources[name].decode())
        # Evaluated at the first program that needs them: JavaScript alone never pays for TypeScript.
        self._typescript = [sources[name].decode() for name in TYPESCRIPT_SCRIPTS]
        self._wasm = sources[TYPESCRIPT_WASM]

    def read(self, request: str) -> bytes:
        """Return intake's answer to a request."""
        call = f"intake({json.dumps(request)})"
        answer = self._isolate.evaluate(call)
        if self._typescript and isinstance(answer, bytes) and json.loads(answer).get("needs") == "typescript":
            self._load_typescript()
            answer = self._isolate.evaluate(call)
        assert isinstance(answer, bytes)
        return answer

    def _load_typescript(self) -> None:
        for source in self._typescript:
            self._isolate.evaluate(source)
        self._typescript = []
        memory = self._isolate.evaluate(f"globalThis.wasm = new ArrayBuffer({len(self._wasm)}); wasm")
        assert isinstance(memory, memoryview)
        memory[:] = self._wasm
        self._isolate.evaluate("loadTypeScript(wasm); delete globalThis.wasm; undefined")


def main() -> None:
    """Serve: `python -I -S -c ... SOCKET_FD LIBRARY_DIRECTORY`."""
    connection, library_directory = sys.argv[1:]
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    channel = Channel(socket.socket(fileno=int(connection)))
    try:
        rules = lockdown.prepare(_PROFILE)
        library = v8.load(Path(library_directory), _FLAGS)
        status = os.open("/proc/self/status", os.O_RDONLY)
        directory = Path(__file__).parent
        sources = {name: (directory / name).read_bytes() for name in (*SCRIPTS, *TYPESCRIPT_SCRIPTS, TYPESCRIPT_WASM)}
        lockdown.close_all_but(int(connection), status)
        lockdown.shed(rules)
        reader = Reader(v8.Isolate(library), sources)
        lockdown.seal(rules)
        ceiling = data_segment(status) + _MEMORY
        resource.setrlimit(resource.RLIMIT_DATA, (ceiling, ceiling))
    except OSError as error:
        channel.send(json.dumps({"failed": str(error)}).encode())
        sys.exit(1)
    channel.send(b'{"ready": true}')
    while True:
        request = channel.receive()
        assert request is not None
        channel.send(reader.read(request.decode()))
