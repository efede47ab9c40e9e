"""The known ways out of node:vm and vm2. Each ends in an error inside the guest, or in nothing; none ends outside."""

import pytest

# What each ends in: the name of an error, or the value.
ESCAPES = {
    "vm: this": ("return this.constructor.constructor('return process')()", "EvalError"),
    "vm: arguments.callee.caller": ("(function () { return arguments.callee.caller })()", "TypeError"),
    "vm: function caller": ("function f() { return f.caller } return f()", "TypeError"),
    "vm2: async stack overflow": (
        "const f = async () => { try { const e = new Error(); e.name = Symbol(); e.stack } catch (e) { return typeof e.constructor.constructor('return 1') } }; return await f()",
        None,
    ),
    "vm2: error of the host in a promise": (
        "return await servers.nope.call('t').catch((e) => e.constructor.constructor('return process')())",
        "EvalError",
    ),
    "vm2: Promise species": (
        "class P extends Promise { static get [Symbol.species]() { return function (f) { f(() => 0, (e) => { throw e.constructor.constructor('return 1') }) } } }"
        "Promise.prototype.constructor = P; const r = servers.nope.call('t').catch((e) => e.message); return await r",
        "Unknown server: nope; known: odd, even.",
    ),
    "vm2: Error.prepareStackTrace": (
        "let leaked; Error.prepareStackTrace = (e, sites) => { leaked = sites[0].getThis() }; new Error().stack; return typeof leaked",
        "undefined",
    ),
    "vm2: prepareStackTrace on a subclass": (
        "let leaked; class E extends Error {} E.prepareStackTrace = (e, s) => { leaked = s }; new E().stack;"
        "Object.defineProperty(TypeError, 'prepareStackTrace', { value: (e, s) => { leaked = s } }); try { null.x } catch (e) { e.stack } return typeof leaked",
        "undefined",
    ),
    "vm2: captureStackTrace": (
        "const o = {}; Error.captureStackTrace(o, servers.x.call); return typeof o.stack === 'string' && !/[/]|\\.py|node/.test(o.stack) ? undefined : o.stack",
        None,
    ),
    "vm2: stackTraceLimit with a getter": (
        "let leaked; Object.defineProperty(Error, 'stackTraceLimit', { get() { leaked = 1; return 10 } });"
        "const e = await servers.nope.call('t').catch((e) => e); e.stack; return leaked",
        None,
    ),
    "vm2: no stack traces": (
        "Error.stackTraceLimit = 0; const a = await servers.nope.call('t').catch((e) => e.stack); delete Error.stackTraceLimit;"
        "const b = await servers.nope.call('t').catch((e) => e.stack); return a === b && a === 'ToolError: Unknown server: nope; known: odd, even.' ? undefined : [a, b]",
        None,
    ),
    "vm2: getOwnPropertyDescriptor of everything": (
        "for (const o of [servers, servers.odd, console, sleep, paddock]) for (const k of Reflect.ownKeys(o)) Object.getOwnPropertyDescriptor(o, k)",
        None,
    ),
    "vm2: a proxy as handler": (
        "const seen = []; const handler = new Proxy({}, { get(t, k) { seen.push(String(k)); return undefined } });"
        "const r = await servers.odd.callRaw('echo', { text: 'x', o: new Proxy({}, handler) });"
        "return r.content[0].text === 'x' && seen.every((k) => /^(get|ownKeys|getOwnPropertyDescriptor|getPrototypeOf)$/.test(k)) ? undefined : seen",
        None,
    ),
    "vm2: inspect and custom symbols": (
        "const o = { [Symbol.for('nodejs.util.inspect.custom')](d, opts, inspect) { return inspect.constructor('return process')() } }; console.log(o)",
        None,
    ),
    "vm2: Buffer and typed array species": (
        "let leaked; for (const T of [Uint8Array, Uint16Array, Float64Array]) Object.defineProperty(T, Symbol.species, { value: function (b, ...r) { leaked = b; return new T(b, ...r) } });"
        "await servers.nope.call('t').catch(() => 0); return leaked",
        None,
    ),
    "the exchange buffer by a constructor of a prototype": (
        "let leaked; const U = Uint16Array; const take = { get() { return { [Symbol.species]: function (b, o, l) { leaked = b; return new U(b, o, l) } } } };"
        "Object.defineProperty(U.prototype, 'constructor', take); Object.defineProperty(Float64Array.prototype, 'constructor', take);"
        "Object.defineProperty(Object.getPrototypeOf(U.prototype), 'constructor', take);"
        "await servers.nope.call('t').catch(() => 0); console.log('x'.repeat(50_000)); return leaked",
        None,
    ),
    "the exchange buffer by the getters of typed arrays": (
        "let leaked; const P = Object.getPrototypeOf(Uint16Array.prototype);"
        "for (const k of Reflect.ownKeys(P)) { const d = Reflect.getOwnPropertyDescriptor(P, k); if (!d.configurable) continue;"
        " const steal = function () { leaked = this; return 1 }; Object.defineProperty(P, k, d.get ? { get: steal } : { value: steal }) }"
        "await servers.nope.call('t').catch(() => 0); console.log('x'.repeat(50_000)); return leaked === undefined ? undefined : String(leaked.buffer)",
        None,
    ),
    "array species and the queues of the glue": (
        "const leaked = []; Array.prototype.constructor = { [Symbol.species]: function () { const p = []; leaked.push(p); return p } };"
        "Object.defineProperty(Array, Symbol.species, { get() { return function () { const p = []; leaked.push(p); return p } } });"
        "clearTimeout(setTimeout(() => 0, 1000)); await sleep(1); await servers.odd.call('echo', { text: 'x'.repeat(40_000) });"
        "return leaked.length ? leaked : undefined",
        None,
    ),
    "setters on indices": (
        "let leaked; const steal = { set(v) { leaked = v }, configurable: true };"
        "const done = [Reflect.defineProperty(Array.prototype, '0', steal), Reflect.defineProperty(Object.prototype, '0', steal)];"
        "console.log('a', 'b'); setTimeout(() => 0, 1); await servers.nope.call('t').catch(() => 0); return leaked ?? (done.includes(true) ? done : undefined)",
        None,
    ),
    "toJSON on prototypes": (
        "let leaked; for (const P of [String, Number, Boolean, Promise, Map, Error]) P.prototype.toJSON = function () { leaked = this; return 1 };"
        "console.log('a'); const r = await servers.odd.call('echo', { text: 'x' }); return r === 'x' && leaked === undefined ? undefined : [r, String(leaked)]",
        None,
    ),
    "Symbol.toPrimitive of an argument": (
        "let host; console.log({ [Symbol.toPrimitive](hint) { host = (function () { return this })(); return 'x' } }); return host",
        None,
    ),
    "Symbol.hasInstance of Error": (
        "let leaked; Object.defineProperty(Error, Symbol.hasInstance, { value(v) { leaked = (function () { return this })(); return true } });"
        "setTimeout(() => { throw 5 }, 0); await sleep(100); return leaked",
        "undefined",
    ),
    "Symbol.unscopables": (
        "Object.prototype[Symbol.unscopables] = { console: true }; console.log('x')",
        "TypeError",
    ),
    "a thenable that steals the resolvers": (
        "let f; const r = await { then(resolve, reject) { f = [resolve, reject]; resolve(1) } }; return typeof f[0].constructor('return 1')",
        "EvalError",
    ),
    "then of a call's promise": (
        "const p = servers.nope.call('t'); let f; p.then(0, 0).catch(() => 0); p.then.call({}, (v) => 0, (e) => { f = e.constructor.constructor }); while (!f) await sleep(1);"
        "return f('return process')()",
        "EvalError",
    ),
    "AsyncFunction": ("return await (async () => 0).constructor('return process')()", "EvalError"),
    "GeneratorFunction": ("return [...(function* () {}).constructor('yield process')()]", "EvalError"),
    "AsyncGeneratorFunction": ("return (async function* () {}).constructor('yield process')()", "EvalError"),
    "bound and proxied constructors": (
        "const F = new Proxy(Function, {}); const B = Function.bind(null, 'return process'); return Reflect.construct(F, ['return process'], B)",
        "EvalError",
    ),
    "Reflect.construct with another realm's target": (
        "class T {} return Reflect.construct(Function, ['return process'], T)",
        "EvalError",
    ),
    "setTimeout with code": ("setTimeout('process.exit()', 0)", "TypeError"),
    "indirect eval": ("return (0, eval)('this')", "EvalError"),
    "eval of what is no text": ("return eval({ a: 1 }).process", None),
    "import in a comment": ("return /* import('fs') */ typeof importing", "undefined"),
    "a source address": (
        "//# sourceURL=/etc/passwd\n//# sourceMappingURL=file:///etc/passwd\nnull.x",
        "TypeError",
    ),
    "HTML comments": ("<!-- })(); process\n--> })(); process\nreturn typeof process", "SyntaxError"),
}


