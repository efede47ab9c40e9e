"""Whatever an answer tells is in the schema of its tool, which is closed at every level."""

from collections.abc import Iterator
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from tests.support.mcp_server import SCHEMAS

from paddock.model.artifact import Cursor, Excerpt, OutputFound
from paddock.model.base import Value
from paddock.model.capture import HeadAndTail
from paddock.model.outcome import (
    CallRecord,
    ConsoleLine,
    Decision,
    ErrorInfo,
    Frame,
    Outcome,
    PlannedCall,
    SandboxFacts,
    Status,
    Usage,
)
from paddock.model.program import OutputMode, OutputOptions, ProgramEnd
from paddock.model.request import RuntimeRun
from paddock.record.output.digest.digest import Digest
from paddock.surfaces.mcp_server.replies import build_answer
from paddock.surfaces.mcp_server.toolbox import build_refusal
from paddock.surfaces.mcp_server.tools import compute
from paddock.surfaces.mcp_server.tools.programs import fit_found_output
from paddock.surfaces.rendering.computation import (
    Envelope,
    InvalidInput,
    build_envelope,
    build_refused_envelope,
)
from paddock.surfaces.rendering.program_response import program_response

NAMES = tuple(SCHEMAS)

words = st.text(max_size=30)
numbers = st.integers(0, 2**70)
lines = st.integers(1, 2**70)
json = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False, allow_infinity=False) | numbers | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=8,
)
errors = st.builds(
    ErrorInfo,
    name=words,
    message=words,
    line=st.none() | numbers,
    column=st.none() | numbers,
    thrown=words,
    hint=words,
    code=st.none() | st.integers(),
    data=json,
    frames=st.lists(st.builds(Frame, function=words, line=numbers, column=numbers), max_size=3).map(tuple),
)
outcomes = st.builds(
    Outcome,
    id=words,
    status=st.sampled_from(Status),
    value=json,
    has_value=st.booleans(),
    console=st.lists(
        st.builds(ConsoleLine, level=st.sampled_from(["log", "warn"]), text=words), max_size=3
    ).map(tuple),
    error=st.none() | errors,
    calls=st.lists(
        st.builds(CallRecord, server=words, tool=words, status=st.sampled_from(Status), ms=st.just(1.0)),
        max_size=3,
    ).map(tuple),
    in_flight=st.integers(0, 2),
    planned=st.lists(
        st.builds(
            PlannedCall,
            server=words,
            tool=words,
            arguments=st.none() | st.dictionaries(words, json, max_size=2),
            asks=st.lists(words, max_size=2).map(tuple),
        ),
        max_size=2,
    ).map(tuple),
)


def problems(schema: dict[str, Any], data: Any) -> list[str]:
    return [error.message for error in Draft202012Validator(schema).iter_errors(data)]


