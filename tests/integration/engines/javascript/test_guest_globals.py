"""What programs have beyond the language's oldest part: each global does what the standards and node say."""

import pytest


def said(outcome):
    assert (outcome.status, outcome.error) == ("ok", None)
    return [(line.level, line.text) for line in outcome.console]


CLONED = {
    "structuredClone of every kind": (
        "const given = { d: new Date(5), m: new Map([[{ k: 1 }, new Set([1])]]), r: /x/gi, b: new Uint8Array([1, 2, 3]).subarray(1), n: [1, , 3],"
        " big: 5n, u: undefined, box: Object(true), e: new RangeError('bad', { cause: { c: 1 } }) };"
        "given.self = given; const c = structuredClone(given); const [[key, set]] = c.m;"
        "return [c !== given, c.self === c, c.d.getTime(), key, [...set], String(c.r), [...c.b], c.b.byteOffset, 1 in c.n, c.n.length, c.big === 5n,"
        " 'u' in c, c.box.valueOf(), c.e instanceof RangeError, c.e.message, c.e.cause, structuredClone({ __proto__: null, ['__proto__']: 1 })]",
        [True, True, 5, {"k": 1}, [1], "/x/gi", [2, 3], 1, False, 3, True, True, True, True, "bad", {"c": 1}, {"__proto__": 1}],
    ),
    "structuredClone moves buffers": (
        "const b = new ArrayBuffer(8); const c = structuredClone({ b, v: new Uint8Array(b, 2) }, { transfer: [b] });"
        "return [b.byteLength, c.b.byteLength, c.v.buffer === c.b, c.v.length]",
        [0, 8, True, 6],
    ),
    "structuredClone refuses": (
        "return [() => 1, Symbol('s'), new WeakMap(), Promise.resolve(), (function* () {})()].map((value) => {"
        " try { structuredClone(value) } catch (e) { return [e.name, e.message, e.code, e instanceof DOMException, e instanceof Error] } })",
        [["DataCloneError", f"{what} could not be cloned.", 25, True, True] for what in ("() => 1", "Symbol(s)", "#<WeakMap>", "#<Promise>", "#<Generator>")],
    ),
}  # fmt: skip
TEXTS = {
    "TextEncoder": (
        "const e = new TextEncoder(); const room = new Uint8Array(5); const went = e.encodeInto('aé€', room);"
        "return [e.encoding, [...e.encode('aé€😀\\ud800')], went, [...room]]",
        ["utf-8", [97, 195, 169, 226, 130, 172, 240, 159, 152, 128, 239, 191, 189], {"read": 2, "written": 3}, [97, 195, 169, 0, 0]],
    ),
    "TextDecoder": (
        "const at = (label, bytes, options) => new TextDecoder(label, options).decode(new Uint8Array(bytes));"
        "return [at('utf8', [239, 187, 191, 97, 195, 169, 255, 240, 159, 152, 128, 226, 130]), at('utf-8', [239, 187, 191], { ignoreBOM: true }),"
        " at('latin1', [0x80, 0xe9]), at('utf-16le', [97, 0, 0x3d, 0xd8, 0, 0xde, 1]), at('utf-16be', [0, 97]), new TextDecoder('ascii').encoding,"
        " at('utf-8', [0xe0, 0x80, 0xed, 0xa0, 0xf4, 0x90])]",
        ["aé\ufffd😀\ufffd", "\ufeff", "€é", "a😀\ufffd", "a", "windows-1252", "\ufffd" * 6],
    ),
    "TextDecoder of long texts": (
        "const text = 'a'.repeat(5000) + 'é€😀'.repeat(3000) + 'b'.repeat(5000); return new TextDecoder().decode(new TextEncoder().encode(text)) === text",
        True,
    ),
    "TextDecoder in pieces": (
        "const d = new TextDecoder(); const add = (...bytes) => d.decode(new Uint8Array(bytes), { stream: true });"
        "return [add(0xef, 0xbb), add(0xbf, 0xe2, 0x82), add(0xac), add(0xf0, 0x9f), d.decode(), d.decode(new Uint8Array([97]).buffer)]",
        ["", "", "€", "", "\ufffd", "a"],
    ),
    "TextDecoder refuses": (
        "return [() => new TextDecoder('utf-8', { fatal: true }).decode(new Uint8Array([255])), () => new TextDecoder('utf-16le', { fatal: true }).decode(new Uint8Array([0, 0xdc])),"
        " () => new TextDecoder('koi8-r'), () => new TextDecoder().decode('text')].map((f) => { try { f() } catch (e) { return `${e}` } })",
        [
            "TypeError: The encoded data was not valid for the encoding",
            "TypeError: The encoded data was not valid for the encoding",
            "RangeError: The encoding 'koi8-r' is not supported: utf-8, utf-16le, utf-16be and latin1 are",
            "TypeError: decode reads an ArrayBuffer, a typed array or a DataView",
        ],
    ),
    "atob and btoa": (
        "return [btoa('hé'), atob(' aGk= '), atob('aGk'), ['€'].map((t) => { try { btoa(t) } catch (e) { return e.name } }), ['a', 'a=', '-_'].map((t) => { try { atob(t) } catch (e) { return e.name } })]",
        ["aOk=", "hi", "hi", ["InvalidCharacterError"], ["InvalidCharacterError"] * 3],
    ),
    "escape and unescape": ("return [escape('é ü'), unescape('%E9')]", ["%E9%20%FC", "é"]),
    "URL": (
        "const u = new URL('../x?a=1&b=%20#h', 'https://user:p@exämple.com:8080/a/b/c'); u.searchParams.append('c', 'd e'); u.port = '443';"
        "return [u.href, u.host, u.origin, u.pathname, u.hash, u instanceof URL, JSON.stringify({ u }), URL.canParse('nope'), `${new URL('http://1.2')}`]",
        ["https://user:p@xn--exmple-cua.com/a/x?a=1&b=+&c=d+e#h", "xn--exmple-cua.com", "https://xn--exmple-cua.com", "/a/x", "#h", True,
         '{"u":"https://user:p@xn--exmple-cua.com/a/x?a=1&b=+&c=d+e#h"}', False, "http://1.0.0.2/"],
    ),
    "URL refuses": ("try { new URL('nope') } catch (e) { return [e.name, e.message, e instanceof TypeError] }", ["TypeError", "Invalid URL: nope", True]),
    "URLSearchParams": (
        "const p = new URLSearchParams('?a=1&a=2&b=%C3%A9+x'); p.sort(); p.set('c', '&'); return [p.getAll('a'), p.get('b'), `${p}`, [...p.keys()], p.size, p.has('a', '2')]",
        [["1", "2"], "é x", "a=1&a=2&b=%C3%A9+x&c=%26", ["a", "a", "b", "c"], 4, True],
    ),
}  # fmt: skip
CRYPTO = {
    "randomUUID": (
        "const ids = Array.from({ length: 50 }, () => crypto.randomUUID());"
        "return [new Set(ids).size, ids.every((id) => /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/.test(id))]",
        [50, True],
    ),
    "getRandomValues": (
        "const a = new Uint32Array(64), b = new BigInt64Array(4), c = new Uint8Array(65536); return [crypto.getRandomValues(a) === a, new Set(a).size > 60, new Set(crypto.getRandomValues(b)).size,"
        " new Set(crypto.getRandomValues(c)).size]",
        [True, True, 4, 256],
    ),
    "getRandomValues refuses": (
        "return [new Uint8Array(65537), new Float32Array(1), [1]].map((a) => { try { crypto.getRandomValues(a) } catch (e) { return [e.name, e.code] } })",
        [["QuotaExceededError", 22], ["TypeMismatchError", 17], ["TypeMismatchError", 17]],
    ),
    "digest": (
        "const out = []; for (const name of ['SHA-1', 'sha-256', { name: 'SHA-384' }, 'SHA-512']) out.push(new Uint8Array(await crypto.subtle.digest(name, new TextEncoder().encode('abc'))).toHex().slice(0, 16));"
        "return out",
        ["a9993e364706816a", "ba7816bf8f01cfea", "cb00753f45a35e8b", "ddaf35a193617aba"],
    ),
    "digest refuses": ("return await crypto.subtle.digest('MD5', new Uint8Array()).catch((e) => [e.name, e.code])", ["NotSupportedError", 9]),
}  # fmt: skip
EVENTS = {
    "AbortController": (
        "const c = new AbortController(), log = []; c.signal.addEventListener('abort', (e) => log.push(e.type, e.target === c.signal, e instanceof Event), { once: true });"
        "c.signal.onabort = () => log.push('on'); c.abort(); c.abort('again');"
        "try { c.signal.throwIfAborted() } catch (e) { log.push(e.name, e.message, e.code, e === c.signal.reason) } return [...log, c.signal.aborted]",
        ["abort", True, True, "on", "AbortError", "This operation was aborted", 20, True, True],
    ),
    "AbortSignal": (
        "const any = AbortSignal.any([AbortSignal.timeout(1), new AbortController().signal]); await new Promise((done) => any.addEventListener('abort', done));"
        "return [any.reason.name, AbortSignal.abort(5).reason, AbortSignal.any([AbortSignal.abort(6)]).reason, (() => { try { new AbortSignal() } catch (e) { return e.name } })()]",
        ["TimeoutError", 5, 6, "TypeError"],
    ),
    "EventTarget": (
        "const t = new EventTarget(), seen = []; const both = { handleEvent(e) { seen.push(e.detail, this === both); e.preventDefault() } };"
        "t.addEventListener('x', both); t.addEventListener('x', both); t.addEventListener('x', (e) => { seen.push(e.currentTarget === t); e.stopImmediatePropagation() }); t.addEventListener('x', () => seen.push('never'));"
        "const kept = t.dispatchEvent(new CustomEvent('x', { detail: 7, cancelable: true })); t.removeEventListener('x', both); class Sub extends EventTarget {}"
        "return [kept, seen, new Sub() instanceof EventTarget, t.dispatchEvent(new Event('y'))]",
        [False, [7, True, True], True, True],
    ),
    "DOMException": (
        "const e = new DOMException('m', 'AbortError'); return [`${e}`, e.code, e instanceof Error, Object.prototype.toString.call(e), new DOMException('m', { cause: 1 }).cause]",
        ["AbortError: m", 20, True, "[object DOMException]", 1],
    ),
}  # fmt: skip
TIME = {
    "setInterval": (
        "let n = 0; const got = []; await new Promise((done) => { const id = setInterval((x) => { got.push(x); if (++n === 3) { clearInterval(id); done() } }, 1, 'a') }); await sleep(5); return [n, got]",
        [3, ["a", "a", "a"]],
    ),
    "queueMicrotask": (
        "const order = []; setTimeout(() => order.push('timer'), 0); queueMicrotask(() => order.push('micro')); Promise.resolve().then(() => order.push('then')); order.push('now'); await sleep(2); return order",
        ["now", "micro", "then", "timer"],
    ),
    "performance": (
        "const a = performance.now(); await sleep(5); const b = performance.now();"
        "return [a >= 0, a < 60000, b - a >= 4, Math.abs(performance.timeOrigin + b - Date.now()) < 1000, performance instanceof Performance]",
        [True] * 5,
    ),
}  # fmt: skip
LANGUAGE = {
    "globalThis": (
        "globalThis.made = 1; return [globalThis === self, made, globalThis.Array === Array, typeof globalThis.console, delete globalThis.made, typeof made]",
        [True, 1, True, "object", True, "undefined"],
    ),
    "WeakRef": ("const o = { a: 1 }; return [new WeakRef(o).deref().a, new FinalizationRegistry(() => 0).register(o, 1)]", [1, None]),
    "FinalizationRegistry": (
        "class Mine extends FinalizationRegistry {} const r = new Mine(() => 0);"
        "return [r instanceof FinalizationRegistry, r.constructor === Mine, Object.getPrototypeOf(new FinalizationRegistry(() => 0)).constructor === FinalizationRegistry, FinalizationRegistry.name]",
        [True, True, True, "FinalizationRegistry"],
    ),
    "Float16Array": ("return [[...new Float16Array([1.5, 65504, 1e6])].map(String), Math.f16round(5.5)]", [["1.5", "65504", "Infinity"], 5.5]),
    "DisposableStack": (
        "const seen = []; { using a = { [Symbol.dispose]() { seen.push('a') } }; const s = new DisposableStack(); s.defer(() => seen.push('d')); s.use({ [Symbol.dispose]() { seen.push('u') } }); s.dispose() }"
        "await using b = { async [Symbol.asyncDispose]() {} }; await new AsyncDisposableStack().disposeAsync();"
        "try { using x = { [Symbol.dispose]() { throw 2 } }; throw 1 } catch (e) { seen.push(e instanceof SuppressedError, e.error, e.suppressed) } return seen",
        ["u", "d", "a", True, 2, 1],
    ),
    "Temporal": ("return `${Temporal.PlainDate.from('2024-01-31').add({ months: 1 })}`", "2024-02-29"),
    "decorators": (
        "const log = []; const dec = (tag) => (value, { kind, name, static: isStatic, private: isPrivate, addInitializer }) => { log.push(`${tag} ${kind} ${String(name)} ${isStatic} ${isPrivate}`);"
        " if (kind === 'method') return function (...a) { return tag + value.apply(this, a) }; if (kind === 'field') return (v) => (v ?? 0) + 1; if (kind === 'getter') return function () { return value.call(this) + '!' };"
        " if (kind === 'accessor') return { get() { return value.get.call(this) * 2 }, init: (v) => v + 100 }; addInitializer(function () { log.push('made ' + this.name) }) };\n"
        "const bound = (value, { name, addInitializer }) => { addInitializer(function () { this[name] = this[name].bind(this) }) };\n"
        "@dec('A') class C extends Object { @dec('m') @dec('n') hi(x) { return 'hi ' + x } @dec('s') static make() { return 'made' } @dec('f') count = 1; @dec('g') empty\n @dec('h') #secret = 5;"
        " @dec('p') get loud() { return 'loud' } @dec('x') accessor y = 2; accessor ['com' + 'puted'] = 9; @dec('k') ['key' + 1]() { return 1 } @bound self() { return this.count } secret() { return this.#secret } }\n"
        "const c = new C(); const { self } = c; const D = @dec('e') class Named { @dec('q') a = 1 };"
        "return [log, c.hi('you'), C.make(), c.count, c.empty, c.secret(), c.loud, c.y, c.computed, c.key1(), self(), new D().a]",
        [
            ["s method make true false", "n method hi false false", "m method hi false false", "p getter loud false false", "x accessor y false false", "k method key1 false false",
             "f field count false false", "g field empty false false", "h field #secret false true", "A class C undefined undefined", "made C",
             "q field a false false", "e class Named undefined undefined", "made Named"],
            "mnhi you", "smade", 2, 1, 6, "loud!", 204, 9, "k1", 2, 2,
        ],
    ),
    "decorators and types": (
        "function twice(value: (n: number) => number, context: ClassMethodDecoratorContext) { return function (this: unknown, n: number): number { return 2 * value.call(this, n) } }\n"
        "enum E { a = 3 }\nclass A { constructor(private n: number) {}\n @twice add(m: number): number { return this.n + m } static accessor total: number = E.a }\nreturn [new A(1).add(2), A.total]",
        [6, 3],
    ),

}  # fmt: skip
CASES = {**CLONED, **TEXTS, **CRYPTO, **EVENTS, **TIME, **LANGUAGE}


