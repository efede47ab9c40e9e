"""A program that replaces what the glue uses: it may hurt itself and nobody else, and never learns the glue's secrets."""

import pytest

# What is poisoned, then a life as usual. The glue took everything before, so usual life goes on.
POISON = {
    "methods of arrays": "for (const k of ['push', 'pop', 'join', 'splice', 'slice', 'concat', 'map', 'forEach', 'indexOf']) Array.prototype[k] = evil;",
    "the iteration of arrays": "Array.prototype[Symbol.iterator] = evil; Array.prototype.values = evil; Array.prototype.entries = evil;",
    "the iterator of arrays": "Object.getPrototypeOf([][Symbol.iterator]()).next = evil;",
    "the constructor of arrays": "Array.prototype.constructor = { get [Symbol.species]() { evil() } };",
    "methods of promises": "for (const k of ['then', 'catch', 'finally']) Promise.prototype[k] = evil;",
    "the species of promises": "Object.defineProperty(Promise, Symbol.species, { get: evil });",
    "Promise itself": "Promise.resolve = evil; Promise.reject = evil; Promise = evil;",
    "methods of maps": "for (const k of ['get', 'set', 'delete', 'has', 'clear']) Map.prototype[k] = evil; Map = evil;",
    "methods of strings": "for (const k of ['charCodeAt', 'slice', 'indexOf', 'toString', 'valueOf', 'split']) String.prototype[k] = evil; String.fromCharCode = evil;",
    "regular expressions": "RegExp.prototype.exec = evil; RegExp.prototype.test = evil; RegExp.prototype[Symbol.match] = evil;",
    "Reflect": "for (const k of Reflect.ownKeys(Reflect)) if (typeof k === 'string') Reflect[k] = evil;",
    "JSON": "JSON.stringify = evil; JSON.parse = evil; JSON = { parse: evil, stringify: evil };",
    "Date": "Date.now = evil; Date = evil;",
    "Math": "Math.min = evil; Math = undefined;",
    "Object": "for (const k of ['freeze', 'seal', 'keys', 'create', 'defineProperty', 'getPrototypeOf']) Object[k] = evil;",
    "methods of objects": "for (const k of ['toString', 'valueOf', 'hasOwnProperty', 'isPrototypeOf']) Object.prototype[k] = evil;",
    "Error": "Error.captureStackTrace = evil; Error.prototype.toString = evil; Error.stackTraceLimit = evil; Error = evil; TypeError = evil;",
    "typed arrays": "const P = Object.getPrototypeOf(Uint16Array.prototype); for (const k of ['set', 'subarray', 'fill', 'slice']) P[k] = evil; P[Symbol.iterator] = evil;",
    "the length of typed arrays": "Object.defineProperty(Object.getPrototypeOf(Uint16Array.prototype), 'length', { get: evil });",
    "Symbol": "Symbol.prototype.toString = evil; Symbol = evil;",
    "Number": "Number.prototype.toString = evil; Number.prototype.valueOf = evil; Number = evil;",
    "the globals of the glue": "console = evil; setTimeout = evil; clearTimeout = evil; sleep = evil; servers = evil;",
    "setters for the records of the glue": "for (const k of ['id', 'due', 'callback', 'values', 'site', 'seen', 'resolve', 'reject', 'error', 'stack', 'value', 'get', 'set']) Reflect.defineProperty(Object.prototype, k, { set: evil, get: evil, configurable: true });",
}  # fmt: skip
USUAL = """
const { log } = console, { odd, nope } = servers, pause = sleep, later = setTimeout, cancel = clearTimeout;
let touched = 0;
const evil = function () { touched++; throw new RangeError('poisoned') };
%s
log('before', 1);
const echo = odd.call('echo', { text: 'x' });
const failed = nope.call('t');
let seen = '';
await echo;
try { await failed } catch (e) { seen = e.message + '/' + e.server }
cancel(later(evil, 5));
await pause(1);
log('after');
return [await echo, seen];
"""


@pytest.mark.parametrize("jit", [False, True])
@pytest.mark.parametrize("poison", POISON.values(), ids=POISON.keys())
def test_the_glue_works_in_a_poisoned_world(guest, poison, jit):
    outcome = guest.run(USUAL % poison, jit=jit)
    assert (outcome.status, outcome.error, outcome.value) == (
        "ok",
        None,
        ["x", "Unknown server: nope; known: odd, even./nope"],
    )
    assert [line.text for line in outcome.console] == ["before 1", "after"]
    assert (
        guest.value("const out = []; for (const x of [1, 2]) out.push(x); return JSON.stringify(out)")
        == "[1,2]"
    )


@pytest.mark.parametrize("poison", POISON.values(), ids=POISON.keys())
def test_an_error_is_reported_from_a_poisoned_world(guest, poison):
    source = f"const evil = () => {{ throw 1 }}; const own = new Error('mine'); {poison}; throw own"
    status, _, message = guest.failure(source)
    assert (status, message) == ("failed", "mine")


