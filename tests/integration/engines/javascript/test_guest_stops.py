"""Every way to make a program never end, or to ask for too much: its own status, in time, and the host unharmed."""

import os
import time

import pytest

MIB = 1 << 20
LIMIT_MS = 400
GRACE_MS = 30_000
"""For busy machines; `make bench` measures how late a stop is."""
LONG_ENOUGH_TO_WAIT_MS = 2_000
"""By then a program does nothing but wait, on busy machines, too."""
PATIENT_MS = 100_000
"""For what another limit ends: before it does, V8 tries for seconds to find room."""

COMPUTING = ("timeout", "Timeout", f"Script execution timed out after {LIMIT_MS}ms")
WAITING = ("timeout", "Timeout", "Execution timeout")
NOTHING_TO_COME = "it waits for a promise that nothing can settle: no timer and no call is pending"
"""Said at once; who is stopped by the clock is told its limit."""
MEMORY = ("memory_limit", "MemoryLimit", "Out of memory")
STACK = ("failed", "RangeError", "Maximum call stack size exceeded")

ENDLESS = {
    "loop": "for(;;){}",
    "loop after an await": "await sleep(0); for(;;){}",
    "loop inside a microtask": "Promise.resolve().then(() => { for(;;){} }); await sleep(1)",
    "endless microtasks": "for (;;) await Promise.resolve()",
    "loop inside a timer": "setTimeout(() => { for(;;){} }, 1); await sleep(10)",
    "loop inside a tool call's answer": "await servers.nope.call('t').catch(() => { for(;;){} })",
    "loop inside toString of a console value": "console.log({ toString() { for(;;){} } })",
    "loop inside toJSON of an argument": "await servers.odd.call('echo', { text: { toJSON() { for(;;){} } } })",
    "loop inside toJSON of the result": "return { toJSON() { for(;;){} } }",
    "loop inside a getter of the result": "return { get a() { for(;;){} } }",
    "loop inside a trap of the result": "return new Proxy({}, { ownKeys() { for(;;){} } })",
    "loop inside then of the result": "return { then() { for(;;){} } }",
    "loop inside a getter of an error": "throw Object.defineProperty(new Error(), 'name', { get() { for(;;){} } })",
    "loop inside a trap of an error": "throw new Proxy(new Error(), { getPrototypeOf() { for(;;){} } })",
    "catastrophic regular expression": "/^(a+)+$/.test('a'.repeat(60) + 'b')",
    "a builtin that cannot be interrupted": "Array.prototype.includes.call({ length: 2**53 - 1 }, 1)",
    "recursion that comes back": "const f = () => { try { f() } finally { f() } }; f()",
    "endless timers": "for (;;) setTimeout(() => 0, 1e6)",
    "endless output": "for (;;) console.log('x'.repeat(1000))",
}
PENDING = {
    "a long sleep": "await sleep(30_000)",
    "a timer beyond what poll can wait for": "await new Promise(r => setTimeout(r, 2**31))",
    "a timer in the far future": "await new Promise(r => setTimeout(r, 1e300))",
    "a call without an answer": "await servers.odd.call('hang')",
}
STUCK = {
    "a promise that never settles": "await new Promise(() => {})",
    "a thenable that never settles": "return { then() {} }",
    "a timer that never comes": "await new Promise(r => setTimeout(r, Infinity))",
    "a timer that was cleared": "const t = setTimeout(() => 0, 1e6); clearTimeout(t); await new Promise(() => {})",
}
GREEDY = {
    "four long strings as a result": "return [1, 2, 3, 4].map(() => 'x'.repeat(2**26))",
    "a long string of wide characters as a result": "return '\u20ac'.repeat(2**25)",
    "a long string in arguments": "await servers.odd.echo({text: 'x'.repeat(70 * 2**20)})",
    "an array of 2**28 strings": "'x'.repeat(2**28).split('')",
    "a flood of objects": "const a = []; for (;;) a.push({ a: 1, b: [1, 2, 3] })",
    "a flood of strings": "const a = []; for (let i = 0;; i++) a.push('y'.repeat(1e6) + i)",
    "a result that does not fit": "return 'x'.repeat(400 * 1024 * 1024)",
    "a text of escapes": "const a = []; for (;;) a.push(JSON.stringify('\\ud800'.repeat(1024 * 1024)))",
    "an integer without end": "let x = 2n; for (;;) x = x * x",
    "a sparse array": "const a = []; for (let i = 0;; i++) a[i * 1000] = i",
}


