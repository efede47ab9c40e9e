"""What the glue reads of values to print, report and judge them may be a trap: each ends as a status, and fools its author alone."""

import pytest

ENDLESS = {
    "a proxy that has no end of keys": "console.log(new Proxy({}, { ownKeys() { for (;;); } }))",
    "a getter": "console.log({ get a() { for (;;); } })",
    "toString": "console.log({ toString() { for (;;); } })",
    "toJSON": "console.log([{ toJSON() { for (;;); } }])",
    "toPrimitive": "console.log({ [Symbol.toPrimitive]() { for (;;); } })",
    "the iterator of maps": "Map.prototype[Symbol.iterator] = function* () { for (;;) yield [1, 2] }; console.log(new Map())",
    "hasInstance of Map": "Object.defineProperty(Map, Symbol.hasInstance, { value() { for (;;); } }); console.log([{}])",
    "hasInstance of Error": "Object.defineProperty(Error, Symbol.hasInstance, { value() { for (;;); } }); throw new Error('x')",
    "hasInstance of Promise": "Object.defineProperty(Promise, Symbol.hasInstance, { value() { for (;;); } }); return [{}]",
    "a stack": "throw Object.defineProperty(new Error('x'), 'stack', { get() { for (;;); } })",
    "a name": "throw Object.defineProperty(new Error('x'), 'name', { get() { for (;;); } })",
    "a cause": "throw Object.defineProperty(new Error('x'), 'cause', { get() { for (;;); } })",
    "a chain of prototypes": "throw new Proxy(new Error('x'), { getPrototypeOf() { for (;;); } })",
    "a result that is read twice": "let n = 0; return { a: {}, get b() { if (n++) for (;;); return 1 } }",
    "a result that grows": "const grow = () => ({ get a() { return grow() } }); return grow()",
}


@pytest.mark.parametrize("source", ENDLESS.values(), ids=ENDLESS.keys())
def test_what_never_ends_being_read_ends_at_the_limit(guest, source):
    outcome = guest.run(source, timeout_ms=400)
    grown = "grow" in source and outcome.error.name in {"RangeError", "MemoryLimit"}
    assert outcome.status == "timeout" or grown
    assert guest.value("return 1") == 1


TRAPS = "['apply', 'construct', 'get', 'set', 'has', 'ownKeys', 'getPrototypeOf', 'getOwnPropertyDescriptor', 'defineProperty']"
EVIL = (
    "let touched = 0; const handler = {}; const evil = function () { touched++; return new Proxy(function () {}, handler) };"
    f"for (const trap of {TRAPS}) handler[trap] = evil;"
    "const trap = evil();"
)
SHOWN = {
    "printed": "console.log(trap); console.log([trap], { a: trap }, new Map([[trap, trap]]), new Set([trap]))",
    "as a cause": "console.log(new Error('x', { cause: trap }))",
    "as errors": "console.log(new AggregateError([trap, trap]))",
    "rejected": "Promise.reject(trap)",
    "in a result": "try { JSON.stringify([new Error('x', { cause: trap })]) } catch {}",
    "as the methods of errors": "Error.prototype.toJSON = trap; Error.prototype.toString = trap; console.log(new Error('x'))",
    "as hasInstance": "for (const Type of [Map, Set, Error, Promise, AggregateError]) Object.defineProperty(Type, Symbol.hasInstance, { value: trap }); console.log([{}])",
    "as a tag": "console.log({ [Symbol.toStringTag]: trap, toString: trap })",
    "as this of the glue's own toJSON": "try { Error.prototype.toJSON.call(trap) } catch {} try { Error.prototype.toJSON.call(null) } catch {}",
}


@pytest.mark.parametrize("jit", [False, True])
@pytest.mark.parametrize("source", SHOWN.values(), ids=SHOWN.keys())
def test_traps_everywhere_end_no_program(guest, source, jit):
    outcome = guest.run(f"{EVIL} {source}; return 'whole'", jit=jit)
    assert (outcome.status, outcome.error, outcome.value) == ("ok", None, "whole")


