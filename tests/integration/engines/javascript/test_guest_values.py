"""What goes into a program and comes out of it: values, texts and errors, strange and hostile ones too."""

import pytest


def texts(outcome):
    return [line.text for line in outcome.console]


def test_lone_surrogates_survive_every_way(guest):
    strange = "a\ud800b\udc00\ud83d\ude00"  # a lone head, a lone tail, and a pair in two halves
    joined = "a\ud800b\udc00\U0001f600"
    literal = r"a\ud800b\udc00\ud83d\ude00"
    outcome = guest.run(f"console.log('{literal}'); return ['{literal}', {{ '{literal}': 1 }}]")
    assert (texts(outcome), outcome.value) == ([joined], [joined, {joined: 1}])
    assert guest.value("return [...input].map((c) => c.codePointAt(0))", given=strange) == [
        97, 0xD800, 98, 0xDC00, 0x1F600,
    ]  # fmt: skip
    assert guest.value(f"return await servers.odd.call('echo', {{ text: '{literal}!' }})") == joined + "!"
    assert guest.failure(f"throw new Error('{literal}')") == ("failed", "Error", joined)
    assert guest.failure("await servers['\\ud800'].call('t')") == (
        "failed",
        "ToolError",
        "Unknown server: \ud800; known: odd, even.",
    )


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        0,
        -1.5,
        1e300,
        2**53,
        "",
        "\0\u2028\u2029\u007f\uffff",
        [],
        {},
        [[[]]],
        {"a": [{"": None}]},
    ],
)
def test_values_make_the_round_trip(guest, value):
    assert guest.value("return { v: input }", given={"x": value}) == {"v": {"x": value}}
    assert guest.value("return await servers.odd.callRaw('echo', { text: input })", given={"x": value}) == {
        "content": [{"type": "text", "text": {"x": value}}]
    }


def test_keys_that_mean_something_to_javascript(guest):
    names = ["__proto__", "constructor", "toString", "then", "toJSON", "length", "0"]
    value = dict.fromkeys(names, 1)
    assert guest.value("return input", given=value) == value
    assert guest.value("return Object.getPrototypeOf(input) === Object.prototype", given=value) is True
    raw = guest.value("return await servers.odd.callRaw('echo', { text: input })", given=value)
    assert raw["content"][0]["text"] == value
    assert guest.value("return { ['__proto__']: 1 }") == {"__proto__": 1}
    assert guest.value(
        "return await servers.odd.callRaw('echo', { text: 'x', ['__proto__']: { polluted: 1 } })"
    ) == {"content": [{"type": "text", "text": "x"}]}
    variables = {"__proto__": "a", "constructor": "b"}
    assert guest.value("return [paddock.vars.__proto__, paddock.vars.constructor]", variables=variables) == [
        "a",
        "b",
    ]


JSON_FORMS = {
    "return [undefined, () => 1, Symbol('x'), NaN, -0, Infinity]": [None, None, None, None, 0, None],
    "return { a: undefined, b() {}, c: new Date(0), d: new Map([[1, 2]]), e: new Set([1]) }": {
        "c": "1970-01-01T00:00:00.000Z", "d": {}, "e": {},
    },
    "return [new Number(1), new String('a'), new Boolean(false)]": [1, "a", False],
    "return { toJSON: () => [1] }": [1],
    "return { get a() { return 1 } }": {"a": 1},
    "return new Proxy([1, 2], {})": [1, 2],
    "return { then(resolve) { resolve(7) } }": 7,
    "return Promise.resolve(Promise.resolve({ a: Promise.resolve(1) }))": {"a": {}},
    "class P extends Promise { then(f) { f(5) } } return new P(() => 0)": 5,
    "return [console, sleep]": [{}, None],
    "return { [Symbol('x')]: 1, b: 2 }": {"b": 2},
}  # fmt: skip


@pytest.mark.parametrize(("source", "value"), JSON_FORMS.items())
def test_a_result_is_what_json_makes_of_it(guest, source, value):
    outcome = guest.run(source)
    assert (outcome.status, outcome.value, outcome.calls) == ("ok", value, ())


