"""What a program finds: exactly the allowed globals, the fifteen protections of seed 001, and ordinary JavaScript."""

import json
import subprocess
import sys

import pytest

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


def test_m21_the_globals_are_exactly_the_allowed_ones(guest):
    # No expression yields the global object, so its names are asked for one by one.
    names = [name for name in [*ALLOWED, *KNOWN] if name != "undefined"]
    probes = ", ".join(f"{name}: typeof {name}" for name in dict.fromkeys(names))
    kinds = guest.value(f"return {{ {probes} }}")
    present = {name for name, kind in kinds.items() if kind != "undefined"}
    # `input` is the program's parameter; it is undefined here because none was given.
    assert present == set(ALLOWED) - {"undefined"}


READ_GLOBALS = """
import sys
from importlib.util import find_spec
from pathlib import Path
from paddock.guest import glue, v8, zygote
library = v8.load(Path(find_spec("py_mini_racer").origin).parent, zygote.PROFILES[sys.argv[1]])
isolate = v8.Isolate(library)
isolate.evaluate(glue.source())
print(isolate.evaluate("JSON.stringify(Reflect.ownKeys(this).map(String).sort())").decode(), flush=True)
import os
os._exit(0)
"""


@pytest.mark.parametrize("profile", ["guest", "guest-jit"])
def test_m21_the_glue_leaves_the_engine_exactly_the_allowed_globals(profile):
    command = [sys.executable, "-c", READ_GLOBALS, profile]
    found = json.loads(subprocess.run(command, capture_output=True, check=True, timeout=60).stdout)
    assert found == sorted(set(ALLOWED) - {"paddock", "mentu"})  # which come with the program


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
    assert guest.value(source) in {"undefined", "EvalError", "TypeError"}


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
    assert guest.value(source) == expected


@pytest.mark.parametrize(
    "source", ["import('fs')", "import.meta.url", "import fs from 'fs'; fs", "import 'fs'"]
)
def test_protection_8_no_import(guest, source):
    status, name, message = guest.failure(source)
    assert (status, name) == ("failed", "SyntaxError")
    assert message.startswith("import is not available")


