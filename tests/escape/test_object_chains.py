"""No chain of properties, prototypes and constructors leads from what a program sees to code of the host."""

import pytest

# Every object that comes from the glue, and the errors and promises it makes.
HOST_OBJECTS = [
    "servers",
    "servers.x",
    "servers.x.y",
    "servers.x.call",
    "servers.x.callRaw",
    "servers.x.resources",
    "servers.x.resources.read",
    "servers.x.prompts.get",
    "console",
    "console.log",
    "console.warn",
    "console.error",
    "console.info",
    "console.debug",
    "sleep",
    "setTimeout",
    "clearTimeout",
    "console.table",
    "setInterval",
    "queueMicrotask",
    "structuredClone",
    "atob",
    "crypto",
    "crypto.subtle",
    "Crypto",
    "performance",
    "Performance",
    "URL",
    "URL.prototype",
    "URLSearchParams",
    "TextEncoder",
    "TextDecoder",
    "AbortController",
    "AbortSignal",
    "Event",
    "EventTarget",
    "DOMException",
    "Temporal",
    "globalThis",
    "paddock",
    "paddock.vars",
    "paddock.workspace",
    "paddock.workspace.path",
    "paddock.input",
    "mentu",
    "mentu.vars",
    "input",
    "input.list",
    "input.list.push",
]
MADE = {
    "a result": "await servers.odd.callRaw('echo', { text: 'x' })",
    "the content of a result": "(await servers.odd.callRaw('echo', { text: 'x' })).content",
    "the promise of a call": "servers.odd.call('echo', { text: 'x' })",
    "then of the promise of a call": "servers.odd.call('echo', { text: 'x' }).then",
    "the promise of a sleep": "sleep(0)",
    "the id of a timer": "setTimeout(() => 0, 0)",
    "an address": "new URL('http://a')",
    "the parameters of an address": "new URL('http://a?b').searchParams",
    "the iterator of such parameters": "new URLSearchParams('a=1').entries()",
    "the promise of a digest": "crypto.subtle.digest('SHA-256', new Uint8Array(1))",
    "the reason of an aborted signal": "AbortSignal.abort().reason",
    "an event": "new Event('x')",
    "an error of a copy": "(() => { try { structuredClone(() => 0) } catch (e) { return e } })()",
    "bytes of a text": "new TextEncoder().encode('x')",
    "a tool error": "await servers.nope.call('t').catch((e) => e)",
    "the constructor of a tool error": "(await servers.nope.call('t').catch((e) => e)).constructor",
    "a field of a tool error": "(await servers.nope.call('t').catch((e) => e)).server",
    "an argument error of a call": "(() => { try { servers.x.call(5) } catch (e) { return e } })()",
    "an argument error of a timer": "(() => { try { setTimeout(5) } catch (e) { return e } })()",
    "a stack overflow inside the glue": "(() => { const f = () => { try { console.log(); f() } catch (e) { return e } }; return f() })()",
    "the arguments of the program": "arguments",
}
CLIMB = """
const seen = new Set();
const climb = (o, depth) => {
  if (o === null || (typeof o !== 'object' && typeof o !== 'function') || seen.has(o) || depth > 6) return;
  seen.add(o);
  for (const key of Reflect.ownKeys(o)) {
    const d = Reflect.getOwnPropertyDescriptor(o, key);
    for (const part of [d.get, d.set, d.value]) climb(part, depth + 1);
  }
  climb(Reflect.getPrototypeOf(o), depth + 1);
  climb(o.constructor, depth + 1);
};
const root = %s;
climb(root, 0);
climb(root?.constructor?.constructor, 0);
const ran = [];
for (const o of seen) {
  if (typeof o !== 'function') continue;
  for (const attempt of [() => o('return 1'), () => new o('return 1'), () => o.constructor('return 1')]) {
    try {
      const made = attempt();
      if (typeof made === 'function' && !seen.has(made) && /anonymous/.test(made.name)) ran.push(String(made));
    } catch {}
  }
}
const kinds = ['process', 'require', 'global', 'Buffer', 'Deno', '__paddock', 'exchange', 'post'];
return [ran, [...seen].filter((o) => kinds.some((k) => { try { return Object.hasOwn(o, k) } catch { return false } })).length];
"""


@pytest.mark.parametrize("jit", [False, True])
@pytest.mark.parametrize("root", [*HOST_OBJECTS, *MADE.values()], ids=[*HOST_OBJECTS, *MADE.keys()])
def test_x9_no_chain_from_a_host_object_reaches_code(guest, root, jit):
    outcome = guest.run(CLIMB % root, given={"list": [1]}, jit=jit)
    if outcome.error is None:
        assert outcome.value == [[], 0]
    else:  # what was climbed called something that a program may call, and must wait for
        assert (outcome.status, outcome.error.name) in {("failed", "UnawaitedCall"), ("failed", "ToolError")}


UNAWAITED = {MADE["the promise of a call"], MADE["then of the promise of a call"]}
CODE = "Code generation from strings disallowed for this context"


@pytest.mark.parametrize("root", [*HOST_OBJECTS, *MADE.values()], ids=[*HOST_OBJECTS, *MADE.keys()])
def test_x9_the_constructor_of_the_constructor(guest, root):
    source = f"const o = {root}; try {{ return o.constructor.constructor('return process')() }} catch (e) {{ return [e.name, e.message] }}"
    outcome = guest.run(source, given={"list": [1]})
    if outcome.error is not None:
        assert (outcome.error.name, root in UNAWAITED) == ("UnawaitedCall", True)
        return
    assert outcome.value in (
        ["EvalError", CODE],
        # The objects without a prototype have no constructor, and below a server every name is a tool.
        ["TypeError", "Cannot read properties of undefined (reading 'constructor')"],
        ["TypeError", "servers.x: the arguments of constructor must be one object"],
        ["TypeError", "servers.constructor: the arguments of constructor must be one object"],
    )


COMPUTE_ROOTS = [
    "emit",
    "read_input",
    "Date",
    "Date.now",
    "new Date()",
    "Math.random",
    "(async () => 0)()",
]
CAUGHT = "(() => { try { emit(Symbol()) } catch (e) { return e } })()"


@pytest.mark.parametrize("root", [*COMPUTE_ROOTS, CAUGHT])
def test_no_chain_from_what_a_computation_sees_reaches_code(guest, root):
    outcome = guest.compute(
        f"emit('\\0' + JSON.stringify((function () {{ {CLIMB % root} }})()))", output_bytes=2**20
    )
    assert (outcome.error, outcome.value.rpartition("\0")[2]) == (None, "[[],0]")


@pytest.mark.parametrize(
    "call",
    [
        "emit.constructor('return process')()",
        "(0, eval)('this')",
        "Reflect.construct(Function, ['return this'])",
    ],
)
def test_a_computation_makes_no_code_from_texts(guest, call):
    assert guest.compute(call).error.message == CODE