def in_time(guest, source, *, limit_ms=LIMIT_MS, **options):
    started = time.perf_counter()
    end = guest.failure(source, timeout_ms=limit_ms, **options)
    took = (time.perf_counter() - started) * 1000
    assert took < limit_ms + GRACE_MS
    assert guest.value("1 + 1") == 2
    return end


@pytest.mark.parametrize("source", ENDLESS.values(), ids=ENDLESS.keys())
def test_x13_x14_x15_a_program_that_computes_for_ever(guest, source):
    assert in_time(guest, source) == COMPUTING


def test_a_program_that_computes_for_ever_with_the_jit(guest):
    assert in_time(guest, "await sleep(0); for(;;){}", jit=True) == COMPUTING


def test_a_program_whose_output_nobody_reads_in_time_computes(guest):
    """A host with too much to do reads late, and the program is held in the middle of a line."""
    heard = []

    def busy(line):
        heard.append(line)
        if len(heard) == 1:
            over = time.monotonic() + LIMIT_MS / 1000
            while time.monotonic() < over:
                os.sched_yield()

    request = guest.request(ENDLESS["endless output"], timeout_ms=LIMIT_MS)
    outcome = guest.execute(request, on_console=busy)
    assert (outcome.status, outcome.error.name, outcome.error.message) == COMPUTING
    assert outcome.error.hint == f"it was computing when its time was up; the limit is {LIMIT_MS} ms"


@pytest.mark.parametrize("source", PENDING.values(), ids=PENDING.keys())
def test_x16_a_program_that_waits_for_too_long(guest, source):
    assert in_time(guest, source, limit_ms=LONG_ENOUGH_TO_WAIT_MS) == WAITING


@pytest.mark.parametrize("source", STUCK.values(), ids=STUCK.keys())
def test_x16_a_program_that_waits_for_nothing(guest, source):
    outcome = guest.run(source)
    assert (outcome.status, outcome.error.name, outcome.error.message) == WAITING
    assert outcome.error.hint == NOTHING_TO_COME


@pytest.mark.parametrize("jit", [False, True])
@pytest.mark.parametrize("source", GREEDY.values(), ids=GREEDY.keys())
def test_a_program_that_takes_too_much_memory(guest, source, jit):
    assert guest.failure(source, memory_bytes=96 * MIB, jit=jit, timeout_ms=PATIENT_MS) == MEMORY
    assert guest.value("1 + 1") == 2


@pytest.mark.parametrize(
    "source",
    [
        "return new ArrayBuffer(8 * 2**30).byteLength",
        "const a = []; for (;;) a.push(new ArrayBuffer(1 << 20))",
        "const a = []; for (;;) { const b = new ArrayBuffer(64 << 20); new Uint8Array(b).fill(1); a.push(b) }",
    ],
)
def test_array_buffers_of_8_gb_in_one_and_in_pieces(guest, source):
    outcome = guest.run(source, memory_bytes=96 * MIB, timeout_ms=PATIENT_MS)
    assert outcome.status == "memory_limit"
    assert outcome.error.message in {"Array buffer allocation failed", "Out of memory"}
    assert outcome.error.hint == "the memory limit is 100663296 bytes"
    assert guest.value("1 + 1") == 2