PATIENT_MS = 100_000
"""All of them end by themselves; the first that calls a server waits until that has started."""


@pytest.mark.parametrize(("source", "end"), ESCAPES.values(), ids=ESCAPES.keys())
def test_a_known_escape_ends_inside(guest, source, end):
    outcome = guest.run(source, timeout_ms=PATIENT_MS)
    if outcome.error is not None:
        assert (outcome.status, outcome.error.name) == ("failed", end)
    else:
        assert (outcome.status, outcome.value) == ("ok", end)
    clean = "return [String({}), [1, 2].map((x) => x * 2), typeof process]"
    assert guest.value(clean) == ["[object Object]", [2, 4], "undefined"]


CLOSERS = [
    "})(); console.log('out'); (async () => {",
    "return 1 }); console.log('out'); (async () => {",
    "}); console.log('out'); (function () {",
    "}\n}); console.log('out'); ({a(){",
    "*/ }); console.log('out') /*",
    "' }); console.log('out')",
    "/ }); console.log('out')",
    "/[/]/ }); console.log('out')",
    "\\u007d); console.log('out')",
    "--> });\n}); console.log('out')",
    "<!-- \n}); console.log('out')",
    "x = `${ '}' } }); console.log('out')`; }); console.log('out')",
    "#!x\n}); console.log('out')",
    "\u2028}); console.log('out'); (async () => {",
    "```js\n}); console.log('out'); (async () => {\n```",
    "class A { static { }) } }); console.log('out')",
    "enum A { B = 1 } }); console.log('out')",
    "const x: number = 1 }); console.log('out'); (async () => {",
    "export }); console.log('out')",
]


