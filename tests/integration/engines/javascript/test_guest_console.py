"""No method of the console throws, whatever reading a value does: what cannot be read is named in its place."""

import json
import subprocess
from pathlib import Path

import pytest
from tests.support.processes import PATIENCE_S

# Where node 20 prints a text for the same call, it is this one, except for proxies: node sees what stands behind them.
ODD = [
    ("console.log('%i', Object.create(null))", [("log", "NaN")]),
    ("console.log('%d', {valueOf(){throw 1}})", [("log", "NaN")]),
    ("console.log('%f', {toString(){throw 1}})", [("log", "NaN")]),
    ("console.log('%s', {toString(){throw 1}})", [("log", "[value without a text form]")]),
    ("console.log('%s', {get toString(){throw 1}})", [("log", "<Inspection threw (1)>")]),
    ("console.log('%s', Object.create(null))", [("log", "[Object: null prototype] {}")]),
    ("console.log('%j', {toJSON(){throw new Error('no')}})", [("log", "<Inspection threw (no)>")]),
    ("console.log('%j', {a: 1n})", [("log", '{"a":1}')]),
    ("console.log('%o', {get a(){throw 1}})", [("log", "{ a: [Getter] }")]),
    ("console.log('%O', {get [Symbol.toStringTag](){throw 1}})", [("log", "<Inspection threw (1)>")]),
    ("console.log('%c', {toString(){throw 1}})", [("log", "")]),
    ("console.log('%d', Symbol('x'))", [("log", "NaN")]),
    ("console.log('%i', 10n, '%i')", [("log", "10n %i")]),
    ("console.log('%i', {}, [], '42.5px')", [("log", "NaN [] 42.5px")]),
    ("console.log('%d', [], [5], '0x10', null)", [("log", "0 [5] 0x10 null")]),
    ("console.log('%s', Symbol('a'), () => 1, class A {})", [("log", "Symbol(a) () => 1 class A {}")]),
    ("console.log({get a(){throw 1}})", [("log", "{ a: [Getter] }")]),
    ("console.log({toString(){throw 1}})", [("log", "{}")]),
    ("console.log(Object.create(null))", [("log", "{}")]),
    ("console.log(new Proxy({}, {get(){throw 1}}))", [("log", "[value without a text form]")]),
    ("console.log(new Proxy({a: 1}, {ownKeys(){throw 1}}))", [("log", "<Inspection threw (1)>")]),
    ("console.log(new Proxy([1], {get(){throw 1}}))", [("log", "<Inspection threw (1)>")]),
    ("console.log(new Proxy({}, {getPrototypeOf(){throw 1}}))", [("log", "<Inspection threw (1)>")]),
    ("console.log(Proxy.revocable({}, {}).proxy); const r = Proxy.revocable([], {}); r.revoke(); console.log(r.proxy)", [("log", "{}"), ("log", "[value without a text form]")]),
    ("const r = Proxy.revocable({}, {}); r.revoke(); console.dir(r.proxy)", [("log", "<Revoked Proxy>")]),
    ("const r = Proxy.revocable(() => 1, {}); r.revoke(); console.log(r.proxy); console.log('%s', r.proxy)", [("log", "[value without a text form]"), ("log", "[value without a text form]")]),
    ("console.dir(new Proxy({}, {get(){throw 1}}))", [("log", "<Inspection threw (1)>")]),
    ("console.dir(new Proxy({a: 1}, {getOwnPropertyDescriptor(){throw 1}}))", [("log", "<Inspection threw (1)>")]),
    ("let deep = {}; for (let i = 0; i < 20000; i++) deep = {a: deep}; console.dir(deep)", [("log", "{ a: { a: { a: [Object] } } }")]),
    ("let deep = {}; for (let i = 0; i < 20000; i++) deep = {a: deep}; console.log(deep)", [("log", "{ a: { a: { a: [Object] } } }")]),
    ("let deep = []; for (let i = 0; i < 20000; i++) deep = [deep]; console.log(deep); console.log('%s', deep)", [("log", "[ [ [ [Array] ] ] ]"), ("log", "[ [Array] ]")]),
    ("console.dir({a: 1}, {depth: {valueOf(){throw 1}}})", [("log", "{ a: 1 }")]),
    ("console.dir({a: {b: {c: {}}}}, {get depth(){throw 1}})", [("log", "{ a: { b: { c: {} } } }")]),
    ("console.dir({a: 1}, 5)", [("log", "{ a: 1 }")]),
    ("console.table({}, 1)", [("log", "┌─────────┐\n│ (index) │\n├─────────┤\n└─────────┘")]),
    ("console.table([{a: 1}], 'a')", [("log", "┌─────────┬───┐\n│ (index) │ a │\n├─────────┼───┤\n│ 0       │ 1 │\n└─────────┴───┘")]),
    ("console.table([{get a(){throw 1}}])", [("log", "┌─────────┬────────────────────────┐\n│ (index) │ a                      │\n├─────────┼────────────────────────┤\n│ 0       │ <Inspection threw (1)> │\n└─────────┴────────────────────────┘")]),
    ("console.table([new Proxy({}, {ownKeys(){throw 1}})])", [("log", "[ <Inspection threw (1)> ]")]),
    ("console.table(new Proxy([], {get(){throw 1}}))", [("log", "┌─────────┐\n│ (index) │\n├─────────┤\n└─────────┘")]),
    ("console.table([[1, {get b(){throw 1}}]], ['0', {toString(){throw 1}}])", [("log", "┌─────────┬───┬─────────────────────────────┐\n│ (index) │ 0 │ [value without a text form] │\n├─────────┼───┼─────────────────────────────┤\n│ 0       │ 1 │                             │\n└─────────┴───┴─────────────────────────────┘")]),
    ("console.table([1], [Symbol('x')])", [("log", "┌─────────┬───────────┬────────┐\n│ (index) │ Symbol(x) │ Values │\n├─────────┼───────────┼────────┤\n│ 0       │           │ 1      │\n└─────────┴───────────┴────────┘")]),
    ("console.table(null); console.table(5); console.table()", [("log", "null"), ("log", "5"), ("log", "undefined")]),
    ("console.count({toString(){throw 1}})", [("log", "[value without a text form]: 1")]),
    ("console.count(Symbol('x'))", [("log", "Symbol(x): 1")]),
    ("console.time({toString(){throw 1}})", []),
    ("console.timeEnd(Symbol('x'))", [("warn", "Warning: No such label 'Symbol(x)' for console.timeEnd()")]),
    ("console.countReset(Object.create(null))", [("warn", "Warning: Count for '[value without a text form]' does not exist")]),
    ("console.group({toString(){throw 1}}); console.log(1)", [("log", "{}"), ("log", "  1")]),
    ("console.assert(false, {toString(){throw 1}})", [("warn", "Assertion failed: [value without a text form]")]),
    ("console.assert(false, Symbol('x'))", [("warn", "Assertion failed: Symbol(x)")]),
    ("console.assert(false, '%d', {valueOf(){throw 1}})", [("warn", "Assertion failed: NaN")]),
    ("console.trace(Symbol('x'))", [("error", "Trace: Symbol(x)")]),
    ("console.dirxml({get a(){throw 1}})", [("log", "{ a: [Getter] }")]),
    ("console.error('%i', Object.create(null))", [("error", "NaN")]),
    ("const e = new Error('x'); Object.defineProperty(e, 'message', {get(){throw 1}}); console.log(e)", [("log", "[value without a text form]")]),
    ("const e = new Error('x'); Object.defineProperty(e, 'stack', {get(){throw 1}}); console.log(e); console.dir(e)", [("log", "Error: x"), ("log", "[Error: x]")]),
    ("console.log(new Date(NaN)); console.dir(new Date(NaN)); console.log('%s', new Date(NaN)); console.log('%j', new Date(NaN))", [("log", "Invalid Date"), ("log", "Invalid Date"), ("log", "Invalid Date"), ("log", "null")]),
    ("class A { get [Symbol.toStringTag]() { throw 1 } } console.dir(new A())", [("log", "<Inspection threw (1)>")]),
    ("const m = new Map([[1, 2]]); m.get = null; Object.defineProperty(m, 'size', {get(){throw 1}}); console.dir(m)", [("log", "Map(1) { 1 => 2, get: null }")]),
    ("console.log({get constructor(){throw 1}}); console.dir({get constructor(){throw 1}})", [("log", "{ constructor: [Getter] }"), ("log", "{ constructor: [Getter] }")]),
    ("console.dir({a: new Proxy({}, {get(){throw 1}}), b: 2})", [("log", "{ a: <Inspection threw (1)>, b: 2 }")]),
    ("console.log([Symbol('a'), undefined, () => 1]); console.log(Symbol('a'))", [("log", "[null,null,null]"), ("log", "Symbol(a)")]),
    ("Error.prepareStackTrace = () => { throw 1 }; console.trace('x')", [("error", "Trace: x")]),
    ("console.log(new Map([[{get a(){throw 1}}, new Proxy({}, {get(){throw new Error('boom')}})]])); console.dir(new Map([[{get a(){throw 1}}, new Proxy({}, {get(){throw new Error('boom')}})]]))", [("log", "[object Map]"), ("log", "Map(1) { { a: [Getter] } => <Inspection threw (boom)> }")]),
]  # fmt: skip