@pytest.mark.parametrize(
    "source",
    [
        "(function f() { f() })()",
        "const o = { toString() { servers[o]; return 'x' } }; servers[o]",
        "const o = { get a() { return JSON.stringify(o) } }; servers.odd.call('echo', o)",
        "const o = { toJSON() { return JSON.stringify(o) } }; return o",
        "const o = { get then() { return Promise.resolve(o).then } }; const f = () => [f()]; f()",
    ],
)
def test_recursion_without_end(guest, source):
    assert guest.failure(source) == STACK


@pytest.mark.parametrize("jit", [False, True])
@pytest.mark.parametrize(
    "step",
    [
        "console.log('x')",
        "console.log('x'.repeat(70_000))",
        "servers.nope.call('t').catch(() => 0)",
        "servers.nope.call('t', { text: 'x'.repeat(15_000) }).catch(() => 0)",
        "servers.nope.call('t', { get text() { return 'x' } }).catch(() => 0)",
        "setTimeout(() => 0, 1)",
        "sleep(1)",
        "clearTimeout(setTimeout(() => 0, 1))",
    ],
)
def test_a_stack_overflow_inside_the_glue_breaks_nothing(guest, step, jit):
    # The recursion ends inside the glue at some depth; several recursions try several depths.
    source = (
        "let ends = 0; const f = (pad) => g(pad); const g = (pad) => {"
        f" try {{ {step} }} catch {{ ends++; return }} f(pad) }};"
        " for (let i = 0; i < 3; i++) { try { f(i) } catch { ends++ } }"
        " console.log('still here'); await sleep(5); return ends >= 3"
    )
    # Compiled frames are small: tens of thousands of calls, each of which the host answers.
    outcome = guest.run(source, jit=jit, timeout_ms=PATIENT_MS)
    if step.startswith("servers") and outcome.error is not None:
        # The stack ended between a call and its `catch`, a slow machine has answers still to come, or the frames of
        # compiled code, which are small and so very many, hold more texts than memory does.
        end = (outcome.status, outcome.error.name)
        full = [("memory_limit", "MemoryLimit")] if jit and "15_000" in step else []
        assert end in [("failed", "ToolError"), ("failed", "UnawaitedCall"), *full]
    else:
        assert (outcome.status, outcome.error, outcome.value) == ("ok", None, True)
    if outcome.status != "memory_limit":
        logged = [line.text for line in outcome.console if line.level == "log"]  # a warning may come after it
        assert outcome.console_truncated or logged[-1] == "still here"
    assert guest.value("return await servers.odd.call('echo', { text: 'clean' })") == "clean"


def test_x20_a_flood_of_output_is_capped_while_it_comes(guest):
    outcome = guest.run("for (;;) console.log('x'.repeat(1000))", timeout_ms=LIMIT_MS, output_bytes=10_000)
    assert outcome.status == "timeout"
    assert [line.text for line in outcome.console] == ["x" * 1000] * 10 + ["[output truncated]"]


def test_a_flood_of_calls_meets_its_limit(guest):
    source = (
        "const ends = await Promise.allSettled(Array.from({ length: 30 }, (_, i) => servers.odd.call('echo', { text: `${i}!` })));"
        "return ends.map(({ value, reason }) => value ?? `${reason.name}: ${reason.message}`)"
    )
    outcome = guest.run(source, host_calls=20)
    refused = "LimitError: Host call limit reached (20 calls in one execution)"
    assert outcome.value == [*[f"{i}!" for i in range(20)], *[refused] * 10]
    assert len(outcome.calls) == outcome.usage.host_calls == 20


def test_a_flood_of_calls_that_nobody_waits_for(guest):
    assert guest.failure("for (let i = 0; i < 1e4; i++) servers.nope.call('t'); return 1", host_calls=3) == (
        "failed",
        "LimitError",
        "Host call limit reached (3 calls in one execution)",
    )


def test_arguments_that_are_too_large_can_be_caught(guest):
    source = (
        "try { await servers.odd.call('echo', { text: 'x'.repeat(17 * 1024 * 1024) }) }"
        " catch (e) { return [e.name, e.message, await servers.odd.call('echo', { text: 'small' })] }"
    )
    message = "servers.odd: the arguments of echo are larger than 16777216 bytes"
    assert guest.value(source) == ["RangeError", message, "small"]


