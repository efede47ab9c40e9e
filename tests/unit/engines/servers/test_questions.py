"""What a server's form holds, and the time that stands still while a person looks at it."""

import asyncio
import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.engines.servers.calls.elicitation import _pause_timeout, read_form
from paddock.engines.servers.person import ServerForm, UnanswerableQuestion

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)


def asking(fields, **schema):
    return {"message": "m", "requestedSchema": {"type": "object", "properties": fields, **schema}}


def test_defaults_are_the_answer():
    fields = {"a": {"type": "string", "default": "x"}, "b": {"type": "number"}}
    assert read_form(asking(fields)) == ServerForm("m", {"a": "x"})


@pytest.mark.parametrize(
    "params",
    [
        asking({"a": {"type": "string"}}, required=["a"]),
        asking({"a": {"type": "string", "default": 5}}),
        asking({"a": {"type": "string", "enum": ["x"], "default": "y"}}),
        asking({"a": {"type": "string", "default": "x"}}, minProperties=2),
    ],
)
def test_what_would_have_to_be_typed(params):
    with pytest.raises(UnanswerableQuestion, match="a person would have to type"):
        read_form(params)


@pytest.mark.parametrize(
    "params",
    [
        {"message": "m" * 4001, "requestedSchema": {}},
        {"message": "m", "requestedSchema": {"description": "d" * 17_000}},
        {"message": "m", "requestedSchema": {"properties": []}},
        {"message": "m"},
    ],
)
def test_what_breaks_the_protocol_or_is_too_large(params):
    with pytest.raises(UnanswerableQuestion, match="breaks the protocol"):
        read_form(params)


@given(st.dictionaries(st.sampled_from(["mode", "message", "requestedSchema"]), json_values), json_values)
def test_no_question_breaks_the_reading(params, fields):
    for given_ in (params, asking(fields)):
        with contextlib.suppress(UnanswerableQuestion):
            assert isinstance(read_form(given_), ServerForm)


def test_the_time_of_a_call_stands_still():
    async def main():
        async with asyncio.timeout(60) as limit:
            await asyncio.sleep(0)
            before = limit.when()
            with _pause_timeout(limit):
                assert limit.when() is None
            assert limit.when() >= before
        with _pause_timeout(limit):  # a call that has ended meanwhile
            pass

    asyncio.run(main())