@pytest.mark.parametrize("end", ["return 1", "await null; return 1"])
def test_the_end_of_a_program_asks_no_promise_of_the_guest(guest, end):
    poison = "Object.defineProperty(Promise.prototype, 'constructor', { get() { return function () {} } });"
    assert guest.value(f"{poison} {end}") == 1


HURT = {
    "the prototype of a tool error": (
        "const E = (await servers.nope.call('t').catch((e) => e)).constructor; Object.setPrototypeOf(E.prototype, null);"
        "return await servers.nope.call('t').catch((e) => e.message)",
        "Unknown server: nope; known: odd, even.",
    ),
    "the constructor above a tool error": (
        "const E = (await servers.nope.call('t').catch((e) => e)).constructor;"
        "try { Object.setPrototypeOf(E, function () { return {} }) } catch (e) { return e.name }",
        "TypeError",
    ),
    "the promise of a call": (
        "const p = servers.odd.call('echo', { text: 'x' }); p.then = 5; p.constructor = 6; return [p.then, await servers.odd.call('echo', { text: 'y' })]",
        [5, "y"],
    ),
    "console": ("try { console.log = 1 } catch (e) { return e.name }", "TypeError"),
    "servers": (
        "const names = []; for (const f of [() => { servers.x = 1 }, () => { delete servers.x.call }, () => { servers.x.call = 1 }, () => Object.defineProperty(servers, 'y', { value: 1 }), () => Object.setPrototypeOf(servers, {})])"
        " try { f(); names.push('none') } catch (e) { names.push(e.name) } return names",
        ["TypeError"] * 5,
    ),
    "the functions of the world": (
        "return [sleep, setTimeout, clearTimeout, console.log, servers.x.call].map(Object.isFrozen)",
        [True] * 5,
    ),
}


@pytest.mark.parametrize(("source", "value"), HURT.values(), ids=HURT.keys())
def test_what_the_glue_hands_out_cannot_be_bent(guest, source, value):
    outcome = guest.run(source)
    if outcome.error is None:
        assert outcome.value == value
    else:
        assert outcome.error.name == "UnawaitedCall"


def test_a_poisoned_program_leaves_the_next_one_clean(guest):
    guest.run(
        "for (const P of [Object, Array, Function, String, Promise]) for (const k of Reflect.ownKeys(P.prototype)) try { P.prototype[k] = 1 } catch {}"
    )
    source = (
        "return [`${{}}`, [3, 1].sort().join(), 'a'.repeat(2), await Promise.resolve(1), (() => 2).call()]"
    )
    assert guest.value(source) == ["[object Object]", "1,3", "aa", 1, 2]


COMPUTED = """
const say = emit, given = read_input, evil = function () { throw new RangeError('poisoned') };
%s
say('before '); say('é'.repeat(3)); say(given()); say(1.5);
"""


@pytest.mark.parametrize("poison", POISON.values(), ids=POISON.keys())
def test_a_computation_works_in_a_poisoned_world(guest, poison):
    outcome = guest.compute(COMPUTED % poison, "x" * 70_000, output_bytes=2**20)
    assert (outcome.status, outcome.error) == ("ok", None)
    assert outcome.value == f"before ééé{'x' * 70_000}1.5"
    assert guest.compute("emit([3, 1].sort().join())").value == "1,3"


COMMON = """
const { log, table, dir, group, groupEnd, count, assert } = console;
const evil = function () { throw new RangeError('poisoned') }, pause = sleep;
const own = { structuredClone, TextEncoder, TextDecoder, atob, btoa, crypto, AbortController, EventTarget, Event, queueMicrotask, setInterval, clearInterval, performance };
const uuid = Object.getOwnPropertyDescriptor(Crypto.prototype, 'randomUUID').value, apply = Reflect.apply;
const listen = EventTarget.prototype.addEventListener, fire = EventTarget.prototype.dispatchEvent, encode = TextEncoder.prototype.encode, decode = TextDecoder.prototype.decode;
%s
table([{ a: 1 }]); log('%%s %%d', 'x', 5); group('g'); dir({ a: { b: 'c' } }); groupEnd(); count(); assert(false, 'no');
const target = new own.EventTarget(); let heard = 0;
apply(listen, target, ['x', () => { heard++ }]); apply(fire, target, [new own.Event('x')]);
const bytes = apply(encode, new own.TextEncoder(), ['é']);
const controller = new own.AbortController(); controller.abort();
const copy = own.structuredClone({ a: { b: [1] } });
let ticks = 0; const id = own.setInterval(() => { ticks++ }, 1); own.queueMicrotask(() => { ticks += 100 });
await pause(20); own.clearInterval(id);
return [heard, bytes[0], bytes[1], apply(decode, new own.TextDecoder(), [bytes]), own.atob(own.btoa('z')), copy.a.b[0], controller.signal.reason.name, ticks > 100, apply(uuid, own.crypto, []).length, own.performance.now() > 0];
"""
FURTHER_POISON = {
    "the global object": "for (const k of Object.getOwnPropertyNames(globalThis)) if (!['undefined', 'NaN', 'Infinity'].includes(k)) try { globalThis[k] = evil } catch {}",
    "the frozen global object": "Object.freeze(globalThis);",
    "the prototypes of what is common": "for (const C of [Event, EventTarget, AbortSignal, TextEncoder, TextDecoder, DOMException]) for (const k of Object.getOwnPropertyNames(C.prototype)) if (!['signal', 'reason', 'name'].includes(k)) try { Object.defineProperty(C.prototype, k, { value: evil }) } catch {}",
    "classes above others": "for (const C of [AbortSignal, CustomEvent, Performance]) Object.setPrototypeOf(C.prototype, EventTarget.prototype); try { Object.setPrototypeOf(DOMException, evil) } catch {}; try { Object.setPrototypeOf(EventTarget, evil) } catch {}",
}  # fmt: skip
EVERYTHING = {**POISON, **FURTHER_POISON}