def objects(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the object schemas in a schema, itself among them."""
    if schema.get("type") == "object":
        yield schema
    inner = [*schema.get("properties", {}).values(), *schema.get("anyOf", [])]
    for each in [*inner, *([schema["items"]] if "items" in schema else [])]:
        yield from objects(each)


@pytest.mark.parametrize("name", NAMES)
def test_every_object_is_closed(name: str) -> None:
    Draft202012Validator.check_schema(SCHEMAS[name])
    of_strangers = [  # values, the arguments of a call that was planned, and counts by server
        {"type": "object"},
        {"type": "object", "additionalProperties": {"type": "integer"}},
    ]
    open_ones = [each for each in objects(SCHEMAS[name]) if each.get("additionalProperties") is not False]
    bare = [{key: each[key] for key in each if key != "description"} for each in open_ones]
    assert [each for each in bare if each not in of_strangers] == []
    assert not open_ones or name in {"execute_code", "query_output"}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("status", [Status.INVALID, Status.ERROR, Status.CANCELLED])
def test_a_refusal_fits_every_tool(name: str, status: Status) -> None:
    assert problems(SCHEMAS[name], build_refusal(status, "Name", "why").structured) == []


@given(outcome=outcomes, cap=st.integers(0, 300), single=st.booleans())
def test_whatever_became_of_a_program_fits(outcome: Outcome, cap: int, *, single: bool) -> None:
    shown = build_answer(outcome, cap, single=single).structured
    assert problems(SCHEMAS["execute_code"], shown) == []
    kept = {**shown, "artifactHandle": "runtime-w-1-0123456789abcdef"}
    assert problems(SCHEMAS["execute_code"], kept) == []


def captured(text: str) -> Any:
    ends = HeadAndTail(20)
    ends.take(text.encode("utf-8", "replace"))
    return ends.make_captured()


streams = st.sampled_from(
    ["", "x", "FAILED test_a.py::b - boom\n1 failed in 1s", "a.ts(1,2): error TS1: x\n"]
)
ends = st.builds(
    ProgramEnd,
    runtime=st.just("python"),
    executable=words,
    exit_code=st.none() | st.integers(0, 255),
    signal=st.none() | st.integers(1, 64),
    limit=st.none() | words,
    stdout=streams.map(captured),
    stderr=streams.map(captured),
    combined=st.booleans(),
    artifact=st.none() | words,
    not_kept=words,
    stdin_bytes=numbers,
    stdin_sha256=words,
    violations=st.lists(words, max_size=2).map(tuple),
)


@given(
    outcomes,
    st.sampled_from(get_args(OutputMode)),
    st.fixed_dictionaries(
        {
            "program": st.none() | ends,
            "usage": st.builds(Usage, wall_ms=st.floats(0, 1e9), peak_bytes=numbers),
            "sandbox": st.builds(SandboxFacts, tier=words, layers=st.lists(words, max_size=2).map(tuple)),
            "decision": st.builds(
                Decision, allowed=st.booleans(), reasons=st.lists(words, max_size=2).map(tuple)
            ),
        }
    ),
)
def test_whatever_became_of_a_program_in_a_language_fits(
    outcome: Outcome, mode: OutputMode, facts: dict[str, Any]
) -> None:
    work = RuntimeRun(runtime="python", code="1", output=OutputOptions(mode=mode, query_terms=("boom",)))
    assert problems(SCHEMAS["run_program"], program_response(outcome.model_copy(update=facts), work)) == []


def test_the_schema_of_a_program_names_all_members_of_the_models() -> None:
    properties = SCHEMAS["run_program"]["properties"]
    wire = {field.alias for field in Digest.model_fields.values()}
    assert set(properties["digest"]["properties"]) == wire
    assert set(properties["usage"]["properties"]) == set(Usage.model_fields)
    assert set(properties["sandbox"]["properties"]) == set(SandboxFacts.model_fields)


def examples(model: type[Value], **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Return examples of a model by the names of its fields: once it is built, its signature tells the aliases."""
    return st.fixed_dictionaries(fields).map(lambda given: model(**given))


cursors = examples(
    Cursor, stream=st.sampled_from(["stdout", "stderr"]), after_line=numbers, after_char=st.none() | numbers
)
found = examples(
    OutputFound,
    artifact_handle=words,
    excerpts=st.lists(
        examples(Excerpt, line_start=lines, line_end=lines, content=words, source=st.just("stdout")),
        max_size=3,
    ).map(tuple),
    total_lines=numbers,
    total_bytes=numbers,
    searched_streams=st.just(("stdout", "stderr")),
    match_status=st.sampled_from(["matched", "noMatchFallback", "lineRange"]),
    match_count=numbers,
    next_cursor=st.none() | cursors,
    line_cursor=st.none() | cursors,
)


@given(found, st.integers(400, 2000))
def test_whatever_was_found_fits(query: OutputFound, cap: int) -> None:
    shown = fit_found_output(query, cap) if query.excerpts else query
    assert problems(SCHEMAS["query_output"], {**shown.to_wire(), "truncated": True}) == []
    assert set(SCHEMAS["query_output"]["properties"]) >= {
        str(field.alias) for field in OutputFound.model_fields.values()
    }


@given(outcomes, st.integers(0, 100))
def test_whatever_was_computed_fits(outcome: Outcome, cap: int) -> None:
    for done in (
        build_envelope(outcome),
        build_refused_envelope(InvalidInput("why")),
        Envelope(status=Status.FAILED, partial="y", hint="z"),
    ):
        shown = compute.render_envelope(done, cap).structured
        assert problems(SCHEMAS["compute"], {**shown, "truncated": True, "artifactHandle": "x"}) == []
