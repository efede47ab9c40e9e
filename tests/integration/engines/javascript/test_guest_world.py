"""What a program finds: exactly the allowed globals, and the fifteen protections of seed 001.

Scripts under the compat names find the list of the seeds, other programs find more.
"""

import json
import subprocess
import sys

import pytest
from tests.support.processes import PATIENCE_S

ALLOWED = [
    "JSON",
    "Math",
    "Date",
    "Array",
    "Map",
    "Set",
    "Promise",
    "Object",
    "String",
    "Number",
    "Boolean",
    "RegExp",
    "Error",
    "TypeError",
    "RangeError",
    "SyntaxError",
    "URIError",
    "parseInt",
    "parseFloat",
    "isNaN",
    "isFinite",
    "encodeURIComponent",
    "decodeURIComponent",
    "encodeURI",
    "decodeURI",
    "undefined",
    "NaN",
    "Infinity",
    "setTimeout",
    "clearTimeout",
    "console",
    "servers",
    "sleep",
    "paddock",
    "mentu",
    "Function",
    "Symbol",
    "BigInt",
    "Reflect",
    "Proxy",
    "AggregateError",
    "EvalError",
    "ReferenceError",
    "WeakMap",
    "WeakSet",
    "ArrayBuffer",
    "DataView",
    "Int8Array",
    "Uint8Array",
    "Uint8ClampedArray",
    "Int16Array",
    "Uint16Array",
    "Int32Array",
    "Uint32Array",
    "BigInt64Array",
    "BigUint64Array",
    "Float32Array",
    "Float64Array",
    "Iterator",
    "Intl",
    "eval",
]

ADDED = [
    "AbortController",
    "AbortSignal",
    "AsyncDisposableStack",
    "Crypto",
    "CustomEvent",
    "DOMException",
    "DisposableStack",
    "Event",
    "EventTarget",
    "FinalizationRegistry",
    "Float16Array",
    "Performance",
    "SubtleCrypto",
    "SuppressedError",
    "Temporal",
    "TextDecoder",
    "TextEncoder",
    "URL",
    "URLSearchParams",
    "WeakRef",
    "atob",
    "btoa",
    "clearInterval",
    "crypto",
    "escape",
    "globalThis",
    "performance",
    "queueMicrotask",
    "reportError",
    "self",
    "setInterval",
    "structuredClone",
    "unescape",
]
"""What programs have beyond the list of the seeds: ECMAScript and the common API of the web, as far as it is computation."""

KNOWN = [
    "globalThis",
    "global",
    "self",
    "window",
    "top",
    "parent",
    "frames",
    "document",
    "navigator",
    "location",
    "process",
    "require",
    "module",
    "exports",
    "Buffer",
    "fetch",
    "XMLHttpRequest",
    "WebSocket",
    "EventSource",
    "Worker",
    "SharedWorker",
    "importScripts",
    "postMessage",
    "addEventListener",
    "queueMicrotask",
    "setInterval",
    "clearInterval",
    "setImmediate",
    "clearImmediate",
    "structuredClone",
    "URL",
    "URLSearchParams",
    "TextEncoder",
    "TextDecoder",
    "Blob",
    "File",
    "FormData",
    "Headers",
    "Request",
    "Response",
    "AbortController",
    "AbortSignal",
    "Event",
    "EventTarget",
    "MessageChannel",
    "MessagePort",
    "BroadcastChannel",
    "ReadableStream",
    "crypto",
    "Crypto",
    "CryptoKey",
    "SubtleCrypto",
    "performance",
    "WebAssembly",
    "SharedArrayBuffer",
    "Atomics",
    "WeakRef",
    "FinalizationRegistry",
    "ShadowRealm",
    "Compartment",
    "Temporal",
    "DisposableStack",
    "AsyncDisposableStack",
    "SuppressedError",
    "Float16Array",
    "escape",
    "unescape",
    "print",
    "read",
    "readline",
    "load",
    "quit",
    "gc",
    "d8",
    "version",
    "__dirname",
    "__filename",
    "__paddock",
    "Deno",
    "Bun",
    "std",
    "os",
    "scriptArgs",
    "log",
    "alert",
    "prompt",
    "confirm",
    "atob",
    "btoa",
    "input",
    "vars",
    "emit",
]


def test_a_program_has_exactly_the_globals_that_are_listed(guest):
    found = guest.value("return Object.getOwnPropertyNames(globalThis).sort()")
    assert found == sorted([*ALLOWED, *ADDED])


def test_m21_the_globals_are_exactly_the_allowed_ones(guest):
    # No expression yields the global object, so its names are asked for one by one.
    names = [name for name in [*ALLOWED, *ADDED, *KNOWN] if name != "undefined"]
    probes = ", ".join(f"{name}: typeof {name}" for name in dict.fromkeys(names))
    kinds = guest.value(f"return {{ {probes} }}", raw_results=True)
    present = {name for name, kind in kinds.items() if kind != "undefined"}
    # `input` is the program's parameter; it is undefined here because none was given.
    assert present == set(ALLOWED) - {"undefined"}


READ_GLOBALS = """
import sys
from importlib.util import find_spec
from pathlib import Path
from paddock.engines.javascript.child import bootstrap, fork_server, v8
library = v8.load(Path(find_spec("py_mini_racer").origin).parent, fork_server.PROFILES[sys.argv[1]])
isolate = v8.Isolate(library)
isolate.evaluate(bootstrap.source())
print(isolate.evaluate("JSON.stringify(Reflect.ownKeys(this).map(String).sort())").decode(), flush=True)
import os
os._exit(0)
"""


