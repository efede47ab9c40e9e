"""The cases X of code mode, and those of M that concern the guest alone, through the gate."""

import time

import pytest

from paddock.surfaces.rendering.render import output_text


def lines(outcome):
    return [(line.level, line.text) for line in outcome.console]


def test_x1_a_returned_value_is_the_result(guest):
    outcome = guest.run("return 1 + 1")
    assert (outcome.status, outcome.value, outcome.has_value, output_text(outcome)) == ("ok", 2, True, "2")


def test_m13_the_value_of_the_last_expression_is_the_result(guest):
    assert guest.value("1 + 1") == 2


def test_x2_console_comes_before_the_value(guest):
    outcome = guest.run("console.log('hello'); return 42")
    assert lines(outcome) == [("log", "hello")]
    assert output_text(outcome) == "hello\n42"


def test_x3_all_levels_of_the_console(guest):
    source = "console.log('a');console.warn('b');console.error('c');console.info('d');console.debug('e')"
    outcome = guest.run(source)
    assert lines(outcome) == [("log", "a"), ("warn", "b"), ("error", "c"), ("info", "d"), ("debug", "e")]
    assert output_text(outcome) == "a\n[warn] b\n[error] c\n[info] d\n[debug] e"


def test_x4_a_program_without_a_value(guest):
    outcome = guest.run("const x = 1")
    assert (outcome.status, outcome.value, outcome.has_value, output_text(outcome)) == ("ok", None, False, "")


def test_x5_objects_are_indented_by_two(guest):
    assert output_text(guest.run("return {a:[1,2]}")) == '{\n  "a": [\n    1,\n    2\n  ]\n}'


def test_x6_a_text_stays_as_it_is(guest):
    assert output_text(guest.run("return 'str'")) == "str"


@pytest.mark.parametrize(
    ("source", "name"), [("return require('fs')", "require"), ("return process.exit(1)", "process")]
)
def test_x7_nothing_of_node_is_defined(guest, source, name):
    assert guest.failure(source) == ("failed", "ReferenceError", f"{name} is not defined")
    assert guest.value("1") == 1


NO_CODE = ("failed", "EvalError", "Code generation from strings disallowed for this context")


def test_x8_the_constructor_of_this(guest):
    source = "return this.constructor.constructor('return process')()"
    assert guest.failure(source) == NO_CODE
    assert guest.failure(source, raw_results=True) == (
        "failed",
        "TypeError",
        "Cannot read properties of undefined (reading 'constructor')",
    )


@pytest.mark.parametrize(
    "function",
    [
        "Object.constructor",
        "sleep.constructor",
        "console.log.constructor",
        "setTimeout.constructor",
        "servers.a.call.constructor",
        "Promise.resolve().constructor.constructor",
    ],
)
def test_x9_no_object_of_the_host_makes_code(guest, function):
    assert guest.failure(f"return {function}('return process')()") == NO_CODE


@pytest.mark.parametrize(
    "source",
    [
        "return eval('1+1')",
        "return new Function('return 1')()",
        "return (function () {}).constructor('return 1')()",
        "return (async () => {}).constructor('')",
        "return (function* () {}).constructor('')",
        "return (async function* () {}).constructor('')",
    ],
)
def test_x10_m22_no_code_comes_from_strings(guest, source):
    assert guest.failure(source) == NO_CODE


def test_x11_no_shared_memory_and_no_webassembly(guest):
    assert guest.value("return typeof SharedArrayBuffer + typeof WebAssembly") == "undefinedundefined"


def test_x12_pollution_fails_and_never_reaches_the_next_execution(guest):
    assert guest.failure("Object.prototype.polluted = true") == (
        "failed",
        "TypeError",
        "Cannot add property polluted, object is not extensible",
    )
    assert guest.value("Object.prototype.toString = () => 'mine'; return String({})") == "mine"
    assert guest.value("return [({}).polluted === undefined, String({})]") == [True, "[object Object]"]


@pytest.mark.parametrize(
    "source",
    [
        pytest.param("while(true){}", id="x13"),
        pytest.param("await sleep(0); while(true){}", id="x14"),
        pytest.param("Promise.resolve().then(()=>{for(;;){}}); await sleep(1)", id="x15"),
    ],
)
def test_x13_x14_x15_an_endless_loop_ends_at_the_limit(guest, source):
    started = time.perf_counter()
    assert guest.failure(source, timeout_ms=300) == (
        "timeout",
        "Timeout",
        "Script execution timed out after 300ms",
    )
    assert time.perf_counter() - started < 30
    assert guest.value("1") == 1