def test_arguments_in_flight_are_bounded_in_total(guest):
    source = (
        "const text = 'x'.repeat(12 * 1024 * 1024); const calls = [];"
        "for (let i = 0; i < 8; i++) { calls.push(servers.odd.call('hang', { text })); await sleep(0) }"
        "const seen = new Set(); for (const c of calls) c.catch((e) => seen.add(`${e.name}: ${e.message}`));"
        "await sleep(300); console.log(...seen); return 1"
    )
    outcome = guest.run(source)
    text = "LimitError: The arguments of the calls in flight are larger than 67108864 bytes"
    assert [line.text for line in outcome.console] == [text]


def test_a_huge_result_of_objects(guest):
    value = guest.value("return Array.from({ length: 2e6 }, (_, i) => i)", raw_results=True)
    assert value.endswith("... [result truncated]")
    assert len(value) == 10_485_760 + len("... [result truncated]")


@pytest.mark.parametrize("character", ["€", "\\0"])
def test_x21_a_result_that_grows_on_its_way_is_cut_further(guest, character):
    value = guest.value(f"return '{character}'.repeat(7 * 1024 * 1024)", raw_results=True)
    assert value.endswith("... [result truncated]")
    assert len(value) > 1 << 20


@pytest.mark.parametrize("depth", [201, 1_000, 100_000])
def test_a_result_nested_too_deeply(guest, depth):
    source = f"console.log('before'); let a = 1; for (let i = 0; i < {depth}; i++) a = [a]; return a"
    outcome = guest.run(source)
    assert (outcome.status, outcome.error.name, outcome.error.message) == (
        "failed",
        "RangeError",
        "The program returned or passed a value nested more than 200 levels deep",
    )
    assert [line.text for line in outcome.console] == ["before"]


def test_a_result_nested_as_deeply_as_allowed(guest):
    value = guest.value("let a = 1; for (let i = 0; i < 200; i++) a = i % 2 ? [a] : { a }; return a")
    for step in range(200):
        value = value["a"] if step % 2 else value[0]
    assert value == 1


def test_arguments_nested_too_deeply(guest):
    source = "let a = 1; for (let i = 0; i < 100_000; i++) a = [a]; await servers.odd.call('echo', { a })"
    assert guest.failure(source) == (
        "failed",
        "RangeError",
        "The program returned or passed a value nested more than 200 levels deep",
    )


def test_very_many_timers(guest):
    source = (
        "let n = 0, last = 0, wrong = 0; const fire = (due) => { n++; if (due < last) wrong++; last = due };"
        "for (let i = 0; i < 20_000; i++) { const d = (i * 7919) % 40; setTimeout(fire, d, d) }"
        "await sleep(60); return [n, wrong]"
    )
    assert guest.value(source)[0] == 20_000


def test_console_before_an_endless_loop_survives(guest):
    outcome = guest.run(
        "console.log('one'); console.log('two'.repeat(20_000)); for (;;) {}", timeout_ms=LIMIT_MS
    )
    assert outcome.status == "timeout"
    assert [line.text for line in outcome.console] == ["one", "two" * 20_000]


def test_a_call_that_nobody_waited_for(guest):
    outcome = guest.run("const a = 1\nservers.odd.call('echo', { text: 'x' }); return a")
    assert (outcome.status, outcome.error.name, outcome.error.message, outcome.error.hint) == (
        "failed",
        "UnawaitedCall",
        "the program ended without waiting for odd.echo",
        "put `await` before the call, or collect the calls in `await Promise.all([...])`; "
        "`forEach` waits for none, `for (... of ...)` does",
    )
    assert (outcome.error.line, outcome.error.column) == (2, 13)