@pytest.mark.parametrize("source", ["return Symbol('x')", "return () => 1", "return { toJSON() {} }"])
def test_a_result_without_a_json_form_is_none(guest, source):
    outcome = guest.run(source)
    assert (outcome.status, outcome.has_value) == ("ok", False)


CIRCLE = (
    "Converting circular structure to JSON\n    --> starting at object with constructor 'Object'\n"
    "    --- property 'self' closes the circle"
)


@pytest.mark.parametrize(
    ("source", "name", "message"),
    [
        ("const o = {}; o.self = o; return o", "TypeError", CIRCLE),
        ("return 10n ** 4000n", "TypeError", "Do not know how to serialize a BigInt"),
        ("return { get a() { throw new RangeError('no') } }", "RangeError", "no"),
        ("return { toJSON() { throw new RangeError('no') } }", "RangeError", "no"),
        ("return new Proxy({}, { get() { throw 1 } })", "Thrown", "1"),
        ("return new Proxy({}, { ownKeys() { throw new Error('trap') } })", "Error", "trap"),
        ("const { proxy, revoke } = Proxy.revocable({}, {}); revoke(); return { proxy }", "TypeError",
         "Cannot perform 'get' on a proxy that has been revoked"),
        ("return { then() { throw new Error('in then') } }", "Error", "in then"),
        ("return { get then() { throw new Error('at then') } }", "Error", "at then"),
    ],
)  # fmt: skip
def test_a_result_that_throws(guest, source, name, message):
    assert guest.failure(source) == ("failed", name, message)


ARGUMENTS = {
    "5": "servers.odd: the arguments of echo must be one object",
    "'text'": "servers.odd: the arguments of echo must be one object",
    "[1]": "servers.odd: the arguments of echo must be one object",
    "() => 1": "servers.odd: the arguments of echo must be one object",
    "new Date()": "servers.odd: the arguments of echo must be one object, also as JSON",
    "new Number(5)": "servers.odd: the arguments of echo must be one object, also as JSON",
    "{ toJSON() { return [1] } }": "servers.odd: the arguments of echo must be one object, also as JSON",
    "{ toJSON() { return null } }": "servers.odd: the arguments of echo must be one object, also as JSON",
    "{ toJSON() {} }": "servers.odd: the arguments of echo have no JSON form",
    "{ a: new Number(NaN) }": (
        "servers.odd.echo was not called: arguments.a is NaN, in JSON null: check the calculation"
    ),
    "{ a: 10n ** 4000n }": (
        "servers.odd.echo was not called: arguments.a is a BigInt of more than 4000 digits, which JSON readers "
        "reject: use String(n)"
    ),
}


@pytest.mark.parametrize(("given", "message"), ARGUMENTS.items())
def test_arguments_that_are_no_object_can_be_caught(guest, given, message):
    source = f"try {{ await servers.odd.call('echo', {given}) }} catch (e) {{ return [e.name, e.message] }}"
    assert guest.value(source) == ["TypeError", message]


def test_names_that_are_too_long_can_be_caught(guest):
    message = "the name of a server or tool is longer than 256 characters"
    for call in ("servers['x'.repeat(257)].call('t')", "servers.odd.call('x'.repeat(257))"):
        assert guest.value(f"try {{ await {call} }} catch (e) {{ return e.message }}") == message
    assert (
        guest.failure("await servers['x'.repeat(256)].call('t')")[2]
        == "Unknown server: " + "x" * 256 + "; known: odd, even."
    )


def test_m26_a_tool_name_that_is_no_text(guest):
    assert guest.failure("await servers.odd.call(5)") == (
        "failed",
        "TypeError",
        "servers.odd.call(tool, args): tool must be a string",
    )


@pytest.mark.parametrize("use", ["`${servers.odd}`", "servers.odd + 1"])
def test_a_server_has_no_text_form_and_calls_no_tool_for_one(guest, use):
    outcome = guest.run(f"try {{ {use} }} catch (e) {{ return e.message }}")
    assert (outcome.value, outcome.calls) == ("Cannot convert object to primitive value", ())