@pytest.mark.parametrize("poison", EVERYTHING.values(), ids=EVERYTHING.keys())
def test_what_is_common_works_in_a_poisoned_world(guest, poison):
    outcome = guest.run(COMMON % poison)
    assert (outcome.status, outcome.error) == ("ok", None)
    assert outcome.value == [1, 195, 169, "é", "z", 1, "AbortError", True, 36, True]
    assert [(line.level, line.text) for line in outcome.console] == [
        ("log", "┌─────────┬───┐\n│ (index) │ a │\n├─────────┼───┤\n│ 0       │ 1 │\n└─────────┴───┘"),
        ("log", "x 5"),
        ("log", "g"),
        ("log", "  { a: { b: 'c' } }"),
        ("log", "default: 1"),
        ("warn", "Assertion failed: no"),
    ]


NESTED = "\n".join(
    [
        "{",
        *("  " * level + "a: {" for level in range(1, 201)),
        "  " * 201 + "a: [Object: Inspection interrupted prematurely. Maximum call stack size exceeded.]",
        *("  " * level + "}" for level in range(200, -1, -1)),
    ]
)
BOUNDED = {
    "a table that is larger than the budget": (
        "console.table(Array.from({ length: 3000 }, () => ({ text: 'x'.repeat(100) }))); return 1",
        [("log", "[output truncated]")],
    ),
    "groups without end": (
        "for (let i = 0; i < 1e5; i++) console.group(); console.log('x'); for (let i = 0; i < 1e5; i++) console.groupEnd(); console.log('y'); return 1",
        [("log", " " * 1000 + "x"), ("log", "y")],
    ),
    "a margin before many lines": (
        "for (let i = 0; i < 500; i++) console.group(); console.log('\\n'.repeat(1e6)); return 1",
        [("log", "[output truncated]")],
    ),
    "an object that is nested without end": (
        "let a = {}; for (let i = 0; i < 1e5; i++) a = { a }; console.dir(a, { depth: null }); return 1",
        [("log", NESTED)],
    ),
    "a copy that is nested without end": (
        "let a = {}; for (let i = 0; i < 1e5; i++) a = { a }; try { structuredClone(a) } catch (e) { console.log(e.name) } return 1",
        [("log", "RangeError")],
    ),
    "a library where the stack ends": (
        "const deep = () => { try { deep() } catch { try { URL } catch {} } }; deep(); console.log(new URL('http://a').href); return 1",
        [("log", "http://a/")],
    ),
    "what was random": (
        "const seen = new Set(); for (let i = 0; i < 100; i++) seen.add(crypto.randomUUID()); console.log(seen.size); return 1",
        [("log", "100")],
    ),
    "values that lie": (
        "const liar = new Proxy({}, { get() { throw 1 }, ownKeys() { throw 2 }, getPrototypeOf() { throw 3 } });"
        "for (const f of [() => console.dir(liar), () => console.table(liar), () => console.log('%o', liar), () => structuredClone(liar), () => crypto.getRandomValues(liar)]) try { f() } catch (e) { console.log(typeof e) } return 1",
        [("log", text) for text in ("<Inspection threw (3)>", "[value without a text form]", "<Inspection threw (3)>", "number", "object")],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("source", "lines"), BOUNDED.values(), ids=BOUNDED.keys())
def test_what_is_common_keeps_the_budgets(guest, source, lines):
    outcome = guest.run(source, output_bytes=200_000)
    assert (outcome.status, outcome.error, outcome.value) == ("ok", None, 1)
    assert [(line.level, line.text) for line in outcome.console] == lines


@pytest.mark.parametrize(
    "source",
    [
        "for (;;) setInterval(() => 0, 1e9)",
        "const kept = []; for (;;) kept.push(new TextEncoder().encode('x'.repeat(1e6)))",
        "for (let i = 0; ; i++) console.count('x'.repeat(1e6) + i)",
        "const kept = []; for (;;) kept.push(structuredClone(new ArrayBuffer(1e7)))",
    ],
)
def test_what_is_common_counts_as_memory(guest, source):
    assert guest.run(source, memory_bytes=64 * 2**20).status == "memory_limit"


def test_no_program_ends_another_by_its_intervals(guest):
    source = "for (let i = 0; i < 1e4; i++) setInterval(() => 0, 0); await new Promise(() => 0)"
    assert guest.run(source, timeout_ms=500).status == "timeout"
    assert guest.value("1") == 1