@pytest.mark.parametrize(("source", "lines"), ODD, ids=[source for source, _ in ODD])
def test_an_odd_value_does_not_end_the_program(guest, source, lines):
    outcome = guest.run(f"{source}\nreturn 'on'")
    told = [
        (line.level, line.text.splitlines()[0] if "trace" in source else line.text)
        for line in outcome.console
    ]
    assert (outcome.value, told) == ("on", lines)


DEEP = "let deep = {}; for (let i = 0; i < 20000; i++) deep = { a: deep, b: { c: 1 } };"
ENDLESS = (
    "const endless = () => new Proxy({}, { ownKeys: () => ['a', 'b'], "
    "getOwnPropertyDescriptor: () => ({ value: endless(), enumerable: true, configurable: true }) });"
)


@pytest.mark.parametrize(
    "source",
    [f"{DEEP} console.dir(deep, {{ depth: null }})", f"{ENDLESS} console.dir(endless(), {{ depth: null }})"],
)
def test_a_value_of_endless_depth_is_shown_as_far_as_it_can_be(guest, source):
    outcome = guest.run(f"{source}\nreturn 'on'")
    assert outcome.value == "on"
    (line,) = outcome.console
    assert (
        line.text.count("[Object: Inspection interrupted prematurely. Maximum call stack size exceeded.]")
        >= 1
    )
    assert line.text.startswith("{\n  a: {\n    a: {")