@pytest.mark.parametrize(
    ("source", "facts"),
    [
        ("throw null", ("Thrown", "null", "null")),
        ("throw undefined", ("Thrown", "undefined", "undefined")),
        ("throw Symbol('q')", ("Thrown", "Symbol(q)", "Symbol(q)")),
        ("throw 'str'", ("Thrown", "str", "str")),
        ("throw { a: 1 }", ("Thrown", "[object Object]", "[object Object]")),
        ("throw 10n", ("Thrown", "10", "10")),
        ("throw { toString() { throw 1 } }", ("Thrown", "[value without a text form]", "[value without a text form]")),
        ("throw Object.create(null)", ("Thrown", "[value without a text form]", "[value without a text form]")),
        ("throw new Proxy({}, { get() { throw 1 } })", ("Thrown", "[value without a text form]", "[value without a text form]")),
        ("throw new Proxy(new Error('x'), { get() { throw 1 } })", ("Error", "[value without a text form]", "")),
        ("throw new Proxy(new Error('x'), { getPrototypeOf() { throw 1 } })", ("Error", "Error: x", "Error: x")),
        ("throw Object.defineProperty(new Error('x'), 'name', { get() { throw 1 } })", ("Error", "[value without a text form]", "")),
        ("throw Object.defineProperty(new Error('x'), 'message', { get() { throw 1 } })", ("Error", "[value without a text form]", "")),
        ("throw Object.defineProperty(new Error('x'), 'stack', { get() { throw 1 } })", ("Error", "Error: x", "")),
        ("throw Object.assign(new Error('x'), { name: 5, message: null, stack: {} })", ("5", "null", "")),
        ("throw Object.assign(new Error('x'), { message: Symbol('m') })", ("Error", "Symbol(m)", "")),
        ("class E extends Error { get name() { return 'Own' } } throw new E('x')", ("Own", "x", "")),
        ("await Promise.reject(new TypeError('later'))", ("TypeError", "later", "")),
        ("await Promise.any([Promise.reject(1)])", ("AggregateError", "All promises were rejected", "")),
        ("setTimeout(() => { throw new Error('in a timer') }, 0); await sleep(1000)", ("Error", "in a timer", "")),
    ],
)  # fmt: skip
def test_whatever_is_thrown_is_reported(guest, source, facts):
    outcome = guest.run(source)
    error = outcome.error
    assert (outcome.status, (error.name, error.message, error.thrown)) == ("failed", facts)


@pytest.mark.parametrize(
    ("source", "place"),
    [
        ("throw 'x'", (1, 7)),
        ("const a = 1; throw (a, 'seq')", (1, 21)),
        ("function f() {\n  throw { a: 1 }\n}\nf()", (2, 9)),
        ("const e = 5\nconst g = async () => { await null; throw e }\nawait g()", (2, 43)),
        ("try { throw 'a' } catch (e) { throw e }", (1, 37)),
        ("enum E { B }\nfunction f(): void { throw 'ts' }\nf()", (2, 28)),
        ("setTimeout(() => { throw 'late' }, 0); await sleep(1000)", (1, 26)),
        ("throw await Promise.reject('r')", (None, None)),
    ],
)
def test_what_is_no_error_is_thrown_at_a_place(guest, source, place):
    error = guest.run(source).error
    assert (error.name, (error.line, error.column)) == ("Thrown", place)


def test_a_rejection_without_an_error_has_the_place_where_it_was_thrown(guest):
    outcome = guest.run("const f = async () => { throw 'x' }\nf(); await sleep(1)")
    assert texts(outcome) == ["Unhandled rejection: x (line 1, column 31)"]


def test_scripts_of_the_seeds_hear_no_place_of_what_is_no_error(guest):
    error = guest.run("throw 'x'", raw_results=True).error
    assert (error.line, error.frames) == (None, ())


def path(outcome):
    return [(frame.function, frame.line, frame.column) for frame in outcome.error.frames]


