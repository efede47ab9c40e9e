"""What is emitted: never more than the limit, never part of a character, never out of order."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paddock.model.limits import LimitOverrides
from paddock.model.request import ExecutionRequest, GuestRun

TEXTS = st.lists(st.text(st.sampled_from('aé€😀\ud83d\ude00\0"\\\u2028'), max_size=12), max_size=8)


def run(guest, source, *, output_bytes, partial=False, given=""):
    work = GuestRun(source=source, input=given, profile="compute", partial=partial)
    limits = LimitOverrides(output_bytes=output_bytes, timeout_ms=60_000)
    request = ExecutionRequest(workspace=guest.workspace, work=work, limits=limits)
    return guest.execute(request)


def spelled(text):
    """Return a JavaScript literal of a text, half characters and all."""
    units = text.encode("utf-16-be", "surrogatepass").hex()
    return "'" + "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4)) + "'"


def well_formed(text):
    """Return a text as `emit` takes it: each half of a character that stands alone is U+FFFD."""
    return text.encode("utf-16-be", "surrogatepass").decode("utf-16-be", "replace")


def beginning(texts, room):
    """Return what of the texts fits, whole characters alone, up to the first that does not."""
    kept = ""
    for text in map(well_formed, texts):
        for character in text:
            if len((kept + character).encode()) > room:
                return kept, True
            kept += character
    return kept, False


@settings(max_examples=60, deadline=None)
@given(TEXTS, st.integers(1, 40), st.booleans())
def test_emit_keeps_to_the_limit_and_to_characters(guest, texts, room, partial):
    kept, cut = beginning(texts, room)
    source = "".join(f"emit({spelled(text)});" for text in texts)
    outcome = run(guest, source, output_bytes=room, partial=partial)
    assert (outcome.status, outcome.value) == ("output_limit" if cut else "ok", kept)
    assert outcome.usage.emitted_bytes == len(kept.encode()) <= room


@pytest.mark.parametrize("partial", [False, True])
@pytest.mark.parametrize("unit", ["a", "é", "😀", "\0", "a😀"])
def test_large_outputs_arrive_whole_and_in_order(guest, unit, partial):
    source = "const t = read_input(); for (let i = 0; i < 5; i++) emit(i + t)"
    text = unit * (200_000 // len(unit.encode()))
    outcome = run(guest, source, output_bytes=2**21, given=text, partial=partial)
    assert outcome.value == "".join(f"{number}{text}" for number in range(5))


def test_what_is_queued_at_the_top_level_runs_within_the_wall_limit(answer):
    source = "const f = async () => { emit(1); await null; emit(3); await null; emit(4) }; f(); emit(2); new Promise(() => {}); 0"
    assert answer(source).output == "1234"
    assert answer("emit('lost'); (async () => { for (;;) await null })()", wall_ms=50).code == "TIMEOUT"


REJECTED = {
    "an async function": ("async function main() { emit(JSON.parse('no').x) }\nmain()", "SyntaxError: Unexpected token 'o', \"no\" is not valid JSON at <eval>:1:35"),
    "after what was emitted": ("emit(1); Promise.reject(new Error('x')); 0", "Error: x at <eval>:1:25"),
    "after an await": ("async function main() { await null; emit(1); null.x }\nmain(); 0", "TypeError: Cannot read properties of null (reading 'x') at <eval>:1:51"),
    "what follows a promise": ("Promise.resolve().then(() => { throw new TypeError('deep') }); emit('a')", "TypeError: deep at <eval>:1:38"),
    "no error": ("(async () => { throw 5 })()", "5"),
    "the first of several": ("Promise.reject(new Error('one')); Promise.reject(new Error('two'))", "Error: one at <eval>:1:16"),
    "a getter that throws": ("Promise.reject({ get x() { throw 1 } }); emit(1)", "[object Object]"),
}  # fmt: skip


@pytest.mark.parametrize(("source", "message"), REJECTED.values(), ids=REJECTED.keys())
def test_a_rejection_that_nobody_handles_is_an_error(answer, source, message):
    found = answer(source)
    assert (found.error, found.stdout) == ({"code": "EVAL_ERROR", "message": message}, "")


HANDLED = {
    "catch": ("const p = Promise.reject(1); p.catch(() => emit('caught')); p", "caught"),
    "await": ("(async () => { try { await Promise.reject(1) } catch { emit('caught') } })()", "caught"),
    "later": ("const p = Promise.reject(1); (async () => { await null; await p.catch(() => emit(2)) })()", "2"),
    "a last value that settles": ("async function main() { await null; emit(1); return 2 }\nmain()", "1"),
    "a promise that nobody waits for": ("emit(1); new Promise(() => {}); 0", "1"),
    "a class of its own": ("class P extends Promise {}; emit(1); P.resolve(1)", "1"),
    "a promise that cannot be asked": ("class P extends Promise { static get [Symbol.species]() { throw 1 } }; emit(1); Object.freeze(new P((yes) => yes()))", "1"),
}  # fmt: skip


@pytest.mark.parametrize(("source", "output"), HANDLED.values(), ids=HANDLED.keys())
def test_a_promise_that_does_no_harm_is_no_error(answer, source, output):
    assert answer(source).output == output


@pytest.mark.parametrize(
    "source",
    [
        "async function main() { emit(2); await new Promise(() => {}); emit(1) }\nmain()",
        "new Promise(() => {})",
        "Object.freeze(new Promise(() => {}))",
        "(async () => { await null; await { then() {} } })().then(emit)",
    ],
)
def test_a_last_promise_that_never_settles_is_an_error(answer, source):
    message = "Error: the program evaluates to a promise that nothing can settle any more"
    found = answer(source)
    assert found.error == {"code": "EVAL_ERROR", "message": message}
    assert found.hint == (
        "a computation has no timers and nothing to wait for: code after such an `await` never runs"
    )


def test_what_was_emitted_before_a_rejection_is_told_on_request(answer):
    source = "emit('a'); (async () => { await null; emit('b'); throw new Error('no') })()"
    told = {"code": "EVAL_ERROR", "message": "Error: no at <eval>:1:56"}
    assert answer(source, partial=True).error == {**told, "partial": "ab"}
    assert answer(source).error == told


def test_output_beyond_its_limit_wins_over_a_rejection(answer):
    found = answer("emit('x'.repeat(2048)); Promise.reject(1)", output_kb=1)
    assert (found.code, len(found.output)) == ("OUTPUT_LIMIT", 1024)


PARTIAL = {
    "TIMEOUT": ("emit('a'); emit('b'); for (;;) {}", "execution exceeded 2000 ms"),
    "EVAL_ERROR": ("emit('a'); emit('b'); throw new TypeError('no')", "TypeError: no at <eval>:1:29"),
}


@pytest.mark.parametrize(("code", "case"), PARTIAL.items())
def test_what_was_emitted_before_an_error_is_told_on_request(answer, code, case):
    source, message = case
    limits = {"wall_ms": 2000} if code == "TIMEOUT" else {}
    told = answer(source, partial=True, **limits)
    assert told.error == {"code": code, "message": message, "partial": "ab"}
    assert answer(source, **limits).error == {"code": code, "message": message}
    assert told.stdout == ""


THROWN = {
    "throw 5": "5 at <eval>:1:1",
    "throw null": "null at <eval>:1:1",
    "\n throw 'http: nope'": "http: nope at <eval>:2:2",
    "throw ''": " at <eval>:1:1",
    "throw { toString() { throw 1 } }": "<string conversion failed> at <eval>:1:1",
    "throw new Error('a\\nb')": "Error: a\nb at <eval>:1:7",
    "class OwnError extends TypeError {}\nthrow new OwnError('x')": "TypeError: x at <eval>:2:7",
    "emit(Symbol())": "TypeError: Cannot convert a Symbol value to a string at <eval>:1:1",
    "emit({ toString() { throw new Error('mine') } })": "Error: mine at <eval>:1:27",
    "/* " + "x" * 9000 + " */ throw new Error('far')": "Error: far at <eval>:1:1",
}


@pytest.mark.parametrize(("source", "message"), THROWN.items(), ids=range(len(THROWN)))
def test_what_a_program_throws(answer, source, message):
    assert answer(source).error == {"code": "EVAL_ERROR", "message": message}


LAST_VALUES = [
    "new ArrayBuffer(0)",
    "new Uint8Array(9)",
    "Symbol()",
    "1n",
    "(() => 0)",
    "new Date",
    "'x'.repeat(1e6)",
]


@pytest.mark.parametrize(
    "value", [*LAST_VALUES, "new Proxy({}, { get() { for (;;); } })", "({ toString() { for (;;); } })"]
)
def test_the_value_of_the_last_statement_is_ignored(answer, value):
    assert answer(f"emit(1); {value}").stdout == '{"output":"1"}'


def test_sloppy_script_goal(answer):
    source = "emit(this === globalThis); undeclared = 1; with ({ a: 2 }) emit(a); emit((function () { return this === globalThis })())"
    assert answer(source).output == "true2true"
    assert (
        answer("'use strict'; undeclared = 1").message
        == "ReferenceError: undeclared is not defined at <eval>:1:26"
    )