@pytest.mark.parametrize(("source", "expected"), CASES.values(), ids=CASES.keys())
@pytest.mark.parametrize("jit", [False, True])
def test_a_global_does_what_its_standard_says(guest, source, expected, jit):
    assert guest.value(source, jit=jit) == expected


def test_what_goes_wrong_in_a_decorated_class_is_told_at_its_place(guest):
    outcome = guest.run("const a = 1\n@((c) => c) class A {\n  @(5) m() {}\n}")
    assert (outcome.error.name, outcome.error.message) == (
        "TypeError",
        "A decorator must be a function, not number",
    )
    outcome = guest.run(
        "const log = (v) => v;\n@log class A {\n  @log\n  m() {\n    null.x\n  }\n}\nnew A().m()"
    )
    assert (outcome.error.line, outcome.error.column) == (5, 10)


@pytest.mark.parametrize(
    "source",
    [
        "setInterval(() => { throw new Error('late') }, 1); await sleep(1000)",
        "queueMicrotask(() => { throw new Error('late') }); await sleep(1000)",
        "const t = new EventTarget(); t.addEventListener('x', () => { throw new Error('late') }); t.dispatchEvent(new Event('x')); await sleep(1000)",
        "reportError(new Error('late')); await sleep(1000)",
        "const r = new FinalizationRegistry(() => { throw new Error('late') }); for (;;) { for (let i = 0; i < 200; i++) r.register({ a: new Array(50).fill(i) }, i); await sleep(0) }",
        "AbortSignal.timeout(1).onabort = () => { throw new Error('late') }; await sleep(1000)",
    ],
)
def test_what_a_callback_throws_ends_the_program(guest, source):
    assert guest.failure(source) == ("failed", "Error", "late")


