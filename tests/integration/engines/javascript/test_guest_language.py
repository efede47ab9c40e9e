"""Ordinary JavaScript works in the guest, whatever is frozen and sealed there."""

import pytest

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
    "this of the program": (
        "this.made = 1; return [this === globalThis, made, (() => this === globalThis)(), (function () { return this })()]",
        [True, 1, True, None],
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
