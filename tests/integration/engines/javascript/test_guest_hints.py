"""What a program is told of what is not there, and of results of which JSON leaves nothing."""

import pytest

from paddock.engines.javascript.hints import HINTS_BY_NAME

NETWORK = "there is no network; call a tool: await servers.<name>.<tool>(...)"
BYTES = "use Uint8Array: TextEncoder and TextDecoder for texts, fromBase64 and toBase64, fromHex and toHex"
NO_THIS = "`this` is undefined in a function that is called without an object: call it as `object.method()`"
LOGS = "console has log, info, warn, error, debug, dir, table, group, count, time, assert and trace"
RESULT = (
    "a tool's result is its data, or its text: data needs no JSON.parse, and there is no `content[0].text`; "
    "servers.<name>.callRaw(tool, args) gives the whole message"
)


def told(outcome):
    return [(line.level, line.text) for line in outcome.console]


SERVERS = "tools are in `servers`, as await servers.<name>.<tool>(...); those there are: odd, even"


@pytest.mark.parametrize(
    ("source", "hint"),
    [
        ("await fetch('https://example.com')", NETWORK),
        ("const fs = require('fs')", "a program is one text without modules; call tools through servers.<name>.<tool>(...)"),
        ("return Buffer.from('a').toString('base64')", BYTES),
        ("setImmediate(() => 0)", "use queueMicrotask(f), or setTimeout(f, 0)"),
        ("const a = 1, b = 2; return a &lt; b", "the text is escaped for HTML; send it as it is"),
        ("return 10n ** 4000n", "JSON cannot carry a BigInt of more than 4,000 digits: use String(n)"),
        ("await mcp.callTool('odd', 'echo', {})", "tools are in `servers`: await servers.<name>.<tool>(...)"),
        ("return global.Map", "the global object is `globalThis`"),
        ("class A { x = 1; read() { return this.x } } const { read } = new A(); return read()", NO_THIS),
        ("function keep(n) { this.kept = n } keep(1)", NO_THIS),
        ("const that = undefined; that.kept = 1", ""),
        ("this.kept.n = 1", ""),
        ("return vars.NAME", "a program's inputs are in `input` and `paddock.vars`"),
        ("return eval('1 + 1')", "a program cannot run a string as code: write the code itself; JSON.parse(text) reads data"),
        ("return await servers.odd.then({})", 'JavaScript itself uses `then`; call the tool as servers.odd.call("then", args)'),
        ("return await servers.odd.toString({})", 'JavaScript itself uses `toString`; call the tool as servers.odd.call("toString", args)'),
        ("return None", "this is JavaScript: true, false, null"),
        ("console.profile()", LOGS),
        ("const r = await servers.odd.call('echo', { text: 'x' })\nreturn r.content[0].text", RESULT),
        ("const r = await servers.odd.call('echo', { text: 'x' })\nreturn JSON.parse(r.content?.[0]?.text)", RESULT),
        ("const r = await servers.odd.call('echo', { text: 'x' })\nreturn r.structuredContent.value", RESULT),
        ("const { content } = await servers.odd.echo({ text: 'x' })\nreturn content[0].text", RESULT),
        ("return JSON.parse({ a: 1 })", "this is data already, as the result of a tool is: leave JSON.parse out"),
        ("return JSON.parse('{')", ""),
        ("const none = undefined; return none.contents[0]", ""),
        ("throw new Error('content[0].text')", ""),
        ("external_echo({ text: 'x' })", SERVERS),
        ("return await github.search({ q: 1 })", SERVERS),
        ("return github.search({ q: 1 })", SERVERS),
        ("return await search('x')", SERVERS),
        ("return rows.map((row) => row.id)", ""),
        ("return sum(1, 2)", ""),
        ("return total_count", ""),
        (r"const a = 1;\nreturn a", "the program is one line with the two characters \\n between its statements; send line ends themselves, which JSON writes as \\n, and a shell as $'...\\n...'"),
        ("return nothing", ""),
        ("throw new ReferenceError('__proto__ is not defined')", ""),
        ("throw new EvalError('no')", ""),
        ("throw new Error('fetch is not defined')", ""),
    ],
)  # fmt: skip
def test_x7_what_is_not_there_has_a_hint(guest, source, hint):
    outcome = guest.run(source)
    assert (outcome.status, outcome.error.hint) == ("failed", hint)


def test_x7_scripts_of_the_seeds_get_the_texts_of_the_seeds(guest):
    assert guest.run("return require('fs')", raw_results=True).error.hint == ""


ADVISED = {
    "fromBase64": ("return [...Uint8Array.fromBase64('YWI=')]", [97, 98]),
    "toBase64": ("return Uint8Array.from([97, 98]).toBase64()", "YWI="),
    "hex": ("return Uint8Array.fromHex('ff00').toHex()", "ff00"),
    "UTF-8": ("return new TextDecoder().decode(new TextEncoder().encode('é'))", "é"),
    "the next turn": ("return await new Promise((done) => setTimeout(done, 0, 1))", 1),
    "copies": ("return JSON.parse(JSON.stringify({ a: [1] }))", {"a": [1]}),
    "race": ("return await Promise.race([new Promise(() => 0), sleep(1).then(() => 'late')])", "late"),
    "Map": ("return Object.fromEntries(new Map([['a', 1]]))", {"a": 1}),
}


@pytest.mark.parametrize(("source", "value"), ADVISED.values(), ids=ADVISED.keys())
def test_what_is_advised_works(guest, source, value):
    assert guest.value(source) == value


def test_what_has_advice_does_not_exist(guest):
    kinds = ", ".join(f"typeof {name}" for name in HINTS_BY_NAME)
    assert guest.value(f"return [{kinds}]") == ["undefined"] * len(HINTS_BY_NAME)


