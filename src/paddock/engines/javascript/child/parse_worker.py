"""The parser process: parsers and the TypeScript compiler in a locked V8, separate from programs and from the parent.

It reads unreviewed code, therefore it is confined as a guest is, with two differences. It serves many requests, because
it runs only our vendored code. It may make memory executable, because the compiler is WebAssembly. A request is a frame
with the JSON for parse.js, and the answer is a frame; there is one request at a time.
"""

import json
import os
import resource
import signal
import socket
import sys
import threading

from paddock.confinement.sandbox.child import lockdown
from paddock.engines.javascript.child import v8
from paddock.engines.javascript.child.bootstrap import read_script
from paddock.engines.javascript.child.worker import Channel, data_segment

SCRIPTS = (
    "vendor/acorn.js",
    "module_words.js",
    "wording.js",
    "markdown.js",
    "class_features.js",
    "session_names.js",
    "parse.js",
)
TYPESCRIPT_SCRIPTS = ("vendor/swc.js", "typescript.js")
TYPESCRIPT_WASM = "vendor/swc.wasm"
_NEEDS_TYPESCRIPT = b'{"ok":false,"needs":"typescript"}'
_PROFILE = "guest-jit"
_FLAGS = ("--single-threaded",)
_MAX_MEMORY_BYTES = 768 << 20


class ParserIsolate:
    """The vendored parsers in one isolate. Requests of the parent are served on V8's thread (see v8.py)."""

    def __init__(self, isolate: v8.Isolate, sources: dict[str, bytes], channel: Channel) -> None:
        self._isolate = isolate
        self._channel = channel
        self._question = b""
        for name in SCRIPTS:
            isolate.evaluate(sources[name].decode())
        # Evaluated at the first program that needs them, so that JavaScript does not pay for TypeScript.
        memory = isolate.evaluate(f"globalThis.wasm = new ArrayBuffer({len(sources[TYPESCRIPT_WASM])}); wasm")
        assert isinstance(memory, memoryview)
        memory[:] = sources[TYPESCRIPT_WASM]
        scripts = [sources[name] for name in TYPESCRIPT_SCRIPTS]
        self._typescript = b"\n".join([*scripts, b"loadTypeScript(wasm); delete globalThis.wasm; undefined"])

    def start(self) -> None:
        """Tell the parent that the parser is ready, and serve its requests."""
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
            os.write(2, f"paddock parser: {result}\n".encode())
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
    """Run the parser: `python -I -S -c ... SOCKET_FD LIBRARY_DIRECTORY`."""
    connection, library_directory = sys.argv[1:]
    lockdown.die_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # only the parent handles Ctrl-C
    channel = Channel(socket.socket(fileno=int(connection)))
    try:
        rules = lockdown.prepare_rules(_PROFILE, readable=("/dev/urandom",))  # V8 seeds its generator from it
        library = v8.load(library_directory, _FLAGS)
        status = os.open("/proc/self/status", os.O_RDONLY)
        sources = {name: read_script(name) for name in (*SCRIPTS, *TYPESCRIPT_SCRIPTS, TYPESCRIPT_WASM)}
        lockdown.close_all_except(int(connection), status, rules.ruleset)
        lockdown.shed_powers(rules)
        reader = ParserIsolate(v8.Isolate(library), sources, channel)
        lockdown.seal_process(rules)
        ceiling = data_segment(status) + _MAX_MEMORY_BYTES
        resource.setrlimit(resource.RLIMIT_DATA, (ceiling, ceiling))
    except OSError as error:
        message = f"the parser cannot be confined on this machine: {error}"
        channel.send(json.dumps({"failed": message}).encode())
        sys.exit(1)
    except v8.LoadError as error:
        channel.send(json.dumps({"failed": str(error)}).encode())
        sys.exit(1)
    reader.start()
    threading.Event().wait()