ORDINARY = {
    "own methods named like those of prototypes": (
        "const o = {}; o.toString = () => 'mine'; o.constructor = 1; o.valueOf = () => 2; o.hasOwnProperty = 3;"
        "const f = () => 0; f.toString = () => 'f'; f.call = 4; f.apply = 5; f.bind = 6;"
        "return [`${o}`, o.constructor, o + 1, o.hasOwnProperty, `${f}`, f.call, f.apply, f.bind]",
        ["mine", 1, 3, 3, "f", 4, 5, 6],
    ),
    "a name of an own object": (
        "const o = { name: 'a' }; o.name = 'b'; o.length = 3; return o",
        {"name": "b", "length": 3},
    ),
    "the constructor of a prototype": (
        "function A() {} A.prototype.constructor = A; A.prototype.toString = () => 'A';"
        "function B() {} B.prototype = Object.create(A.prototype); B.prototype.constructor = B;"
        "return [`${new B()}`, new B() instanceof A, new B().constructor === B]",
        ["A", True, True],
    ),
    "an Error subclass": (
        "class E extends Error { constructor(m) { super(m); this.name = 'E'; this.code = 7 } }"
        "try { throw new E('x') } catch (e) { return [e.name, e.message, e.code, `${e}`, e instanceof E] }",
        ["E", "x", 7, "E: x", True],
    ),
    "an error with a cause": ("return new Error('a', { cause: new TypeError('b') }).cause.message", "b"),
    "a polyfill on an own prototype": (
        "class L extends Array {} L.prototype.last = function () { return this[this.length - 1] };"
        "return L.from([1, 2, 3]).last()",
        3,
    ),
    "a replaced method of a prototype": (
        "Array.prototype.map = function () { return 'mine' }; return [1].map((x) => x)",
        "mine",
    ),
    "Object.assign": (
        "return Object.assign({}, { toString: 1, constructor: 2 }, null, 'ab')",
        {"0": "a", "1": "b", "toString": 1, "constructor": 2},
    ),
    "class fields and private members": (
        "class C { #n = 1; static #made = 0; y = 2; static { C.#made = 5 } get n() { return this.#n } inc() { this.#n++; return this }"
        " static has(o) { return #n in o } static made() { return C.#made } }"
        "return [new C().inc().n, new C().y, C.has(new C()), C.has({}), C.made()]",
        [2, 2, True, False, 5],
    ),
    "generators": (
        "function* g() { const x = yield 1; try { yield x * 2 } finally { yield 'end' } }"
        "const i = g(); return [i.next().value, i.next(4).value, i.return(9).value, [...'abc'].join('-')]",
        [1, 8, "end", "a-b-c"],
    ),
    "async iterators": (
        "async function* g() { for (let i = 0; i < 3; i++) { await sleep(0); yield i } }"
        "const out = []; for await (const x of g()) out.push(x); return out",
        [0, 1, 2],
    ),
    "tagged templates": (
        "const tag = (s, ...v) => s.raw.join('|') + v.join(','); return tag`a${1}\\n${2}c`",
        "a|\\n|c1,2",
    ),
    "Intl": (
        "return [new Intl.NumberFormat('de').format(1234.5), new Intl.PluralRules('en').select(1), 'ä'.localeCompare('b', 'de')]",
        ["1.234,5", "one", -1],
    ),
    "typed arrays": (
        "const a = Uint8Array.from([1, 2, 300]); const v = new DataView(a.buffer);"
        "return [[...a], v.getUint16(0), [...a.subarray(1)], [...new Float32Array([0.5]).map(x => x * 2)]]",
        [[1, 2, 44], 258, [2, 44], [1]],
    ),
    "destructuring": (
        "const { a, b: { c = 5, ...rest }, ...others } = { a: 1, b: { d: 2 }, e: 3 }; const [x, , y = 4, ...z] = [1, 2];"
        "return [a, c, rest, others, x, y, z]",
        [1, 5, {"d": 2}, {"e": 3}, 1, 4, []],
    ),
    "labelled loops": (
        "let n = 0; outer: for (let i = 0; i < 5; i++) { for (let j = 0; j < 5; j++) { if (j === 2) continue outer; if (i === 3) break outer; n++ } } return n",
        6,
    ),
    "JSON round trips": (
        "const o = { a: [1, null, 'x\\u2028', { b: true }], n: 1e21 }; return JSON.parse(JSON.stringify(o), (k, v) => v === 1e21 ? 'big' : v)",
        {"a": [1, None, "x\u2028", {"b": True}], "n": "big"},
    ),
    "collections": (
        "const m = new Map([[1, 'a']]), s = new Set([1, 1, 2]), k = {}, w = new WeakMap([[k, 3]]);"
        "return [[...m], [...s], w.get(k), new WeakSet([k]).has(k), Object.fromEntries(m), Object.groupBy([1, 2, 3], (x) => x % 2 ? 'odd' : 'even')]",
        [[[1, "a"]], [1, 2], 3, True, {"1": "a"}, {"odd": [1, 3], "even": [2]}],
    ),
    "BigInt": (
        "return [String(2n ** 70n), Number(10n), BigInt.asUintN(8, 257n) === 1n]",
        ["1180591620717411303424", 10, True],
    ),
    "Symbol.iterator": (
        "const o = { *[Symbol.iterator]() { yield* [1, 2] } }; return [...o, Math.max(...o), Object.keys({ [Symbol('q')]: 1 })]",
        [1, 2, 2, []],
    ),
    "Proxy and Reflect": (
        "const log = []; const p = new Proxy({}, { get: (t, k) => { log.push(k); return Reflect.get(t, k) ?? k } });"
        "return [p.a, 'b' in p, Reflect.ownKeys({ a: 1 }), log]",
        ["a", False, ["a"], ["a"]],
    ),
    "getters and setters": (
        "const o = { _x: 1, get x() { return this._x }, set x(v) { this._x = v * 2 } }; o.x = 4;"
        "Object.defineProperty(o, 'y', { get: () => 9, enumerable: true }); return o",
        {"_x": 8, "x": 8, "y": 9},
    ),
    "dates": (
        "const d = new Date(Date.UTC(2024, 1, 28)); d.setUTCDate(d.getUTCDate() + 2);"
        "return [d, d.toISOString(), (Date.parse('2024-03-01') - Date.parse('2024-02-28')) / 864e5]",
        ["2024-03-01T00:00:00.000Z", "2024-03-01T00:00:00.000Z", 2],
    ),
    "sorting": (
        "const a = [3, 1, 2]; return [a.toSorted(), a, [...a].sort((x, y) => y - x), ['b', 'a', 'C'].sort()]",
        [[1, 2, 3], [3, 1, 2], [3, 2, 1], ["C", "a", "b"]],
    ),
    "regular expressions": (
        "const m = /(?<y>\\d{4})-(?<m>\\d\\d)/u.exec('on 2024-05'); return [m.groups.y, m.index, 'aXbX'.replaceAll(/x/gi, '-'), [...'a1b2'.matchAll(/\\d/g)].map(String)]",
        ["2024", 3, "a-b-", ["1", "2"]],
    ),
    "closures and recursion": (
        "const fib = (n, memo = {}) => n in memo ? memo[n] : n < 2 ? n : (memo[n] = fib(n - 1, memo) + fib(n - 2, memo)); return fib(70)",
        190392490709135,
    ),
    "promises": (
        "const r = await Promise.allSettled([1, Promise.reject(new Error('x')), sleep(1).then(() => 2)]);"
        "return [r.map((x) => x.status), await Promise.any([Promise.reject(1), 3]), await Promise.race([sleep(50), 4]), Promise.withResolvers !== undefined]",
        [["fulfilled", "rejected", "fulfilled"], 3, 4, True],
    ),
    "optional chaining and logical assignment": (
        "const o = { a: null }; o.a ??= 1; o.b ||= 2; o.c?.d.e; return [o, o?.x?.(), 0 ?? 1]",
        [{"a": 1, "b": 2}, None, 0],
    ),
    "iterator helpers": (
        "return [1, 2, 3].values().filter((x) => x > 1).map((x) => x * 2).toArray()",
        [4, 6],
    ),
    "bind, call and apply": (
        "function f(a, b) { return [this.x, a, b] } return [f.call({ x: 1 }, 2, 3), f.apply({ x: 1 }, [2, 3]), f.bind({ x: 1 }, 2)(3)]",
        [[1, 2, 3]] * 3,
    ),
    "own globals by assignment to injected names": ("console = { log: () => 5 }; return console.log()", 5),
    "timers in order": (
        "const out = []; for (const [n, d] of [['a', 30], ['b', 10], ['c', 10], ['d', 0], ['e', -1], ['f', 20]]) setTimeout((x) => out.push(x), d, n);"
        "await sleep(60); return out",
        ["d", "e", "b", "c", "f", "a"],
    ),
}


@pytest.mark.parametrize("jit", [False, True])
@pytest.mark.parametrize(("source", "expected"), ORDINARY.values(), ids=ORDINARY.keys())
def test_ordinary_programs_work(guest, source, expected, jit):
    assert guest.value(source, jit=jit) == expected