PROMISE = "The result holds a promise, in JSON {}: put `await` before it, or `await Promise.all(...)` before several"
MAP = "The result holds a Map, in JSON {}: use Object.fromEntries(map), or [...map]"
SET = "The result holds a Set, in JSON {}: use [...set]"
ITERATOR = "The result holds an iterator, in JSON {}: use [...iterator]"
PATTERN = "The result holds a regular expression, in JSON {}: use String(pattern)"
BUFFER = "The result holds an ArrayBuffer, in JSON {}: use [...new Uint8Array(buffer)], or new Uint8Array(buffer).toBase64()"
INFINITE = "The result holds Infinity, in JSON null: check the calculation"
NO_NUMBER = "The result holds NaN, in JSON null: check the calculation"
NO_TIME = "The result holds a Date without a time, in JSON null: check the value that it was made from"
SYMBOL = "The result is a symbol, which JSON cannot write: use its description"


@pytest.mark.parametrize(
    ("source", "value", "text"),
    [
        ("return new Map([[1, 2]])", {}, MAP),
        ("return { a: [{}, { b: new Set([1]) }] }", {"a": [{}, {"b": {}}]}, SET),
        ("return [1, 2].map(async (n) => n)", [{}, {}], PROMISE),
        ("return { a: new Map().values(), b: 1 }", {"a": {}, "b": 1}, ITERATOR),
        ("function* each() { yield 1 } return [each()]", [{}], ITERATOR),
        ("return /a/", {}, PATTERN),
        ("return [Uint8Array.of(1).buffer]", [{}], BUFFER),
        ("return { a: [1, { b: 1 / 0 }] }", {"a": [1, {"b": None}]}, INFINITE),
        ("return { total: Number('x') }", {"total": None}, NO_NUMBER),
        ("return { at: new Date('x') }", {"at": None}, NO_TIME),
        ("return Symbol('a')", None, SYMBOL),
        ("return async () => 1", None, "The result is a function, which JSON cannot write: call it"),
        ("async function execute() {}\nexecute", None, "The result is a function, which JSON cannot write: call it"),
    ],
)  # fmt: skip
def test_a_result_of_which_json_leaves_nothing(guest, source, value, text):
    outcome = guest.run(source)
    assert (outcome.status, outcome.value, told(outcome)) == ("ok", value, [("warn", text)])


def test_a_result_that_loses_several_things_has_a_warning_for_each_kind(guest):
    outcome = guest.run("return [NaN, new Set([1]), { a: new Set(), b: [NaN, new Map()] }, () => 1]")
    assert outcome.value == [None, {}, {"a": {}, "b": [None, {}]}, None]
    assert told(outcome) == [("warn", text) for text in (NO_NUMBER, SET, MAP)]


def test_a_program_that_only_declares_is_told_so(guest):
    source = 'const R = "a"; async function run() { return 1 }  async function other() {}'
    outcome = guest.run(source)
    text = "Nothing was called: the program only declares `run` and `other`. End it with `return await run()`"
    assert (outcome.status, outcome.has_value, told(outcome)) == ("ok", False, [("warn", text)])
    assert told(guest.run(source, raw_results=True)) == []
    text = "Nothing was called: the program only declares `Job`. End it with `return await new Job().run()`"
    assert told(guest.run("class Job { run() { return 1 } }")) == [("warn", text)]


def test_a_program_that_does_its_work_is_not_told_that_it_only_declares(guest):
    source = "async function run() { console.log(1) }\nfunction other() {}\nconst done = await run()"
    assert told(guest.run(source)) == [("log", "1")]


FUNCTIONS = "The result holds an object of functions, in JSON {}: call one of them"


def test_a_result_of_functions_alone(guest):
    assert told(guest.run("export default { async fetch() { return 5 } }")) == [("warn", FUNCTIONS)]
    assert told(guest.run("return { a: [], b: {}, c: () => 1 }")) == []
    assert told(guest.run("return { a: null, b: [null] }")) == []


@pytest.mark.parametrize(
    "source",
    [
        "return {}",
        "return [{}, { a: {} }]",
        "return '{}'",
        "return { get a() { return {} } }",
        "return Object.create(null)",
        "return undefined",
        "class M extends Map { toJSON() { return [...this] } } return [new M([[1, 2]]), {}]",
        "return Array.from({ length: 20_000 }, () => ({}))",
        "let n = 0; return { a: {}, get b() { if (n++) throw new Error('second'); return 1 } }",
    ],
)
def test_a_result_that_says_what_was_meant_is_let_be(guest, source):
    outcome = guest.run(source)
    assert (outcome.status, told(outcome)) == ("ok", [])


def test_scripts_of_the_seeds_hear_nothing_of_their_results(guest):
    assert told(guest.run("return new Map()", raw_results=True)) == []


def test_what_json_makes_of_strange_values(guest):
    source = (
        "return { big: [1e300, -0, Infinity, NaN], typed: new Uint8Array([1, 2]), date: new Date(0),"
        " holes: [1, , undefined, () => 1, Symbol('x')], own: new (class { a = 1; #b = 2; c() {} })(),"
        " error: new TypeError('no'), text: Object('x'), expression: /x/g }"
    )
    outcome = guest.run(source)
    assert outcome.value == {
        "big": [1e300, 0, None, None],
        "typed": {"0": 1, "1": 2},
        "date": "1970-01-01T00:00:00.000Z",
        "holes": [1, None, None, None, None],
        "own": {"a": 1},
        "error": {"name": "TypeError", "message": "no"},
        "text": "x",
        "expression": {},
    }
    assert told(outcome) == [("warn", text) for text in (INFINITE, NO_NUMBER, PATTERN)]