def test_x16_a_promise_that_never_settles_is_reported_at_once(guest):
    outcome = guest.run("await new Promise(()=>{})")
    assert (outcome.status, outcome.error.name, outcome.error.message) == (
        "timeout",
        "Timeout",
        "Execution timeout",
    )
    assert (
        outcome.error.hint
        == "it waits for a promise that nothing can settle: no timer and no call is pending"
    )


def test_x17_after_a_timeout_nothing_goes_on(guest):
    source = (
        "setTimeout(() => { console.log('late'); servers.odd.call('pid') }, 2000);"
        "console.log('early'); await sleep(0); await new Promise(() => {})"
    )
    request = guest.request(source, timeout_ms=1000)
    heard = []
    outcome = guest.execute(request, on_console=heard.append)
    assert (outcome.status, lines(outcome), outcome.calls) == ("timeout", [("log", "early")], ())
    assert guest.value("await sleep(1500); return 1") == 1
    assert [line.text for line in heard] == ["early"]


def test_the_code_size_of_an_agents_program_is_exact(guest):
    start = "return 7 // "
    assert guest.value(start + "x" * (262_144 - len(start))) == 7
    outcome = guest.run(start + "x" * (262_145 - len(start)))
    assert (outcome.status, outcome.error.message, outcome.error.hint) == (
        "denied",
        "Code size exceeds limit (262144 bytes)",
        "the program has 262145 bytes; shorten it, or raise `limits.execute.code_bytes` in paddock.toml",
    )


def test_x20_m15_output_is_cut_once(guest):
    outcome = guest.run("for (let i = 0; i < 12000; i++) console.log('x'.repeat(1000)); return 1")
    assert (outcome.status, outcome.value, outcome.console_truncated) == ("ok", 1, True)
    assert len(outcome.console) == 10_486
    assert lines(outcome)[-1] == ("log", "[output truncated]")
    assert set(lines(outcome)[:-1]) == {("log", "x" * 1000)}


def test_x20_after_the_cut_short_lines_are_dropped_too(guest):
    outcome = guest.run("console.log('abc'); console.log('defg'); console.log('h')", output_bytes=5)
    assert lines(outcome) == [("log", "abc"), ("log", "[output truncated]")]


def test_x20_empty_lines_are_bounded(guest):
    outcome = guest.run("for (let i = 0; i < 100_010; i++) console.log(''); return 1")
    assert (outcome.status, outcome.console_truncated, len(outcome.console)) == ("ok", True, 100_001)


def test_x21_a_large_result_is_cut(guest):
    large = guest.value("return 'x'.repeat(11*1024*1024)", raw_results=True)
    assert large == "x" * 10_485_760 + "... [result truncated]"
    cut = guest.value("return [1,2,3,4]", raw_results=True, result_bytes=5)
    assert cut == "[1,2,... [result truncated]"


def test_x22_sleep_waits(guest):
    assert guest.value("const t=Date.now(); await sleep(100); return Date.now()-t >= 50") is True


def test_m16_sleep_is_capped(guest):
    assert (
        guest.value("const t=Date.now(); await sleep(60000); return Date.now()-t < 50000", sleep_ms=20)
        is True
    )


def test_x23_a_timer_settles_a_promise(guest):
    assert guest.value("return await new Promise(r=>setTimeout(()=>r(42),10))") == 42


def test_x24_a_cleared_timer_does_not_fire(guest):
    outcome = guest.run("const h=setTimeout(()=>console.log('no'),5); clearTimeout(h); await sleep(20)")
    assert (outcome.status, lines(outcome)) == ("ok", [])


def test_x25_m26_an_unknown_server(guest):
    assert guest.failure("return await servers.nonexistent.call('t',{})") == (
        "failed",
        "ToolError",
        "Unknown server: nonexistent; known: odd, even.",
    )
    source = "try { await servers.nonexistent.call('t') } catch (e) { return [e.name, e.message, e instanceof Error] }"
    assert guest.value(source) == ["ToolError", "Unknown server: nonexistent; known: odd, even.", True]


