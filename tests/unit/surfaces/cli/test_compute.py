"""The mapping between JSON and computations."""

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from paddock.model.errors import LedgerError
from paddock.model.limits import LimitOverrides
from paddock.model.outcome import ErrorInfo, Outcome, Status
from paddock.surfaces.rendering.computation import (
    ComputationRequest,
    Envelope,
    InvalidInput,
    build_envelope,
    build_refused_envelope,
    convert_request,
    parse_json,
    render_one_line,
)

TEXTS = st.text(st.characters(exclude_categories=()))


def test_everything_that_can_be_asked():
    limits = {"wall_ms": 5, "output_kb": 2, "deterministic": False, "partial": True, "more": {}}
    body = {
        "source": "s",
        "INPUT": "i\ud800",
        "Limits": {name.upper(): value for name, value in limits.items()},
    }
    assert convert_request(parse_json(json.dumps(body).encode())) == ComputationRequest(
        source="s",
        input="i\ud800",
        limits=LimitOverrides(timeout_ms=5, output_bytes=2048),
        deterministic=False,
        partial=True,
    )


INVALID = {
    b"": "Expecting value: line 1 column 1 (char 0)",
    b"{} {}": "Extra data: line 1 column 4 (char 3)",
    b"[]": "the request must be an object, not an array",
    b'"text"': "the request must be an object, not a string",
    b"\xff": "it is not UTF-8 (byte 1)",
    b"[" * 200_000: "it is nested too deeply",
    b'{"source": "s", "limits": {"wall_ms": NaN}}': "NaN is not a JSON value",
    b'{"source": 5}': "source must be a string, not a number",
    b'{"source": "s", "input": []}': "input must be a string, not an array",
    b'{"source": "s", "limits": 5}': "limits must be an object, not a number",
    b'{"source": "s", "limits": {"output_kb": {}}}': "limits.output_kb must be an integer, not an object",
    b'{"source": "s", "limits": {"partial": 1}}': "limits.partial must be true or false, not a number",
}


@pytest.mark.parametrize(("raw", "told"), INVALID.items(), ids=range(len(INVALID)))
def test_what_is_no_request(raw, told):
    with pytest.raises(InvalidInput) as caught:
        convert_request(parse_json(raw))
    assert str(caught.value) == f"invalid JSON: {told}"


@given(
    st.binary(max_size=60)
    | st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | TEXTS,
        lambda item: (
            st.lists(item)
            | st.dictionaries(st.sampled_from(["source", "input", "limits", "wall_ms", "Partial"]), item)
        ),
        max_leaves=8,
    ).map(lambda value: json.dumps(value).encode())
)
def test_any_bytes_are_a_request_or_say_why_not(raw):
    try:
        told = convert_request(parse_json(raw)).source
    except InvalidInput as problem:
        told = build_refused_envelope(problem).message
    assert told


def judged(status, name="Error", message="", **more):
    return build_envelope(Outcome(id="1", status=status, error=ErrorInfo(name=name, message=message, **more)))


def test_what_an_error_is_called():
    assert judged(Status.FAILED, "TypeError", "no", line=2, column=3) == Envelope(
        status=Status.FAILED, name="TypeError", message="TypeError: no at <eval>:2:3"
    )
    assert judged(Status.FAILED, "Thrown", "5") == Envelope(status=Status.FAILED, name="Thrown", message="5")
    assert judged(
        Status.MEMORY_LIMIT, message="Out of memory", hint="the memory limit is 5 bytes"
    ) == Envelope(
        status=Status.MEMORY_LIMIT, name="Error", message="Out of memory: the memory limit is 5 bytes"
    )
    assert judged(Status.DENIED, "PolicyError", "not allowed") == Envelope(
        status=Status.DENIED, name="PolicyError", message="not allowed"
    )
    assert judged(Status.LOST, message="crashed") == Envelope(
        status=Status.LOST, name="Error", message="crashed"
    )
    assert build_envelope(Outcome(id="1", status=Status.CANCELLED)) == Envelope(
        status=Status.CANCELLED, name="Error", message="cancelled"
    )
    assert build_refused_envelope(LedgerError("full")) == Envelope(
        status=Status.ERROR, name="LedgerError", message="full"
    )


def test_codes():
    codes = {status.value: Envelope(status=status).code for status in Status if status is not Status.OK}
    assert codes == {
        "failed": "EVAL_ERROR",
        "timeout": "TIMEOUT",
        "memory_limit": "EVAL_ERROR",
        "output_limit": "OUTPUT_LIMIT",
        "process_limit": "PROCESS_LIMIT",
        "cancelled": "CANCELLED",
        "denied": "DENIED",
        "invalid": "INVALID_INPUT",
        "unavailable": "UNAVAILABLE",
        "lost": "LOST",
        "error": "ERROR",
    }


def test_where_an_answer_goes():
    whole = Outcome(
        id="1", status=Status.OUTPUT_LIMIT, value="x", has_value=True, error=ErrorInfo(name="O", message="m")
    )
    assert (build_envelope(whole).stdout, build_envelope(whole).stderr) == (
        '{"output":"x"}',
        '{"code":"OUTPUT_LIMIT","message":"m"}',
    )
    part = whole.model_copy(update={"status": Status.TIMEOUT})
    assert (build_envelope(part).stdout, build_envelope(part).stderr) == (
        "",
        '{"code":"TIMEOUT","message":"m","partial":"x"}',
    )
    nothing = Outcome(id="1", status=Status.OK, value="", has_value=True)
    assert (build_envelope(nothing).stdout, build_envelope(nothing).stderr) == ('{"output":""}', "")


@example("<&>\u2028\u2029\x7f\x85\x9b\n\r\0\ud800")
@given(TEXTS)
def test_any_output_is_one_line_of_json(text):
    done = build_envelope(Outcome(id="1", status=Status.OK, value=text, has_value=True))
    assert json.loads(done.stdout) == {
        "output": text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    }
    assert done.stdout.encode().splitlines() == [done.stdout.encode()]
    assert not any(character in done.stdout for character in "<>&\u2028\u2029\x7f\x85\x9b\n\r")
    failed = judged(Status.FAILED, "Error", text, line=1, column=1)
    assert json.loads(failed.stderr) == failed.error
    assert len(failed.stderr.splitlines()) == 1


def test_one_line_is_as_short_as_can_be():
    assert render_one_line({"a": "é<", "b": [1, None]}) == '{"a":"é\\u003c","b":[1,null]}'
