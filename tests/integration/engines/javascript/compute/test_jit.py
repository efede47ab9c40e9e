"""Computations may ask for just-in-time compilation, and have nothing of what programs have."""

import json

from .library import compute


def of_body(guest, body):
    envelope = guest.runner.run(compute(guest.session, body, workspace=guest.workspace))
    return envelope.stdout, envelope.stderr


def test_a_computation_may_be_compiled(guest):
    source = "let n = 0; for (let i = 0; i < 1e6; i++) n += i; emit(n)"
    assert of_body(guest, {"source": source, "limits": {"jit": True, "wall_ms": 60_000}}) == (
        '{"output":"499999500000"}',
        "",
    )


def test_jit_is_true_or_false(guest):
    told = {
        "code": "INVALID_INPUT",
        "message": "invalid JSON: limits.jit must be true or false, not a number",
    }
    answered = of_body(guest, {"source": "emit(1)", "limits": {"jit": 1}})
    assert (answered[0], json.loads(answered[1])) == ("", told)


def test_a_computation_keeps_its_two_functions(guest):
    names = "return Object.getOwnPropertyNames(globalThis)"
    outcome = guest.compute("emit(Object.getOwnPropertyNames(globalThis).sort().join(' '))")
    mine = set(outcome.value.split())
    beyond = set(guest.value(names)) - mine
    assert mine - set(guest.value(names, raw_results=False)) == {"emit", "read_input"}
    assert {"URL", "crypto", "structuredClone", "console", "setTimeout", "self", "Intl"} <= beyond


def test_what_an_async_function_throws_is_an_error(guest):
    source = "async function main() { emit(JSON.parse(read_input()).x) }\nmain()"
    outcome = guest.compute(source, "not json")
    assert (outcome.status, outcome.error.name, outcome.error.line) == ("failed", "SyntaxError", 1)
    outcome = guest.compute("Promise.reject(new Error('lost')); emit('kept')")
    assert (outcome.status, outcome.error.message) == ("failed", "lost")