@pytest.mark.parametrize(
    ("source", "frames"),
    [
        ("throw new Error('x')", [("", 1, 7)]),
        (
            "function inner(n) { return n.a.b }\nasync function outer() { await null; return inner({}) }\nawait outer()",
            [("inner", 1, 32), ("outer", 2, 45), ("", 3, 1)],
        ),
        (
            "class A { run() { return this.x.y } }\n[1].map((n) => new A().run())",
            [("A.run", 1, 33), ("", 2, 24), ("", 2, 5)],
        ),
        ("enum E { B }\nfunction f(): void { throw 'ts' }\nf()", [("f", 2, 28), ("", 3, 1)]),
        (
            "async function f() { return await servers.nope.call('t') }\nawait f()",
            [("f", 1, 48), ("", 2, 7)],
        ),
        ("const f = (n) => n ? f(n - 1) : null.x; f(9)", [("f", 1, 38), *[("f", 1, 22)] * 4]),
        ("const e = new Error('x'); e.stack = 'no'; throw e", []),
        ("await Promise.reject(1)", []),
    ],
)
def test_an_error_has_the_path_of_calls_that_led_to_it(guest, source, frames):
    assert path(guest.run(source)) == frames


def test_a_secret_in_the_name_of_a_function_is_redacted(guest):
    name = f"ghp_{'a' * 36}"
    assert path(guest.run(f"function {name}() {{ null.x }} {name}()"))[0][0] == "[REDACTED:github-token]"


@pytest.mark.parametrize(
    ("source", "hint"),
    [
        ("throw { code: 42, message: 'custom' }", 'it threw {"code":42,"message":"custom"}'),
        ("throw [1, [2]]", "it threw [1,[2]]"),
        ("throw new Map([[1, 2n]])", 'it threw [[1,"2n"]]'),
        ("throw { text: 'x'.repeat(1e6) }", 'it threw {"text":"' + "x" * 991 + "..."),
        ("throw 'text'", ""),
        ("throw {}", ""),
        ("throw { get a() { throw 1 } }", ""),
    ],
)
def test_what_is_in_a_thrown_object_is_told(guest, source, hint):
    assert (guest.run(source).error.hint, guest.run(source, raw_results=True).error.hint) == (hint, "")


def test_a_rejection_that_nobody_handles_shows_what_is_in_its_reason(guest):
    outcome = guest.run("Promise.reject({ code: 42 }); await sleep(1)")
    assert texts(outcome) == ['Unhandled rejection: {"code":42}']


def test_m23_error_texts_are_bounded(guest):
    outcome = guest.run("const e = new Error('m'.repeat(20e6)); e.name = 'n'.repeat(1 << 20); throw e")
    assert (outcome.status, outcome.error.name) == ("failed", "n" * 256 + "...")
    assert outcome.error.message == "m" * 65_536 + "..."
    outcome = guest.run("throw 't'.repeat(20e6)")
    assert outcome.error.thrown == outcome.error.message == "t" * 65_536 + "..."


def test_m23_a_forged_stack_leads_nowhere(guest):
    outcome = guest.run("const e = new Error('x'); e.stack = 'at paddock:program:9999999:9999999'; throw e")
    assert (outcome.error.line, outcome.error.column) == (1, len(outcome.error.excerpt.split("\n")[0]) + 1)
    outcome = guest.run("const e = new Error('x'); e.stack = 'at /etc/passwd:1:1'; throw e")
    assert (outcome.error.line, outcome.error.excerpt) == (None, "")


def test_m23_a_stack_shows_no_path_of_the_host(guest):
    stack = guest.value("try { await servers.nope.call('t') } catch (e) { return e.stack }")
    assert stack.startswith("ToolError: Unknown server: nope; known: odd, even.\n    at ")
    frames = [line.rpartition("(")[2].rpartition(" ")[2].rstrip(")") for line in stack.split("\n")[1:]]
    assert {frame.split(":")[0] + ":" + frame.split(":")[1] for frame in frames} <= {
        "paddock:program",
        "paddock:glue",
    }


PRINTED = "console.log({ a: 1 }, [1, [2]], null, undefined, Symbol('q'), -0, 1n); console.log(); console.log('a\\nb')"


def test_the_console_writes_texts_to_scripts_of_the_seeds(guest):
    outcome = guest.run(PRINTED, raw_results=True)
    assert texts(outcome) == ["[object Object] 1,2 null undefined Symbol(q) 0 1", "", "a\nb"]
    outcome = guest.run("console.log(Object.create(null))", raw_results=True)
    assert outcome.error.message == "Cannot convert object to primitive value"


