"""What a program sends: nothing that JSON loses goes out, and the error names its place and what to write."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.servers import make_entry, write_servers
from tests.support.session import execute_alone

from paddock.model.outcome import Outcome, Status
from paddock.model.request import GuestRun
from paddock.policy.settings.schema import Settings

SAVE = "return await servers.odd.echo({text: %s})"
REFUSED = "servers.odd.echo was not called: "
LOST = {
    "(async () => 1)()": "a promise, in JSON {}: put `await` before it, or `await Promise.all(...)` before several",
    "new Map([['a', 1]])": "a Map, in JSON {}: use Object.fromEntries(map), or [...map]",
    "new Set(['a'])": "a Set, in JSON {}: use [...set]",
    "[1, 2].values()": "an iterator, in JSON {}: use [...iterator]",
    "(function* () { yield 1 })()": "an iterator, in JSON {}: use [...iterator]",
    "/a/": "a regular expression, in JSON {}: use String(pattern)",
    "new WeakMap()": "an object without data of its own (WeakMap), in JSON {}: send a plain object",
    "new WeakSet()": "an object without data of its own (WeakSet), in JSON {}: send a plain object",
    "new (class { #x = 1 })()": "an object without data of its own, in JSON {}: send a plain object",
    "new (class { #x = 1; get x() { return this.#x } })()": (
        "an object without data of its own, in JSON {}: send a plain object"
    ),
    "{[Symbol('a')]: 1}": "an object of which JSON writes no member, in JSON {}: use strings as keys",
    "Object.defineProperty(Object.create(null), 'x', {value: 1})": (
        "an object of which JSON writes no member, in JSON {}: use strings as keys"
    ),
    "Math": "an object of which JSON writes no member (Math), in JSON {}: use strings as keys",
    "Reflect": "an object of which JSON writes no member (Reflect), in JSON {}: use strings as keys",
    "() => 1": "a function, which JSON leaves out: call it",
    "class { static x = 1 }": "a function, which JSON leaves out: call it",
    "Symbol('s')": "a symbol, which JSON leaves out: use its description",
    "NaN": "NaN, in JSON null: check the calculation, or leave it out",
    "-Infinity": "-Infinity, in JSON null: check the calculation, or leave it out",
    "new Date('never')": "a Date without a time, in JSON null: check the value that it was made from",
    "`re: ${Promise.resolve(1)}`": "a string that contains [object Promise]: put `await` before the promise",
    "10n ** 4000n": "a BigInt of more than 4000 digits, which JSON readers reject: use String(n)",
}


@pytest.mark.parametrize("lost", LOST)
def test_what_json_loses_is_refused_wherever_it_is(guest: Any, lost: str) -> None:
    before = guest.value("return paddock.workspace.path")  # another program leaves nothing behind
    for shape, place in (
        ("%s", "arguments.text"),
        ("[1, {a: 2, 'b c': %s}]", 'arguments.text[1]["b c"]'),
        ("{items: [null, {}, {id: %s}]}", "arguments.text.items[2].id"),
    ):
        source = SAVE % (shape % f"({lost})")
        assert guest.failure(source) == ("failed", "TypeError", f"{REFUSED}{place} is {LOST[lost]}")
        assert guest.run(source).calls == ()
    assert before == guest.value("return paddock.workspace.path")


@pytest.mark.parametrize(
    ("lost", "place", "told"),
    [
        ("[undefined]", "[0]", "undefined, in JSON null: write null, or leave it out of the array"),
        ("[1, , 2]", "[1]", "undefined, in JSON null: write null, or leave it out of the array"),
        (
            "[[{}, [undefined]]]",
            "[0][1][0]",
            "undefined, in JSON null: write null, or leave it out of the array",
        ),
        (
            "[{toJSON() {}}]",
            "[0]",
            "an object whose toJSON returns undefined, in JSON null: send what it holds",
        ),
        ("[() => 1]", "[0]", "a function, which JSON leaves out: call it"),
        ("[Symbol('s')]", "[0]", "a symbol, which JSON leaves out: use its description"),
        ("[{toJSON: () => Symbol('s')}]", "[0]", "a symbol, which JSON leaves out: use its description"),
    ],
)
def test_what_json_makes_null_in_an_array_is_refused(guest: Any, lost: str, place: str, told: str) -> None:
    refused = f"{REFUSED}arguments.text{place} is {told}"
    assert guest.failure(SAVE % lost) == ("failed", "TypeError", refused)


def test_a_whole_that_json_writes_as_nothing_is_refused(guest: Any) -> None:
    told = "servers.odd: the arguments of echo have no JSON form"
    assert guest.failure("return await servers.odd.echo({toJSON() {}})") == ("failed", "TypeError", told)
    told = f"{REFUSED}arguments is an object of which JSON writes no member (Math), in JSON {{}}: use strings as keys"
    assert guest.failure("return await servers.odd.echo(Math)") == ("failed", "TypeError", told)
    told = "paddock.tool was not called: arguments[1] is an object whose toJSON returns undefined, in JSON null: "
    outcome = guest.failure("return await paddock.tool('t', {toJSON() {}})")
    assert outcome == ("failed", "TypeError", f"{told}send what it holds")


def test_an_argument_of_the_sdk_may_be_left_out_by_undefined(guest: Any) -> None:
    assert guest.value("return await paddock.compute('emit(7)', undefined, undefined)") == "7"


def test_every_way_of_calling_refuses(guest: Any) -> None:
    lost = "arguments.a is a Set, in JSON {}: use [...set]"
    for call in ("call('echo', {a: new Set()})", "callRaw('echo', {a: new Set()})", "echo({a: new Set()})"):
        assert guest.failure(f"return await servers.odd.{call}") == ("failed", "TypeError", REFUSED + lost)
    assert guest.failure("return await servers.odd.echo(new Map())") == (
        "failed",
        "TypeError",
        f"{REFUSED}arguments is a Map, in JSON {{}}: use Object.fromEntries(map), or [...map]",
    )
    assert guest.failure("return await paddock.exec('python', 'print(1)', {stdin: new Set()})") == (
        "failed",
        "TypeError",
        "paddock.exec was not called: arguments[2].stdin is a Set, in JSON {}: use [...set]",
    )


def test_a_circle_names_where_it_closes(guest: Any) -> None:
    source = "const a = {x: [{}]}; a.x[0].up = a; return await servers.odd.echo({a})"
    told = "arguments.a.x[0].up is an object that contains it: JSON has no cycles, send its id instead"
    assert guest.failure(source) == ("failed", "TypeError", REFUSED + told)


def test_what_json_keeps_is_sent_as_ever(guest: Any) -> None:
    sent = """{
      a: undefined, b: null, c: {}, d: [], e: new Date(0), f: Object.create(null), g: new (class P { x = 1 })(),
      h: {toJSON() { return "own" }}, i: new Error("no"), j: {toJSON() {}}, k: new Number(5), l: "null {}", m: 0.1 + 0.2,
      n: [{}, {}], o: Object.assign(Object.create({f() {}}), {p: 1}),
    }"""
    assert guest.value(f"return (await servers.odd.callRaw('echo', {{text: {sent}}})).content[0].text") == {
        "b": None,
        "c": {},
        "d": [],
        "e": "1970-01-01T00:00:00.000Z",
        "f": {},
        "g": {"x": 1},
        "h": "own",
        "i": {"name": "Error", "message": "no"},
        "k": 5,
        "l": "null {}",
        "m": 0.30000000000000004,
        "n": [{}, {}],
        "o": {"p": 1},
    }
    shared = "const s = {y: 1}; const raw = await servers.odd.callRaw('echo', {text: [s, s, {s}]})"
    assert guest.value(f"{shared}; return raw.content[0].text") == [{"y": 1}, {"y": 1}, {"s": {"y": 1}}]


def test_a_text_that_came_in_may_speak_of_promises(guest: Any) -> None:
    for source in (
        SAVE % "input",
        SAVE % "'why do I see [object Promise]?'",
        "const t = await servers.odd.echo({text: '[object Pro' + 'mise]'}).catch((e) => e.message);"
        "return t.includes('[object Promise]')",
    ):
        assert guest.run(source, given="why do I see [object Promise]?").ok


def test_errors_of_getters_are_those_of_the_program(guest: Any) -> None:
    source = SAVE % "{get a() { throw new RangeError('mine') }}"
    assert guest.failure(source) == ("failed", "RangeError", "mine")


def test_compat_scripts_send_what_json_leaves(guest: Any) -> None:
    source = "return await servers.odd.call('echo', {text: {a: new Set([1]), b: NaN, f() {}}})"
    outcome = guest.run(source, raw_results=True)
    assert outcome.value["content"][0]["text"] == {"a": {}, "b": None}


def test_compat_scripts_have_the_numbers_they_had(guest: Any) -> None:
    source = "return [typeof input, typeof BigInt.prototype.toJSON, input, [1234567890123456789]]"
    outcome = guest.run(source, given=1234567890123456789, raw_results=True)
    assert outcome.value == ["number", "undefined", 1234567890123456800, [1234567890123456800]]
    outcome = guest.run("return {a: 1n}", raw_results=True)
    assert (outcome.error.message, outcome.error.hint) == ("Do not know how to serialize a BigInt", "")


def test_mixing_big_and_small_numbers_says_what_to_write(guest: Any) -> None:
    outcome = guest.run("return input + 1", given=2**60)
    assert outcome.error.message == "Cannot mix BigInt and other types, use explicit conversions"
    assert outcome.error.hint == (
        "whole numbers beyond 2**53 are BigInt: calculate with BigInt alone (`n + 1n`, `BigInt(m)`), "
        "or with Number(n), which may lose the last digits"
    )
    assert guest.run("return Math.max(input, 1)", given=2**60).error.hint == outcome.error.hint
    assert guest.value(
        "return [input + 1n, Number(input) === 2 ** 60, input > 5, `${input}`]", given=2**60
    ) == [
        2**60 + 1,
        True,
        True,
        str(2**60),
    ]


def warnings(outcome: Any) -> list[str]:
    return [line.text for line in outcome.console if line.level == "warn"]


def test_a_number_that_cannot_be_exact_is_named(guest: Any) -> None:
    outcome = guest.run(SAVE % "[Number('1234567890123456789'), 2 ** 52, 1e30]")
    assert warnings(outcome) == [
        "arguments.text[0] is sent as 1234567890123456800 and may lack digits: a number holds integers up to 2**53; "
        "use a BigInt or a string"
    ]
    near = "a longer number has the same double; pass on the object that it came in, a BigInt or a string"
    outcome = guest.run("return {a: 1234567890123456789, b: 1234567890123456790}")
    assert (warnings(outcome)[1:], outcome.value) == (
        [f"result.{name} is sent as 1234567890123456800 and may lack digits: {near}" for name in "ab"],
        {"a": 1234567890123456800, "b": 1234567890123456800},
    )


@pytest.fixture
def uploads(tmp_path: Path) -> Callable[[str], Outcome]:
    """Run a program that has a server whose tools have names that are taken, and one that takes files."""
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    takes = {"type": "object", "properties": {"file": {"type": "string", "contentEncoding": "base64"}}}
    tools = [
        {"name": name, "inputSchema": takes} for name in ("then", "call", "toJSON", "toString", "upload")
    ]
    (workspace / "tools.json").write_text(json.dumps(tools))
    entry = make_entry("digits", "-", workspace / "tools.json")
    write_servers(workspace, {"g": entry})

    def run(source: str) -> Outcome:
        given = {"audit": {"directory": tmp_path / "audit"}, "servers": {"state": tmp_path / "state"}}
        return execute_alone(Settings.model_validate(given), workspace, GuestRun(source=source))

    return run


def test_bytes_are_base64_where_the_schema_says_so(uploads: Callable[[str], Outcome]) -> None:
    sent = """
    const buffer = new Uint8Array([0, 1, 2, 255]).buffer;
    const views = [buffer, new Uint8Array(buffer, 1, 2), new DataView(buffer, 3), new Uint16Array([258]), new Uint8Array()];
    return await Promise.all(views.map((file) => servers.g.upload({file})));
    """
    outcome = uploads(sent)
    assert outcome.value == [{"file": text} for text in ("AAEC/w==", "AQI=", "/w==", "AgE=", "")]
    outcome = uploads("return await servers.g.upload({other: [new Uint8Array(2)], file: new Uint8Array(1)})")
    assert outcome.error is not None
    assert (outcome.status, outcome.error.message, [call.status for call in outcome.calls]) == (
        Status.FAILED,
        "g.upload was not called: `arguments.other[0]` holds bytes, but its schema does not declare them as base64 "
        "(`contentEncoding: base64` or `format: byte`): write bytes.toBase64(), or [...bytes]",
        [Status.INVALID],
    )
    outcome = uploads(
        "return await servers.g.upload({x: Array.from({length: 101}, () => new Uint8Array(1))})"
    )
    assert outcome.error is not None
    assert outcome.error.message == (
        "servers.g.upload was not called: arguments.x[100] is beyond the 100 byte arrays that a call takes: use "
        "bytes.toBase64()"
    )
    outcome = uploads("return await paddock.tool('x', {a: new Uint8Array(1)})")
    assert outcome.error is not None
    assert (
        outcome.error.message == "paddock.tool was not called: its arguments hold bytes; use bytes.toBase64()"
    )


def test_a_tool_called_then_makes_no_thenable(uploads: Callable[[str], Outcome]) -> None:
    looked = """
    const same = await servers.g;
    const copy = await Object.defineProperties({}, Object.getOwnPropertyDescriptors(servers.g));
    const names = ["then", "call", "toJSON", "toString"];
    const called = await Promise.all(names.map((name) => servers.g.call(name, {name})));
    return [typeof same.then, typeof copy.then, typeof {...servers.g}.then, `${Object.keys(servers.g)}`, called];
    """
    assert uploads(looked).value == [
        "undefined",
        "undefined",
        "undefined",
        "then,call,toJSON,toString,upload",
        [{"name": name} for name in ("then", "call", "toJSON", "toString")],
    ]


def test_json_parse_reads_what_came_in_with_all_digits(guest: Any) -> None:
    text = (
        '{"id": 1234567890123456789, "ids": [1, 9007199254740993], "name": "1234567890123456789", "far": 1e2}'
    )
    read = "const r = JSON.parse(input); return [typeof r.id, `${r.id}`, `${r.ids}`, typeof r.name, r.far]"
    expected = ["bigint", "1234567890123456789", "1,9007199254740993", "string", 100]
    assert guest.value(read, given=text) == expected
    assert guest.value(f"const {{ parse }} = JSON; {read.replace('JSON.', '')}", given=text) == expected
    reply = "const input = await servers.odd.callRaw('echo', {text}).then((raw) => raw.content[0].text); "
    assert guest.value(f"const text = {json.dumps(text)}; {reply}{read}") == expected
    revived = (
        "return JSON.parse(input, (key, value, {source}) => key === 'id' ? [`${value}`, source] : value)"
    )
    assert guest.value(revived, given=text)["id"] == ["1234567890123456789", "1234567890123456789"]
    numbers = "return JSON.parse('[' + [2 ** 60, '1234567890123456789', 0.5] + ', 1e400]').map(String)"
    assert guest.value(numbers) == ["1152921504606847000", "1234567890123456789", "0.5", "Infinity"]


def test_json_parse_is_that_of_javascript_in_all_else(guest: Any) -> None:
    source = r"""
      const told = (text, ...more) => { try { return JSON.parse(text, ...more) } catch (e) { return e.message } };
      const own = {toString: () => '{"a": 1}'};
      return [
        [JSON.parse.name, JSON.parse.length, "prototype" in JSON.parse, Object.keys(JSON).length],
        [JSON.stringify.name, JSON.stringify.length],
        told("{"), told("[1234567890123456789"), told(Symbol("s")), told(own), told("null"), told(),
        told('{"a": [1, {"b": 2}]}', (key, value) => (key === "b" ? undefined : value)),
        told('["9007199254740993", "1.2.3.4.5.6.7.8.9.10", "................", 0.30000000000000004, 52.520006599999996]'),
        told("[9007199254740991, -9007199254740991, 1e21, 100, -0]"),
        JSON.stringify({a: [1.5, null], b: undefined}, null, 1), JSON.stringify([1, 2], (k, v) => (k === "0" ? 3 : v)),
        JSON.stringify(undefined) === undefined, JSON.stringify({a: 1, b: 2}, ["b"]),
      ];
    """
    assert guest.value(source, given='a text with \\" and 1234567890123456789') == [
        *(["parse", 2, False, 0], ["stringify", 3]),
        "Expected property name or '}' in JSON at position 1 (line 1 column 2)",
        "Expected ',' or ']' after array element in JSON at position 20 (line 1 column 21)",
        "Cannot convert a Symbol value to a string",
        *({"a": 1}, None, '"undefined" is not valid JSON'),
        {"a": [1, {}]},
        [
            *("9007199254740993", "1.2.3.4.5.6.7.8.9.10", "................"),
            *(0.30000000000000004, 52.520006599999996),
        ],
        [9007199254740991, -9007199254740991, 1e21, 100, 0],
        *('{\n "a": [\n  1.5,\n  null\n ]\n}', "[3,2]", True, '{"b":2}'),
    ]
    compat = "return [typeof JSON.parse(input).id, JSON.stringify(JSON.parse(input))]"
    outcome = guest.run(compat, given='{"id": 1234567890123456789}', raw_results=True)
    assert outcome.value == ["number", '{"id":1234567890123456800}']


def test_a_second_object_is_not_lost(guest):
    message = (
        "servers.odd.echo was not called: it takes one object, and a second one would be lost: put everything into one "
        "object"
    )
    assert guest.failure("return await servers.odd.echo({text: 'x'}, {limit: 1})") == (
        "failed",
        "TypeError",
        message,
    )
    # `map` hands over the place and the list, too.
    source = "return await Promise.all([{text: 'a'}, {text: 'b'}].map(servers.odd.echo))"
    assert guest.value(source) == ["a", "b"]
