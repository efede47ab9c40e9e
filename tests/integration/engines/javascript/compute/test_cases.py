"""The acceptance cases of seed 002, each with everything that goes to standard output and to standard error."""

import asyncio
import json

import pytest

from paddock.surfaces.rendering.computation import build_refused_envelope, convert_request, parse_json

from .library import compute


def error(code, message):
    return json.dumps({"code": code, "message": message}, separators=(",", ":"))


def thrown(message):
    return error("EVAL_ERROR", message).replace("<eval>", "\\u003ceval\\u003e")


def of_body(guest, body):
    envelope = guest.runner.run(compute(guest.session, body, workspace=guest.workspace))
    return envelope.stdout, envelope.stderr


def test_g1_what_is_read_is_emitted(lines):
    assert lines("emit(read_input())", "hello", output_kb=4) == ('{"output":"hello"}', "")


def test_g2_output_over_the_limit_is_cut(lines):
    told = error("OUTPUT_LIMIT", "output exceeded 1 KB")
    assert lines("emit(read_input())", "a" * 1500, output_kb=1) == (f'{{"output":"{"a" * 1024}"}}', told)


@pytest.mark.parametrize(("source", "wall_ms"), [("for(;;){}", 50), ("for(;;) {}", 100)])
def test_g3_g4_a_loop_ends_at_the_wall_limit(lines, source, wall_ms):
    told = error("TIMEOUT", f"execution exceeded {wall_ms} ms")
    assert lines(f"emit('lost'); {source}", wall_ms=wall_ms) == ("", told)


def test_g5_what_is_thrown_is_told(lines):
    assert lines("emit('lost'); throw new Error('boom')") == ("", thrown("Error: boom at <eval>:1:21"))


def test_g6_an_unknown_name(lines):
    told = thrown("ReferenceError: does_not_exist is not defined at <eval>:1:6")
    assert lines("emit(does_not_exist)") == ("", told)


HOST_NAMES = [
    *(
        "require",
        "console",
        "setTimeout",
        "setInterval",
        "clearTimeout",
        "sleep",
        "servers",
        "paddock",
        "mentu",
    ),
    *("input", "__paddock", "process", "global", "performance", "fetch", "Buffer", "WebAssembly", "Atomics"),
    *("SharedArrayBuffer", "queueMicrotask", "structuredClone", "Intl", "Temporal", "WeakRef"),
]


LANGUAGE = (
    "AggregateError,Array,ArrayBuffer,BigInt,BigInt64Array,BigUint64Array,Boolean,DataView,Date,Error,EvalError,"
    "Float32Array,Float64Array,Function,Infinity,Int16Array,Int32Array,Int8Array,Iterator,JSON,Map,Math,NaN,Number,"
    "Object,Promise,Proxy,RangeError,ReferenceError,Reflect,RegExp,Set,String,Symbol,SyntaxError,TypeError,URIError,"
    "Uint16Array,Uint32Array,Uint8Array,Uint8ClampedArray,WeakMap,WeakSet,decodeURI,decodeURIComponent,emit,"
    "encodeURI,encodeURIComponent,eval,globalThis,isFinite,isNaN,parseFloat,parseInt,read_input,undefined"
)


def test_g7_g8_nothing_of_a_host_is_there(answer):
    source = f"emit([{', '.join(f'typeof {name}' for name in HOST_NAMES)}].join('|'))"
    assert answer(source).output == "|".join(["undefined"] * len(HOST_NAMES))
    assert answer("emit(Object.getOwnPropertyNames(globalThis).sort().join())").output == LANGUAGE
    assert answer("emit(typeof require + '|' + typeof console)").output == "undefined|undefined"
    assert answer("emit(typeof setTimeout + '|' + typeof setInterval)").output == "undefined|undefined"


def test_g9_no_json():
    with pytest.raises(Exception, match="invalid JSON") as caught:
        convert_request(parse_json(b"not-json"))
    told = "invalid JSON: Expecting value: line 1 column 1 (char 0)"
    assert build_refused_envelope(caught.value).stderr == error("INVALID_INPUT", told)


@pytest.mark.parametrize("body", [{}, {"source": ""}, None, {"source": None}, {"sauce": "emit(1)"}])
def test_g10_no_source(guest, body):
    assert of_body(guest, body) == ("", error("INVALID_INPUT", "missing source"))


def test_g11_defaults_apply(guest):
    assert of_body(guest, {"source": "emit('x' + read_input())"}) == ('{"output":"x"}', "")
    assert of_body(guest, {"SOURCE": "emit('x')", "unknown": 1, "Limits": None, "input": None}) == (
        '{"output":"x"}',
        "",
    )


def test_a_whole_number_may_be_written_as_a_fraction():
    asked_for = convert_request(
        parse_json(b'{"source": "for(;;){}", "limits": {"wall_ms": 5e1, "output_kb": 2.0}}')
    )
    assert (asked_for.limits.timeout_ms, asked_for.limits.output_bytes) == (50, 2048)


WRONG = {
    '"5"': "limits.wall_ms must be an integer, not a string",
    "1.5": "limits.wall_ms must be an integer, not a fraction",
    "null": "limits.wall_ms must be an integer, not null",
    "true": "limits.wall_ms must be an integer, not a boolean",
    "1e300": "limits.wall_ms does not fit 64 bits",
    "9223372036854775808": "limits.wall_ms does not fit 64 bits",
}


@pytest.mark.parametrize(("number", "told"), WRONG.items())
def test_g12_limits_of_another_type(guest, number, told):
    body = json.loads(f'{{"source": "emit(1)", "limits": {{"wall_ms": {number}}}}}')
    assert of_body(guest, body) == ("", error("INVALID_INPUT", f"invalid JSON: {told}"))