def test_the_console_shows_what_is_in_objects(guest):
    assert texts(guest.run(PRINTED)) == ['{"a":1} [1,[2]] null undefined Symbol(q) -0 1n', "", "a\nb"]


SHOWN = {
    "'x'.match(/(?<a>x)/).groups": '{"a":"x"}',
    "Object.groupBy([1, 2], (n) => (n % 2 ? 'odd' : 'even'))": '{"odd":[1],"even":[2]}',
    "new Map([[1, { a: new Set([2n]) }]])": '[[1,{"a":["2n"]}]]',
    "new Date(0)": "Thu Jan 01 1970 00:00:00 GMT+0000 (Coordinated Universal Time)",
    "/a/g": "/a/g",
    "new Uint8Array(2)": "0,0",
    "new TypeError('no')": "TypeError: no",
    "[new TypeError('no', { cause: 'me' })]": '[{"name":"TypeError","message":"no","causes":["me"]}]',
    "Promise.resolve({ a: 1 })": "[object Promise]",
    "[Symbol('s'), undefined, () => 1]": "[null,null,null]",
    "(() => { const o = { a: {} }; o.a.b = o; return [o, o] })()": (
        '[{"a":{"b":"[Circular]"}},{"a":{"b":"[Circular]"}}]'
    ),
    "new (class { x = 1; #y = 2 })": '{"x":1}',
    "{ toString: () => 'own' }": "own",
    "{ toString() { throw new Error('never') } }": "{}",
    "{ get a() { throw new Error('never') } }": "{ a: [Getter] }",
    "new Proxy({}, { get() { throw new Error('never') } })": "[value without a text form]",
    "servers": '["odd","even"]',
    "servers.nope": "[value without a text form]",
    "paddock.workspace.path.length && paddock.vars": "{}",
}


@pytest.mark.parametrize(("source", "text"), SHOWN.items())
def test_nothing_that_is_printed_ends_a_program(guest, source, text):
    outcome = guest.run(f"console.log(({source})); return 'went on'")
    assert (outcome.error, outcome.value, texts(outcome)) == (None, "went on", [text])


def test_errors_in_a_result_say_what_they_are(guest):
    source = "class Odd extends Error { name = 'Odd'; code = 5 }\nconst odd = new Odd('o'); odd.cause = odd\n"
    source += "return await Promise.allSettled([servers.odd.call('fail'), Promise.reject(odd)])"
    assert [settled["reason"] for settled in guest.value(source)] == [
        {
            "name": "ToolError",
            "message": "error -32603",
            "code": -32603,
            "server": "odd",
            "tool": "fail",
            "retryable": False,
        },
        {"name": "Odd", "message": "o", "code": 5},
    ]
    assert guest.value("return new AggregateError([1, new Error('b')], 'a')") == {
        "name": "AggregateError",
        "message": "a",
        "causes": ["1", "Error: b"],
    }
    source = (
        "class Bad extends Error { errors = [{ path: 'a' }] }; return new Bad('b', { cause: { code: 5 } })"
    )
    assert guest.value(source) == {
        "name": "Error",
        "message": "b",
        "errors": [{"path": "a"}],
        "causes": ['{"code":5}'],
    }
    assert guest.value("return [new Error('x')]", raw_results=True) == [{}]
    assert guest.compute("emit(JSON.stringify(new Error('x')))").value == "{}"


def test_an_error_in_the_words_of_a_tool_names_its_call(guest):
    source = "await Promise.all(['odd', 'even'].map((name) => servers[name][name === 'odd' ? 'pid' : 'is_error']({})))"
    outcome = guest.run(source)
    assert (outcome.error.message, outcome.error.hint) == ("it broke", "caused by even.is_error")
    outcome = guest.run("await Promise.any([servers.odd.is_error({}), servers.nope.tool({})])")
    assert (
        outcome.error.hint
        == "caused by ToolError: it broke (odd.is_error); ToolError: Unknown server: nope; known: odd, even."
    )