@pytest.mark.parametrize("source", CLOSERS)
def test_no_text_closes_the_wrapper(guest, source):
    outcome = guest.run(source)
    assert (outcome.status, outcome.error.name, outcome.console) == ("failed", "SyntaxError", ())
    assert outcome.error.phase == "parse"


@pytest.mark.parametrize(
    "source",
    [
        "return typeof __paddock",
        "return [typeof __paddock, await 0, typeof __paddock, await sleep(1), typeof __paddock][2]",
        "try { __paddock(async () => { console.log('again') }) } catch (e) { return e.name === 'ReferenceError' ? 'undefined' : e.name }",
        "var __paddock; return typeof __paddock",
        "return typeof ({ get x() { return typeof __paddock } }).x === 'string' ? typeof __paddock : 1",
    ],
)
def test_the_glue_is_out_of_reach(guest, source):
    assert guest.value(source) == "undefined"


def test_a_source_address_moves_no_error(guest):
    outcome = guest.run("//# sourceURL=/etc/passwd\nnull.x")
    assert (outcome.error.line, outcome.error.excerpt) == (2, "null.x\n     ^")


def test_frames_of_the_glue_give_nothing_away(guest):
    source = (
        "const stacks = []; const trap = { toString() { stacks.push(new Error('x').stack); return '' }, toJSON() { stacks.push(new Error('x').stack) } };"
        "console.log(trap); try { servers.x.call('t', trap) } catch {} setTimeout(() => stacks.push(new Error('x').stack), 0); await sleep(5); return stacks"
    )
    for stack in guest.value(source):
        for line in stack.split("\n")[1:]:
            assert "paddock:program" in line or "paddock:glue" in line or "<anonymous>" in line


COMPUTE_ESCAPES = {
    "the caller of a conversion": (
        "let seen; emit({ toString: function f() { seen = f.caller; return '' } }); emit(seen)",
        "null",
    ),
    "the arguments of a caller": (
        "let seen = 'none'; emit({ toString: function f() { try { seen = arguments.callee.caller.arguments } catch (e) { seen = e.name } return '' } }); emit(seen)",
        "TypeError",
    ),
    "the receiver of a conversion": (
        "const o = { toString: function () { return this === o } }; emit({ toString: () => '' }); emit(o)",
        "true",
    ),
    "stack traces": (
        "let seen; Error.prepareStackTrace = (e, sites) => { seen = sites }; new Error('x').stack; emit(seen)",
        "undefined",
    ),
    "an import": ("import('fs').then(() => emit('in'), (e) => emit(e))", "Error: Not supported"),
    "typed arrays": (
        "let leaked; const P = Object.getPrototypeOf(Uint16Array.prototype); for (const k of Reflect.ownKeys(P)) {"
        " const d = Reflect.getOwnPropertyDescriptor(P, k); const steal = function () { leaked = this; return 1 };"
        " if (d.configurable) Object.defineProperty(P, k, d.get ? { get: steal } : { value: steal }) }"
        "emit('x'.repeat(70_000)); emit(leaked)",
        "x" * 70_000 + "undefined",
    ),
    "species and setters": (
        "let leaked; const steal = { set(v) { leaked = v }, get() { leaked = 1 }, configurable: true };"
        "for (const k of ['0', '1', 'head', 'bytes', 'value']) for (const o of [Object, Array, String])"
        " Reflect.defineProperty(o.prototype, k, steal);"
        "Array.prototype.constructor = { [Symbol.species]: function () { leaked = this; return [] } };"
        "String.prototype.toJSON = function () { leaked = this }; emit('é'); emit(leaked)",
        "éundefined",
    ),
    "a second start": ("emit(typeof __paddock + typeof paddock)", "undefinedundefined"),
    "the names of the host put back": (
        "var console = 1, servers = 2; emit([console, servers, typeof setTimeout])",
        "1,2,undefined",
    ),
    "the host's functions as constructors": (
        "emit([emit, read_input].map((f) => { try { return new f('x') } catch (e) { return e.name } }))",
        "TypeError,TypeError",
    ),
    "the host's functions bent": ("emit([emit, read_input].map(Object.isFrozen))", "true,true"),
}


@pytest.mark.parametrize(("source", "output"), COMPUTE_ESCAPES.values(), ids=COMPUTE_ESCAPES.keys())
def test_a_computation_finds_no_way_out(guest, source, output):
    outcome = guest.compute(source, output_bytes=2**20)
    assert (outcome.error, outcome.value) == (None, output)
