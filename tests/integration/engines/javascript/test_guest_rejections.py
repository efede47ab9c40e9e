"""Rejections that nobody handles are told on the console, in the program's own lines, and hurt nobody."""

import pytest


def told(outcome):
    return [(line.level, line.text) for line in outcome.console]


def warned(*texts):
    return [("warn", f"Unhandled rejection: {text}") for text in texts]


FORGOTTEN = {
    "a rejection": ("Promise.reject(new Error('x')); return 1", ["Error: x (line 1, column 16)"]),
    "an async function without await": (
        "async function save() {\n  await null\n  throw new TypeError('boom')\n}\nsave()\nawait sleep(0)\nreturn 1",
        ["TypeError: boom (line 3, column 9)"],
    ),
    "a call in an async function without await": (
        "let over = false; const save = async () => { try { await servers.nope.call('t') } finally { over = true } }\n"
        "save()\nwhile (!over) await sleep(1)\nreturn 1",
        ["ToolError: Unknown server: nope; known: odd, even. (line 1, column 71)"],
    ),
    "what follows a promise": (
        "const p = Promise.resolve(1)\np.then((n) => n.list.map(String))\nawait p; await null; return 1",
        ["TypeError: Cannot read properties of undefined (reading 'map') (line 2, column 22)"],
    ),
    "a loop over async functions": (
        "[1, 2].forEach(async (n) => { throw new Error(`no ${n}`) }); return 1",
        ["Error: no 1 (line 1, column 37)", "Error: no 2 (line 1, column 37)"],
    ),
    "a promise in a timer": (
        "setTimeout(async () => { throw new Error('late') }, 0); await sleep(5); return 1",
        ["Error: late (line 1, column 32)"],
    ),
    "TypeScript": (
        "enum A { B }\nconst go = async (n: number): Promise<void> => { throw new Error(A[n]) }\ngo(A.B); return 1",
        ["Error: B (line 2, column 56)"],
    ),
    "no error": ("Promise.reject('gone'); Promise.reject(); return 1", ["gone", "undefined"]),
    "an error without a message": ("Promise.reject(new RangeError()); return 1", ["RangeError (line 1, column 16)"]),
    "a class that extends promises": (
        "class P extends Promise {}\nnew P((_, no) => no(new Error('own'))); return 1",
        ["Error: own (line 2, column 21)"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("jit", [False, True])
@pytest.mark.parametrize(("source", "texts"), FORGOTTEN.values(), ids=FORGOTTEN.keys())
def test_a_rejection_that_nobody_handles_is_told(guest, source, texts, jit):
    outcome = guest.run(source, jit=jit)
    assert (outcome.status, outcome.value, told(outcome)) == ("ok", 1, warned(*texts))


HANDLED = {
    "await": "try { await Promise.reject(1) } catch {}",
    "catch": "Promise.reject(1).catch(() => 0)",
    "await of an async function": "try { await (async () => { throw 1 })() } catch {}",
    "await later": "const p = Promise.reject(1); await sleep(1); try { await p } catch {}",
    "a handler in the last moment": "const p = Promise.reject(1); await sleep(1); p.catch(() => 0)",
    "all": "try { await Promise.all([1, 2].map(async (n) => { throw n })) } catch {}",
    "allSettled": "await Promise.allSettled(Array.from({ length: 1000 }, async (_, n) => { throw n }))",
    "any": "try { await Promise.any([Promise.reject(1)]) } catch {}",
    "finally": "await Promise.reject(1).finally(() => 0).catch(() => 0)",
    "a failed call": "try { await servers.nope.call('t') } catch {}",
    "resolved before": "new Promise((yes, no) => { yes(1); no(new Error('late')) })",
    "settled by a rejected promise": "const p = Promise.reject(1); new Promise((yes) => yes(p)).catch(() => 0)",
}


@pytest.mark.parametrize("source", HANDLED.values(), ids=HANDLED.keys())
def test_a_rejection_that_somebody_handles_is_not_told(guest, source):
    outcome = guest.run(f"{source}; await sleep(1); return 1")
    assert (outcome.status, outcome.value, told(outcome)) == ("ok", 1, [])


def test_the_error_that_ends_a_program_is_told_once(guest):
    source = "const p = (async () => { throw new Error('x') })(); p.then(String); await p"
    outcome = guest.run(source)
    assert (outcome.status, outcome.error.message, told(outcome)) == ("failed", "x", [])
    calls = "servers.nope.call('t'); try { await servers.nope.call('u') } catch {} return 1"
    outcome = guest.run(calls, parallel_calls=1)
    assert (outcome.status, outcome.error.message, told(outcome)) == (
        "failed",
        "Unknown server: nope; known: odd, even.",
        [],
    )


def test_a_program_that_fails_tells_what_else_was_rejected(guest):
    outcome = guest.run("Promise.reject(new Error('first'))\nnull.x")
    assert (outcome.error.name, outcome.error.line) == ("TypeError", 2)
    assert told(outcome) == warned("Error: first (line 1, column 16)")


def test_a_program_that_waits_for_ever_tells_what_was_rejected(guest):
    source = "await new Promise((done) => { (async () => { null.x; done() })() })"
    outcome = guest.run(source)
    assert (outcome.status, outcome.error.message) == ("timeout", "Execution timeout")
    text = "TypeError: Cannot read properties of null (reading 'x') (line 1, column 51)"
    assert told(outcome) == warned(text)


def test_scripts_of_the_seeds_get_the_texts_of_the_seeds(guest):
    assert told(guest.run("Promise.reject(new Error('x')); return 1", raw_results=True)) == []


def test_secrets_in_a_rejection_are_redacted(guest):
    outcome = guest.run(f"Promise.reject(new Error('ghp_{'a' * 36}')); return 1")
    assert told(outcome) == warned("Error: [REDACTED:github-token] (line 1, column 16)")


def test_rejections_count_as_output(guest):
    source = "console.log('abc'); Promise.reject(new Error('x')); return 1"
    outcome = guest.run(source, output_bytes=10)
    assert (outcome.value, told(outcome)) == (1, [("log", "abc"), ("log", "[output truncated]")])


def test_five_are_told_and_none_costs_memory(guest):
    source = "for (let i = 0; i < 20000; i++) Promise.reject(new Array(20000).fill(i)); return 1"
    outcome = guest.run("for (let i = 0; i < 9; i++) Promise.reject(i); return 1")
    assert told(outcome) == warned("0", "1", "2", "3", "4")
    outcome = guest.run(source, memory_bytes=128 << 20)
    assert (outcome.status, outcome.value, len(outcome.console)) == ("ok", 1, 5)


def test_one_that_is_forgotten_after_many_that_are_handled_is_told(guest):
    source = (
        "for (let i = 0; i < 3000; i++) try { await (async () => { throw i })() } catch {}"
        "await Promise.allSettled(Array.from({ length: 3000 }, async (_, n) => { throw n }));"
        "Promise.reject('this'); return 1"
    )
    assert told(guest.run(source)) == warned("this")


HOSTILE = {
    "getters that throw": "Promise.reject({ get name() { throw 1 }, toString() { throw 2 } })",
    "a proxy that traps everything": "Promise.reject(new Proxy(function () {}, { get() { throw 1 }, getPrototypeOf() { throw 2 } }))",
    "a revoked proxy": "const r = Proxy.revocable({}, {}); r.revoke(); Promise.reject(r.proxy)",
    "an error that is a proxy": "Promise.reject(new Proxy(new Error('x'), { get() { throw 1 } }))",
    "a message of a megabyte": "Promise.reject(new Error('m'.repeat(1 << 20)))",
    "a reason that rejects when it is read": "Promise.reject({ toString() { Promise.reject({ toString() { Promise.reject(1); return 'b' } }); return 'a' } })",
    "a reason that prints and calls": "Promise.reject({ toString() { console.log('p'); servers.odd.call('echo', {}).catch(() => 0); return 'a' } })",
    "a reason that changes promises": "Promise.reject({ toString() { Promise.reject = Promise = null; Array.prototype[0] = 1; return 'a' } })",
    "reject replaced": "const r = Promise.reject; Promise.reject = () => { throw 1 }; r.call(Promise, 'x')",
    "then replaced": "Promise.prototype.then = () => { throw 1 }; Promise.reject('x')",
    "constructor replaced": "Object.defineProperty(Promise.prototype, 'constructor', { get() { throw 1 } }); Promise.reject('x')",
    "a thenable": "Promise.reject({ then() { throw 1 } })",
    "a foreign constructor": "try { Promise.reject.call(function (f) { f(() => 0, () => 0) }, 1) } catch {}",
    "rejections in the depth of the stack": "let n = 0; (function f() { Promise.reject(n++); try { f() } finally { Promise.reject(n++) } })()",
    "async recursion to the end of the stack": "let n = 0; const f = async () => { n++; await f(); throw n }; f()",
    "numbered properties": "Object.defineProperty(Array.prototype, 'length', {}); Promise.reject('x')",
}  # fmt: skip


@pytest.mark.parametrize("jit", [False, True])
@pytest.mark.parametrize("source", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_hostile_rejection_fools_its_author_alone(guest, source, jit):
    outcome = guest.run(f"try {{ {source} }} catch {{}} return 1", jit=jit)
    assert (outcome.status in {"ok", "failed"}, outcome.has_value is outcome.ok) == (True, True)
    assert outcome.error is None or outcome.error.name in {"UnawaitedCall", "ToolError"}
    assert len(outcome.console) <= 6
    assert all(len(line.text) < 1100 for line in outcome.console)
    assert guest.value("return 1") == 1


def test_a_rejection_that_never_ends_reading_ends_at_the_limit(guest):
    source = "Promise.reject({ toString() { for (;;); } }); return 1"
    assert guest.failure(source, timeout_ms=300)[0] == "timeout"


def test_a_computation_fails_by_it(guest):
    outcome = guest.compute("emit('1'); Promise.reject(new Error('x'))")
    assert (outcome.status, outcome.error.message, outcome.has_value) == ("failed", "x", False)


@pytest.mark.parametrize("source", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_hostile_rejection_of_a_computation_fools_its_author_alone(guest, source):
    outcome = guest.compute(f"try {{ {source} }} catch {{}}")
    assert (outcome.status in {"ok", "failed"}, outcome.has_value is outcome.ok) == (True, True)
    assert guest.compute("emit(1)").value == "1"