def test_a_console_at_the_end_of_the_stack_leaves_the_program_running(guest):
    source = "let deepest = 0; function f(n) { deepest = n; console.debug; f(n + 1) } try { f(0) } catch {} console.dir({ a: { b: 1 } }); return deepest > 100"
    outcome = guest.run(source)
    assert (outcome.value, [line.text for line in outcome.console]) == (True, ["{ a: { b: 1 } }"])


NODE = [
    json.loads(line)
    for line in (Path(__file__).parent / "node_console.jsonl").read_text("utf-8").splitlines()
]
"""Arguments of `console.log`, and what node 20 prints for them."""


def test_a_format_is_filled_as_node_fills_it(guest):
    source = "\n".join(f"console.log({arguments}); console.log('\\u0001')" for arguments, _ in NODE)
    outcome = guest.run(f"{source}\nreturn 'on'")
    assert (outcome.status, outcome.value) == ("ok", "on")
    printed = [line.text for line in outcome.console]
    ours = [text.removesuffix("\n") for text in "\n".join([*printed, ""]).split("\x01\n")]
    assert dict(zip((arguments for arguments, _ in NODE), ours, strict=False)) == dict(NODE)
    assert len(ours) == len(NODE) + 1


def test_the_table_is_what_node_prints():
    calls = "\n".join(f"console.log({arguments}); console.log('\\u0001')" for arguments, _ in NODE)
    node = subprocess.run(
        ["node", "--input-type=module", "-"],
        input=calls,
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE_S,
    )
    assert [text.removesuffix("\n") for text in node.stdout.split("\x01\n")[:-1]] == [
        text for _, text in NODE
    ]
