"""The process that reads programs: parsers and the TypeScript compiler in a locked V8, away from programs and parent.

It parses unreviewed code, so it is confined like a guest, with two differences: it lives on, for it runs only
our own vendored code, and it may make memory executable, for the compiler is WebAssembly. One request at a time: a
frame with the JSON that parse.js takes, a frame with its answer.
"""

import json
import os
import resource
import signal
import socket
import sys
import threading
from pathlib import Path

from paddock.javascript.child import v8
from paddock.javascript.child.worker import Channel, data_segment
from paddock.sandbox.child import lockdown

SCRIPTS = (
    "vendor/acorn.js",
    "module_words.js",
    "wording.js",
    "markdown.js",
    "class_features.js",
    "parse.js",
)
TYPESCRIPT_SCRIPTS = ("vendor/swc.js", "typescript.js")
TYPESCRIPT_WASM = "vendor/swc.wasm"
_NEEDS_TYPESCRIPT = b'{"ok":false,"needs":"typescript"}'
_PROFILE = "guest-jit"
_FLAGS = ("--single-threaded",)
_MAX_MEMORY_BYTES = 768 << 20


class ParserIsolate:
    """The vendored parsers in one isolate, and the dialogue with the parent, which runs on V8's thread (see v8.py)."""

    def __init__(self, isolate: v8.Isolate, sources: dict[str, bytes], channel: Channel) -> None:
        self._isolate = isolate
        self._channel = channel
        self._question = b""
        for name in SCRIPTS:
            isolate.evaluate(sources[name].decode())
        # Evaluated at the first program that needs them: JavaScript alone never pays for TypeScript.
        memory = isolate.evaluate(f"globalThis.wasm = new ArrayBuffer({len(sources[TYPESCRIPT_WASM])}); wasm")
        assert isinstance(memory, memoryview)
        memory[:] = sources[TYPESCRIPT_WASM]
        scripts = [sources[name] for name in TYPESCRIPT_SCRIPTS]
        self._typescript = b"\n".join([*scripts, b"loadTypeScript(wasm); delete globalThis.wasm; undefined"])

    def start(self) -> None:
        """Greet the parent, and from then on answer it."""
        self._isolate.on_turn = self._on_turn
        self._channel.send(b'{"ready": true}')
        self._listen()

    def _listen(self) -> None:
        request = self._channel.receive()
        assert request is not None
        self._question = b"intake(" + json.dumps(request.decode()).encode() + b")"
        self._isolate.queue_script(self._question)

    def _on_turn(self, result: object) -> None:
        if isinstance(result, v8.ScriptError):
            os.write(2, f"paddock intake: {result}\n".encode())
            os._exit(v8.EXIT_BROKEN)
        if self._typescript and isinstance(result, bytes) and result == _NEEDS_TYPESCRIPT:
            script, self._typescript = self._typescript, b""
            self._isolate.queue_script(script)
        elif isinstance(result, bytes):
            self._channel.send(result)
            self._listen()
        else:
            self._isolate.queue_script(self._question)


def main() -> None:
    """Serve: `python -I -S -c ... SOCKET_FD LIBRARY_DIRECTORY`."""
    connection, library_directory = sys.argv[1:]
    lockdown.die_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    channel = Channel(socket.socket(fileno=int(connection)))
    try:
        rules = lockdown.prepare_rules(_PROFILE, readable=("/dev/urandom",))  # V8 seeds its generator from it
        library = v8.load(Path(library_directory), _FLAGS)
        status = os.open("/proc/self/status", os.O_RDONLY)
        directory = Path(__file__).parent.parent / "js"
        sources = {
            name: (directory / name).read_bytes() for name in (*SCRIPTS, *TYPESCRIPT_SCRIPTS, TYPESCRIPT_WASM)
        }
        lockdown.close_all_except(int(connection), status, rules.ruleset)
        lockdown.shed_powers(rules)
        reader = ParserIsolate(v8.Isolate(library), sources, channel)
        lockdown.seal_process(rules)
        ceiling = data_segment(status) + _MAX_MEMORY_BYTES
        resource.setrlimit(resource.RLIMIT_DATA, (ceiling, ceiling))
    except OSError as error:
        told = f"the reader of programs cannot be confined here: {error}"
        channel.send(json.dumps({"failed": told}).encode())
        sys.exit(1)
    except v8.LoadError as error:
        channel.send(json.dumps({"failed": str(error)}).encode())
        sys.exit(1)
    reader.start()
    threading.Event().wait()