@pytest.mark.parametrize("profile", ["guest", "guest-jit"])
def test_m21_the_glue_leaves_the_engine_exactly_the_allowed_globals(profile):
    command = [sys.executable, "-c", READ_GLOBALS, profile]
    found = json.loads(subprocess.run(command, capture_output=True, check=True, timeout=PATIENCE_S).stdout)
    assert found == sorted({*ALLOWED, *ADDED} - {"paddock", "mentu"})  # which come with the program


@pytest.mark.parametrize(
    "expression",
    [
        "(function () { return this })()",
        "({}).__defineGetter__.call(undefined, 'x', function () { return this })",
        "({}).__lookupGetter__.call(undefined, 'x')",
        "(() => this)()",
        "Reflect.apply(function () { return this }, undefined, [])",
        "[1].map(function () { return this })[0]",
        "new Proxy(function () {}, { apply(t, self) { return self } })()",
        "'x'.replace(/x/, function () { return typeof this })  === 'undefined' ? undefined : 1",
        "JSON.parse('1', function () { return typeof this.process }) === 'undefined' ? undefined : 1",
        "await new Promise(r => setTimeout(function () { r(this) }, 0))",
        "(class { static x = (() => { try { return super.constructor.constructor } catch { return this } })() }).x('') ",
    ],
)
def test_the_global_object_is_out_of_reach(guest, expression):
    source = f"try {{ return typeof ({expression}) }} catch (e) {{ return e.name }}"
    assert guest.value(source, raw_results=True) in {"undefined", "EvalError", "TypeError"}


PROTECTIONS = {
    "1 Object.prototype is sealed": (
        "return [Object.isSealed(Object.prototype), Reflect.set(Object.prototype, 'x', 1), ({}).x === undefined]",
        [True, False, True],
    ),
    "2 Array.prototype is sealed": (
        "return [Object.isSealed(Array.prototype), Reflect.set(Array.prototype, 'x', 1), [].x === undefined]",
        [True, False, True],
    ),
    "3 Function.prototype is frozen": (
        "const p = Object.getPrototypeOf(() => 0); try { p.call = 1 } catch (e) {"
        " return [Object.isFrozen(p), e.message, Reflect.defineProperty(p, 'call', { value: 1 })] }",
        [True, "Cannot assign to read only property 'call' of a frozen prototype", False],
    ),
    "4 the prototype of async functions is frozen": (
        "const p = Object.getPrototypeOf(async () => 0); return [Object.isFrozen(p), Reflect.set(p, 'x', 1)]",
        [True, False],
    ),
    "5 the prototypes of generators are frozen": (
        "return [function* () {}, async function* () {}].map(Object.getPrototypeOf).map(Object.isFrozen)",
        [True, True],
    ),
    "6 eval is disabled": ("try { eval('1') } catch (e) { return e instanceof EvalError }", True),
    "7 new Function is disabled": (
        "const makers = [() => 0, async () => 0, function* () {}, async function* () {}].map((f) => f.constructor);"
        "return makers.map((Maker) => { try { new Maker('1') } catch (e) { return e.name } })",
        ["EvalError"] * 4,
    ),
    "8 no require": ("return typeof require", "undefined"),
    "9 no process, fs, Buffer, fetch, global, globalThis": (
        "return [typeof process, typeof fs, typeof Buffer, typeof fetch, typeof global, typeof globalThis]",
        ["undefined"] * 6,
    ),
    "10 no __dirname, __filename": ("return [typeof __dirname, typeof __filename]", ["undefined"] * 2),
    "11 no SharedArrayBuffer": ("return typeof SharedArrayBuffer", "undefined"),
    "12 no WebAssembly": ("return typeof WebAssembly", "undefined"),
    "13 no way up the chain of __proto__": (
        "const up = (o) => { const seen = []; for (; o; o = Object.getPrototypeOf(o)) seen.push(o); return seen };"
        "return [console, servers, paddock, paddock.vars].map((o) => up(o).length)",
        [1, 1, 1, 1],
    ),
    "14 strict mode": (
        "const r = []; try { undeclared = 1 } catch (e) { r.push(e.name) }"
        "try { (function () { return arguments.callee })() } catch (e) { r.push(e.name) }"
        "try { (function f() { return f.caller })() } catch (e) { r.push(e.name) }"
        "return [...r, (function () { return this === undefined })()]",
        ["ReferenceError", "TypeError", "TypeError", True],
    ),
    "15 Error.prepareStackTrace is out of use": (
        "let called = 0; Error.prepareStackTrace = () => { called++ };"
        "const d = Reflect.defineProperty(Error, 'prepareStackTrace', { value: () => { called++ } });"
        "new Error('x').stack; return [d, called, Error.prepareStackTrace === undefined]",
        [False, 0, True],
    ),
}


@pytest.mark.parametrize(("source", "expected"), PROTECTIONS.values(), ids=PROTECTIONS.keys())
def test_the_fifteen_protections(guest, source, expected):
    assert guest.value(source, raw_results=True) == expected


@pytest.mark.parametrize(
    ("source", "expected"),
    [protection for name, protection in PROTECTIONS.items() if not name.startswith("9 ")],
    ids=[name for name in PROTECTIONS if not name.startswith("9 ")],
)
def test_programs_keep_the_protections_except_that_against_global_names(guest, source, expected):
    assert guest.value(source) == expected


@pytest.mark.parametrize(
    "source", ["import('fs')", "import.meta.url", "import fs from 'fs'; fs", "import 'fs'"]
)
def test_protection_8_no_import(guest, source):
    status, name, message = guest.failure(source)
    assert (status, name) == ("failed", "SyntaxError")
    assert message.startswith("import is not available")