def test_an_interval_keeps_a_program_waiting_until_its_time_is_up(guest):
    outcome = guest.run("setInterval(() => 0, 60_000); await new Promise(() => 0)", timeout_ms=2_000)
    assert (outcome.status, outcome.error.hint) == (
        "timeout",
        "it was waiting for a timer; the limit is 2000 ms",
    )


# What node 20 prints for the same.
CONSOLE = {
    "fields": (
        "console.log('%s is %d', 'a', 5); console.log('%s|%d|%i|%f|%j|%o|%O|%c|%%|%x|%s', 'a', '5.5', '7.9', '1.25', { a: 1 }, [1, { b: 2 }], { a: { b: { c: { d: {} } } } }, 'css', 5);"
        "console.log('%s %s %s %s %s', Symbol('a'), 5n, -0, null, [1, [2, [3]]]); console.log('%d %i', 5n, Symbol('a'), 'more'); console.log('100%', 5); console.log('%s'); console.log('%s', new (class Q { x = 1 })())",
        [
            ("log", "a is 5"),
            ("log", 'a|5.5|7|1.25|{"a":1}|[ 1, { b: 2 }, [length]: 2 ]|{ a: { b: { c: [Object] } } }||%|%x|5'),
            ("log", "Symbol(a) 5n -0 null [ 1, [Array] ]"), ("log", "5n NaN more"), ("log", "100% 5"), ("log", "%s"), ("log", "Q { x: 1 }"),
        ],
    ),
    "table": (
        "console.table([{ a: 1, b: 'x' }, { a: 22, c: { d: 1, e: 2, f: 3 } }]); console.table([{ a: 1, b: 2 }], ['b']); console.table(new Map([['k', 1]])); console.table(['p', 'äß']); console.table(5)",
        [
            ("log", "┌─────────┬────┬─────┬──────────┐\n│ (index) │ a  │ b   │ c        │\n├─────────┼────┼─────┼──────────┤\n│ 0       │ 1  │ 'x' │          │\n│ 1       │ 22 │     │ [Object] │\n└─────────┴────┴─────┴──────────┘"),
            ("log", "┌─────────┬───┐\n│ (index) │ b │\n├─────────┼───┤\n│ 0       │ 2 │\n└─────────┴───┘"),
            ("log", "┌───────────────────┬─────┬────────┐\n│ (iteration index) │ Key │ Values │\n├───────────────────┼─────┼────────┤\n│ 0                 │ 'k' │ 1      │\n└───────────────────┴─────┴────────┘"),
            ("log", "┌─────────┬────────┐\n│ (index) │ Values │\n├─────────┼────────┤\n│ 0       │ 'p'    │\n│ 1       │ 'äß'   │\n└─────────┴────────┘"),
            ("log", "5"),
        ],
    ),
    "dir": (
        "console.dir(Array.from({ length: 30 }, (_, i) => i * 7)); console.dir({ s: \"it's\", f() {}, h: class B extends Map {}, [Symbol('z')]: 1, 'k-k': null, d: new Date(0), e: undefined, n: -0, big: 5n });"
        "const c = { n: 1 }; c.self = c; console.dir(c); console.dir({ a: { b: { c: {} } } }, { depth: 0 }); console.dir({ a: { b: { c: { d: { e: 1 } } } } }, { depth: null });"
        "console.dir([new Map([['a', { x: 1 }]]), new Set(['a']), new Uint8Array(3), Object.create(null), [1, , 3], new Number(3), async () => {}, { get a() { return 1 }, set b(v) {} }, new ArrayBuffer(2)])",
        [
            ("log", "[\n    0,   7,  14,  21,  28,  35,  42,  49,\n   56,  63,  70,  77,  84,  91,  98, 105,\n  112, 119, 126, 133, 140, 147, 154, 161,\n  168, 175, 182, 189, 196, 203\n]"),
            ("log", "{\n  s: \"it's\",\n  f: [Function: f],\n  h: [class B extends Map],\n  'k-k': null,\n  d: 1970-01-01T00:00:00.000Z,\n  e: undefined,\n  n: -0,\n  big: 5n,\n  [Symbol(z)]: 1\n}"),
            ("log", "<ref *1> { n: 1, self: [Circular *1] }"), ("log", "{ a: [Object] }"), ("log", "{\n  a: {\n    b: { c: { d: { e: 1 } } }\n  }\n}"),
            ("log", "[\n  Map(1) { 'a' => { x: 1 } },\n  Set(1) { 'a' },\n  Uint8Array(3) [ 0, 0, 0 ],\n  [Object: null prototype] {},\n  [ 1, <1 empty item>, 3 ],\n  [Number: 3],\n  [AsyncFunction (anonymous)],\n"
             "  { a: [Getter], b: [Setter] },\n  ArrayBuffer { [Uint8Contents]: <00 00>, byteLength: 2 }\n]"),
        ],
    ),
    "group": (
        "console.group('G'); console.log('in\\nside'); console.group(); console.warn('deep'); console.groupEnd(); console.groupEnd(); console.groupEnd(); console.log('out')",
        [("log", "G"), ("log", "  in\n  side"), ("warn", "    deep"), ("log", "out")],
    ),
    "count": (
        "console.count(); console.count(); console.count('z'); console.countReset(); console.count(); console.countReset('none')",
        [("log", "default: 1"), ("log", "default: 2"), ("log", "z: 1"), ("log", "default: 1"), ("warn", "Warning: Count for 'none' does not exist")],
    ),
    "assert": (
        "console.assert(true, 'n'); console.assert(false); console.assert(0, 'm %s', 1); console.assert('', { a: 1 })",
        [("warn", "Assertion failed"), ("warn", "Assertion failed: m 1"), ("warn", "Assertion failed: [object Object]")],
    ),
    "objects": ("console.log({ a: [1] }, new Map([[1, 2]])); console.log('a', { b: 1 })", [("log", '{"a":[1]} [[1,2]]'), ("log", 'a {"b":1}')]),
    "labels": (
        "console.timeEnd('none'); console.timeLog(); console.time('t'); console.time('t')",
        [("warn", "Warning: No such label 'none' for console.timeEnd()"), ("warn", "Warning: No such label 'default' for console.timeLog()"), ("warn", "Warning: Label 't' already exists for console.time()")],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("source", "lines"), CONSOLE.values(), ids=CONSOLE.keys())
def test_the_console_prints_as_node_does(guest, source, lines):
    assert said(guest.run(source)) == lines


def test_the_console_measures_time_and_traces(guest):
    lines = said(
        guest.run(
            "console.time(); await sleep(5); console.timeLog('default', { a: 1 }); console.timeEnd();\nconsole.trace('here %d', 1)"
        )
    )
    assert [level for level, _ in lines] == ["log", "log", "error"]
    took, rest = lines[0][1].removeprefix("default: ").split("ms ")
    assert (float(took) >= 4, rest) == (True, '{"a":1}')
    assert lines[2][1].splitlines()[0] == "Trace: here 1"
    assert "paddock:program:2:" in lines[2][1].splitlines()[1]


def test_under_the_compat_names_the_console_is_that_of_the_seeds(guest):
    source = "console.log('%s', { a: 1 }, [1, 2]); return Object.keys(console)"
    outcome = guest.run(source, raw_results=True)
    assert said(outcome) == [("log", "%s [object Object] 1,2")]
    assert outcome.value == ["log", "warn", "error", "info", "debug"]