def test_a_call_in_a_callback_that_nobody_waited_for(guest):
    source = "[1, 2].forEach(async (n) => {\n  await servers.odd.call('echo', { text: n })\n})\nreturn 1"
    outcome = guest.run(source)
    assert (outcome.error.name, outcome.error.line, outcome.error.column) == ("UnawaitedCall", 2, 21)
    assert outcome.error.excerpt.startswith("  await servers.odd.call(")


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("return await Promise.race([servers.odd.call('hang'), sleep(5).then(() => 'late')])", "late"),
        (
            "return await Promise.any([servers.odd.call('hang'), servers.odd.call('echo', { text: 'x' })])",
            "x",
        ),
        (
            "const work = (async () => (await servers.odd.call('hang')).text)();"
            " const late = new Promise((_, no) => setTimeout(() => no(new Error('late')), 5));"
            " try { return await Promise.race([work, late]) } catch (error) { return error.message }",
            "late",
        ),
    ],
)
def test_a_call_that_lost_a_race_is_no_forgotten_one(guest, source, value):
    outcome = guest.run(source)
    assert (outcome.status, outcome.error, outcome.value, outcome.in_flight) == ("ok", None, value, 1)
    assert [(line.level, line.text) for line in outcome.console] == [
        ("warn", "Cancelled, because the program ended without waiting for them: odd.hang")
    ]


def test_a_call_after_a_race_and_a_race_that_nobody_waited_for_are_forgotten(guest):
    hang = "servers.odd.call('hang')"
    for source in (
        f"await Promise.race([1, sleep(5)]); {hang}; return 1",
        f"Promise.race([{hang}, sleep(900)]); return 1",
    ):
        assert guest.failure(source) == (
            "failed",
            "UnawaitedCall",
            "the program ended without waiting for odd.hang",
        )


def test_who_goes_on_after_a_failed_all_leaves_the_other_calls_behind(guest):
    calls = "Promise.all([servers.odd.call('hang'), servers.nope.call('t')])"
    outcome = guest.run(f"try {{ await {calls} }} catch (error) {{ return error.message }}")
    assert (outcome.status, outcome.value) == ("ok", "Unknown server: nope; known: odd, even.")
    assert [(line.level, line.text) for line in outcome.console] == [
        ("warn", "Cancelled, because the program ended without waiting for them: odd.hang")
    ]
    assert guest.failure("servers.odd.call('hang'); return await Promise.all([1])")[1] == "UnawaitedCall"
    assert guest.failure("Promise.all([servers.odd.call('hang')]); return 1")[1] == "UnawaitedCall"


def test_races_are_those_of_the_language(guest):
    source = """
      class Other extends Promise {}
      const told = async (run) => { try { return await run() } catch (error) { return String(error) } }
      return [
        Promise.race.name, Promise.any.length, Object.keys(Promise), Other.any([1]) instanceof Other,
        await told(() => Promise.race(5)), await told(() => Promise.race.call(1, [])),
        await told(() => Promise.any([Promise.reject(1)])), await told(() => Promise.race([Promise.reject(2)])),
        await Promise.race(new Set([3, sleep(5)])), await Promise.any([Promise.reject(1), sleep(1), 4]),
        Promise.all.name, Promise.all.length, await Promise.all([1, sleep(1), Promise.resolve(2)]),
        await told(() => Promise.all([Promise.reject(5), 1])), await Promise.all([]),
      ]
    """
    assert guest.value(source) == [
        "race", 1, [], True,
        "TypeError: number 5 is not iterable (cannot read property Symbol(Symbol.iterator))",
        "TypeError: Promise.race called on non-object",
        "AggregateError: All promises were rejected", "2", 3, 4,
        "all", 1, [1, None, 2], "5", [],
    ]  # fmt: skip


def test_a_failed_call_that_nobody_looked_at(guest):
    later = "await servers.nope.call('t').catch(() => 0)"  # by then the one before it has failed
    assert guest.failure(f"servers.nope.call('t'); {later}; return 1") == (
        "failed",
        "ToolError",
        "Unknown server: nope; known: odd, even.",
    )
    assert guest.value(f"servers.nope.call('t').catch(() => 0); {later}; return 1") == 1