def test_x26_two_servers_in_order(guest):
    source = "return await Promise.all([servers.odd.call('echo',{text:'a'}), servers.even.call('echo',{text:'b'})])"
    outcome = guest.run(source)
    assert (outcome.status, outcome.value) == ("ok", ["a", "b"])
    made = sorted((call.server, call.tool, call.status.value) for call in outcome.calls)
    assert made == [("even", "echo", "ok"), ("odd", "echo", "ok")]


def test_x27_a_tool_that_reports_failure(guest):
    raw = {"content": [{"type": "text", "text": "it broke"}], "isError": True}
    assert guest.value("return await servers.odd.call('is_error')", raw_results=True) == raw
    assert guest.value("return await servers.odd.callRaw('is_error')") == raw
    assert guest.failure("return await servers.odd.call('is_error')") == ("failed", "ToolError", "it broke")
    told = "the tool failed and did not say why"
    assert guest.failure("await servers.odd.is_error({ mute: 1 })") == ("failed", "ToolError", told)


@pytest.mark.parametrize(
    ("also", "told", "content"),
    [
        ({"structuredContent": {"code": 429}}, "it broke", {"code": 429}),
        ({"content": [], "structuredContent": {"code": 429}}, '{"code": 429}', {"code": 429}),
        (
            {
                "content": [
                    {"type": "image", "data": "aGk="},
                    {"type": "text", "text": "a"},
                    {"type": "text", "text": "b"},
                ]
            },
            "a\nb",
            [{"type": "image", "data": "aGk="}, {"type": "text", "text": "a"}, {"type": "text", "text": "b"}],
        ),
    ],
)
def test_a_failure_is_told_in_its_own_words(guest, also, told, content):
    source = "try { await servers.odd.is_error(input) } catch (e) { return [e.message, e.content] }"
    assert guest.value(source, given={"also": also}) == [told, content]


def test_x36_secrets_are_redacted_in_every_part(guest):
    key = "ghp_" + "a" * 36
    assert guest.value(f"return {{key: 'x {key}', password: 'hunter2'}}") == {
        "key": "x [REDACTED:github-token]",
        "password": "[REDACTED:secret]",
    }
    source = f"console.log('{key}'); const e = new Error('{key}'); e.name = '{key}'; throw e"
    outcome = guest.run(source)
    assert lines(outcome) == [("log", "[REDACTED:github-token]")]
    assert (outcome.error.name, outcome.error.message) == (
        "[REDACTED:github-token]",
        "[REDACTED:github-token]",
    )


def test_x40_m24_console_before_an_error_survives(guest):
    outcome = guest.run("console.log(1)\nthrow new Error('x')")
    assert (outcome.status, lines(outcome)) == ("failed", [("log", "1")])
    assert (outcome.error.name, outcome.error.message, outcome.error.line, outcome.error.column) == (
        "Error",
        "x",
        2,
        7,
    )


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (
            "mentu.vars.NAME = 'x'",
            "Cannot assign to read only property 'NAME' of object '[object Object]'",
        ),
        ("paddock.foo = 1", "Cannot add property foo, object is not extensible"),
        (
            "mentu.workspace.path = 1",
            "Cannot assign to read only property 'path' of object '[object Object]'",
        ),
    ],
)
def test_m9_the_sdk_is_frozen(guest, source, message):
    assert guest.failure(source, variables={"NAME": "world"}) == ("failed", "TypeError", message)


@pytest.mark.parametrize(
    ("source", "facts"),
    [("return null", (None, True)), ("const x = 1", (None, False)), ("return undefined", (None, False))],
)
def test_m12_null_is_a_value_and_undefined_is_none(guest, source, facts):
    outcome = guest.run(source)
    assert (outcome.value, outcome.has_value) == facts


ABSENT = [
    "require",
    "process",
    "Buffer",
    "fetch",
    "module",
    "exports",
    "__dirname",
    "__filename",
    "SharedArrayBuffer",
    "WebAssembly",
    "global",
    "fs",
    "Atomics",
    "Worker",
    "XMLHttpRequest",
    "__paddock",
]
FURTHER = ["setInterval", "globalThis", "FinalizationRegistry", "WeakRef"]
"""What scripts under the compat names do not have either."""


@pytest.mark.parametrize(("names", "raw"), [(ABSENT, False), ([*ABSENT, *FURTHER], True)])
def test_m21_nothing_of_the_host_is_there(guest, names, raw):
    source = f"return [{', '.join(f'typeof {name}' for name in names)}]"
    assert guest.value(source, raw_results=raw) == ["undefined"] * len(names)