def test_a_circle_of_causes_is_told_once(guest):
    outcome = guest.run("const e = new Error('own'); e.cause = e; throw e")
    assert (outcome.error.message, outcome.error.hint) == ("own", "")
    source = "const [a, b, c] = 'abc'; const last = new Error(c); const first = new Error(a, { cause: "
    source += "new Error(b, { cause: last }) }); last.cause = first; throw first"
    assert guest.run(source).error.hint == "caused by Error: b; Error: c"


def test_an_error_tells_its_causes(guest):
    outcome = guest.run("throw new Error('outer', { cause: new TypeError('inner', { cause: 'root' }) })")
    assert (outcome.error.message, outcome.error.hint) == ("outer", "caused by TypeError: inner; root")
    outcome = guest.run("await Promise.any([1, 2].map(async (n) => { throw new RangeError(n) }))")
    assert outcome.error.hint == "caused by RangeError: 1; RangeError: 2"


@pytest.mark.parametrize(
    "thrown",
    ["'x'.repeat(20_000)", "'see paddock:program:9:9'", "'a\\n    at paddock:program:9:9'", "''"],
)
def test_no_message_hides_where_an_error_was_thrown(guest, thrown):
    error = guest.run(f"\n  throw new Error({thrown})").error
    assert (error.line, error.column) == (2, 9)


def test_a_message_that_was_changed_hides_nothing_either(guest):
    error = guest.run(
        "const e = new Error('no');\ne.message = 'in this program: ' + e.message\nthrow e"
    ).error
    assert (error.message, error.line, error.column) == ("in this program: no", 1, 11)


def test_the_console_counts_bytes_of_utf_8(guest):
    assert texts(guest.run("console.log('€€'); console.log('a')", output_bytes=6)) == [
        "€€",
        "[output truncated]",
    ]
    assert texts(guest.run("console.log('€€'); console.log('a')", output_bytes=7)) == ["€€", "a"]


def test_a_line_that_fits_no_message_is_cut(guest):
    outcome = guest.run("console.log('\\0'.repeat(4e6)); return 1")
    assert (outcome.status, outcome.value, texts(outcome)) == ("ok", 1, ["[output truncated]"])


def test_a_failed_call_carries_its_facts(guest):
    source = "try { await servers.odd.call('fail') } catch (e) { return [e.name, e.message, { ...e }] }"
    assert guest.value(source) == [
        "ToolError",
        "error -32603",
        {"server": "odd", "tool": "fail", "retryable": False, "code": -32603},
    ]


MANY = "new Array(1250000).fill(0)"


def test_arguments_that_swell_fail_their_call_and_the_program_goes_on(guest):
    told = guest.value(
        f"""
        const a = {MANY};
        const calls = [() => servers.odd.echo({{ a }}), () => paddock.compute(a)];
        const told = [];
        for (const call of calls) await call().catch((error) => told.push([error.name, error.message]));
        return told;
        """
    )
    assert told == [
        [
            "RangeError",
            "servers.odd: the arguments of echo hold more than 1250000 values. Pass less at once: tools take at most "
            "1000000.",
        ],
        [
            "RangeError",
            "paddock: the arguments of compute hold more than 1250000 values. Pass less at once, or raise "
            "`limits.execute.frame_values`.",
        ],
    ]


def test_a_result_that_swells_fails_the_program(guest):
    outcome = guest.run(f"return {MANY}")
    assert (outcome.status.value, outcome.error.name, outcome.error.message, outcome.error.hint) == (
        "failed",
        "RangeError",
        "The program returned or passed more than 1250000 values at once",
        "return or print less at once, or raise `limits.execute.frame_values`",
    )


def test_calls_in_flight_may_hold_no_more_values_together_than_one_message(guest):
    told = guest.value(
        """
        const text = new Array(500000).fill(0);
        const calls = [0, 1, 2].map(() => servers.odd.echo({ text }));
        return (await Promise.allSettled(calls)).map((call) => call.reason?.message ?? call.value.length);
        """
    )
    assert told == [
        1,
        1,
        "The arguments of the calls in flight hold more than 1250000 values. Pass less at once, or raise "
        "`limits.execute.frame_values`.",
    ]