@pytest.mark.parametrize("limits", [{"wall_ms": -1}, {"wall_ms": 0}, {"output_kb": 0}, {"output_kb": -7}])
def test_g13_limits_that_are_not_positive_are_the_default(guest, limits):
    request = convert_request(
        parse_json(json.dumps({"source": "1", "limits": limits}).encode())
    ).build_request(actor="a", surface="library", workspace=guest.workspace)
    allowed = guest.execute(request).decision.limits
    assert (allowed.timeout_ms, allowed.output_bytes) == (1000, 64 * 1024)


def test_g14_output_of_exactly_the_limit(lines):
    assert lines("emit('a'.repeat(1024))", output_kb=1) == (f'{{"output":"{"a" * 1024}"}}', "")


def test_g15_many_small_outputs_over_the_limit(lines):
    told = error("OUTPUT_LIMIT", "output exceeded 1 KB")
    source = "for (let i = 0; i < 1025; i++) emit('a')"
    assert lines(source, output_kb=1) == (f'{{"output":"{"a" * 1024}"}}', told)


@pytest.mark.parametrize("partial", [False, True])
@pytest.mark.parametrize(
    "source",
    [
        "try { emit('a'.repeat(5000)) } catch (e) { emit('caught') }",
        "try { emit('a'.repeat(5000)) } finally { throw new Error('finally') }",
        "emit('a'.repeat(1024)); for (;;) try { emit('b'); throw 1 } catch {}",
        "Promise.resolve().then(() => emit('a'.repeat(5000))).finally(() => { throw 1 })",
    ],
)
def test_g16_the_limit_cannot_be_caught(lines, source, partial):
    told = error("OUTPUT_LIMIT", "output exceeded 1 KB")
    assert lines(source, output_kb=1, partial=partial) == (f'{{"output":"{"a" * 1024}"}}', told)


def test_g17_the_wall_limit_cannot_be_caught(lines):
    source = "try{for(;;){}}catch(e){}finally{emit('x')}"
    assert lines(source, wall_ms=50) == ("", error("TIMEOUT", "execution exceeded 50 ms"))


@pytest.mark.parametrize("character", ["é", "€", "😀"])
def test_g18_no_character_is_cut(lines, character):
    told = error("OUTPUT_LIMIT", "output exceeded 1 KB")
    assert lines(f"emit('a'.repeat(1023) + '{character}')", output_kb=1) == (
        f'{{"output":"{"a" * 1023}"}}',
        told,
    )


def test_g19_everything_is_a_text(answer):
    assert answer("emit(1); emit(null); emit(undefined); emit({}); emit(); emit('', 'second')").output == (
        "1nullundefined[object Object]"
    )


def test_g20_markup_comes_back_as_it_was(answer):
    envelope = answer("emit('<&>\\u2028\\u2029')")
    assert envelope.stdout == '{"output":"\\u003c\\u0026\\u003e\\u2028\\u2029"}'
    assert json.loads(envelope.stdout) == {"output": "<&>\u2028\u2029"}


SYNTAX = {
    "let x = ;": "Unexpected token ';' at <eval>:1:9",
    "emit(1)\nreturn 1": "Illegal return statement at <eval>:2:1",
    "import 'fs'": "Cannot use import statement outside a module at <eval>:1:1",
    "emit(`": "Unexpected end of input at <eval>:1:7",
}


@pytest.mark.parametrize(("source", "told"), SYNTAX.items())
def test_g21_a_text_that_is_no_script(lines, source, told):
    assert lines(source) == ("", thrown(f"SyntaxError: {told}"))


def test_g22_endless_recursion(answer):
    told = answer("(function f(){f()})()")
    assert (told.output, told.code) == (None, "EVAL_ERROR")
    assert told.message == "RangeError: Maximum call stack size exceeded at <eval>:1:12"


@pytest.mark.parametrize(
    "source",
    [
        "let a=[];for(;;)a.push('x'.repeat(1e6))",
        "let a=[];for(;;)a.push(new Uint8Array(1e6).fill(1))",
        "let a=[];for(;;)a.push(a.slice())",
        "'x'.repeat(2**28).split('')",
        "emit('é'.repeat(2**29))",
    ],
)
def test_g23_memory_is_bounded(guest, answer, source):
    told = answer(source, wall_ms=5_000)
    assert told.output is None or told.code == "OUTPUT_LIMIT"
    assert told.code in {"EVAL_ERROR", "TIMEOUT", "OUTPUT_LIMIT"}
    assert answer("emit('alive')").output == "alive"


def test_g24_a_regular_expression_that_explodes(lines):
    told = error("TIMEOUT", "execution exceeded 100 ms")
    assert lines("/^(a+)+$/.test('a'.repeat(40)+'!')", wall_ms=100) == ("", told)


def test_g27_nothing_is_left_for_the_next_one(answer):
    assert answer("x = 1; Object.prototype.toString.left = 1; emit(x)").output == "1"
    assert answer("emit(typeof x + '|' + Object.prototype.toString.left)").output == "undefined|undefined"


def test_runs_at_the_same_time_keep_apart(guest):
    async def all_of_them():
        limits = {"wall_ms": 60_000}
        bodies = [
            {"source": "emit(read_input())", "input": f"input {number}", "limits": limits}
            for number in range(20)
        ]
        return await asyncio.gather(
            *(compute(guest.session, body, workspace=guest.workspace) for body in bodies)
        )

    assert [each.output for each in guest.runner.run(all_of_them())] == [f"input {n}" for n in range(20)]