@pytest.mark.parametrize(
    "end",
    [
        "throw trap",
        "throw new Error('x', { cause: trap })",
        "throw new AggregateError([trap])",
        "return trap",
        "return [trap, {}]",
    ],
)
def test_traps_that_end_a_program_are_its_failure(guest, end):
    # What is returned is awaited: a trap for `then` never answers.
    assert guest.run(f"{EVIL} {end}").status in {"ok", "failed", "timeout"}
    assert guest.value("return 1") == 1


SEEN = """
const found = [];
const look = (o) => { if (o !== null && /object|function/.test(typeof o)) found[found.length] = o };
const seeing = (value) => new Proxy(value, {
  get(target, key, self) { look(self); return Reflect.get(target, key) },
  has(target, key) { look(target); return key in target },
});
const spy = function (...given) { look(this); for (let i = 0; i < given.length; i++) look(given[i]); return this };
%s
const hidden = found.filter((o) => ['OPERATION', 'post', 'resolve', 'reject', 'site', 'settings', 'buffer'].some((k) => Object.hasOwn(o, k)));
const buffers = found.filter((o) => o instanceof ArrayBuffer || ArrayBuffer.isView(o));
return [hidden.length, buffers.length];
"""
SPIES = {
    "toJSON of what is printed": "console.log([{ toJSON: spy }], { a: { toJSON: spy } })",
    "toString of what is printed": "console.log({ toString: spy }, { valueOf: spy, toString: spy })",
    "getters of what is printed": "console.log(seeing({ a: 1 }), [seeing({ b: 2 })])",
    "the iteration of maps and sets": "Map.prototype[Symbol.iterator] = spy; Set.prototype[Symbol.iterator] = spy; console.log(new Map(), [new Set()])",
    "methods of arrays": "for (const k of ['join', 'push', 'slice', 'toString']) Array.prototype[k] = spy; console.log([1, [2]])",
    "toJSON of errors": "JSON.stringify(Error.prototype.toJSON.call(seeing(new Error('x', { cause: seeing({}) }))))",
    "hasInstance": "for (const T of [Map, Set, Promise, Error, AggregateError]) Object.defineProperty(T, Symbol.hasInstance, { value: spy }); console.log([{}], new Error('x'))",
    "a rejection": "Promise.reject({ toString: spy, toJSON: spy }); Promise.prototype.then = spy; Promise.reject = spy",
}  # fmt: skip


@pytest.mark.parametrize("source", SPIES.values(), ids=SPIES.keys())
def test_no_trap_is_handed_what_the_glue_keeps(guest, source):
    assert guest.value(SEEN % source) == [0, 0]


BIG = {
    "a text": "console.log('x'.repeat(2 ** 28))",
    "an array": "console.log(Array(1e7).fill(1))",
    "a sparse array": "console.log(new Array(2 ** 32 - 1))",
    "a map": "console.log(new Map(Array.from({ length: 3e5 }, (_, n) => [n, n])))",
    "a deep object": "let o = {}; for (let i = 0; i < 1e6; i++) o = { o }; console.log(o)",
    "a chain of causes": "let e = new Error('0'); for (let i = 0; i < 1e5; i++) e = new Error(`${i}`, { cause: e }); console.log(e); throw e",
    "an array that says it is long": "console.log(new Proxy([], { get: (t, k) => k === 'length' ? 2 ** 53 - 1 : 1 }))",
    "errors that say they are many": "const e = new AggregateError([]); e.errors = { length: 1e9 }; throw e",
}


@pytest.mark.parametrize("source", BIG.values(), ids=BIG.keys())
def test_what_is_too_large_to_show_ends_as_a_status(guest, source):
    outcome = guest.run(source, timeout_ms=3_000, memory_bytes=128 << 20, output_bytes=1 << 20)
    assert outcome.status in {"ok", "failed", "timeout", "memory_limit"}
    assert sum(len(line.text) for line in outcome.console) < (1 << 20) + 100
    assert guest.value("return 1") == 1
