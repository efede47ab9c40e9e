import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.engines.servers.result import (
    ToolInfo,
    ToolResult,
    native_value,
    read_native,
    read_result,
    read_tools,
)
from paddock.model.errors import ServerUnavailable


def said(text, **more):
    return ToolResult({"content": [{"type": "text", "text": text}], **more})


def test_native_value_prefers_structured_content():
    assert native_value(said("x", structuredContent={"a": 1})) == {"a": 1}


def test_native_value_parses_json_text():
    assert native_value(said('{"a": [1, null]}')) == {"a": [1, None]}
    assert native_value(said("42")) == 42
    assert native_value(said("true")) is True
    assert native_value(said("null")) is None


def test_native_value_keeps_text_whose_number_would_change():
    for text in ("1.10", "007", "1e5", "9007199254740993", "NaN", "-0", "plain", "{", "[" * 100_000):
        assert native_value(said(text)) == text


@pytest.mark.parametrize(
    "text", ["[1]", "7", "no", "[" + "[]," * 30_000 + "[]]", "[" + "[]," * 30_000, "[" * 30_000]
)
def test_a_large_text_gives_the_same_native_value(text):
    assert asyncio.run(read_native(said(text))) == native_value(said(text))


def test_a_text_of_json_with_too_many_values_is_the_servers_fault():
    result = read_result({"content": [{"type": "text", "text": f"[{'1,' * 10_000}1]"}]}, "web", 10_001)
    with pytest.raises(ServerUnavailable) as caught:
        asyncio.run(read_native(result))
    assert caught.value.sent
    assert str(caught.value) == (
        "Server web sent no complete answer: its text is JSON of more than 10001 values; ask for less at once, raise "
        "`servers.answer_values`, or read the text with `callRaw`."
    )


def test_native_value_of_other_content_is_the_content():
    image = {"type": "image", "data": "", "mimeType": "image/png"}
    assert native_value(ToolResult({"content": [image]})) == [image]
    assert native_value(ToolResult({"content": []})) == []
    two = [{"type": "text", "text": "1"}, {"type": "text", "text": "2"}]
    assert native_value(ToolResult({"content": two})) == two


def test_x27_is_error_is_a_value():
    result = read_result({"content": [], "isError": True, "resultType": "complete", "_meta": {"k": 1}})
    assert result == ToolResult({"content": [], "isError": True, "_meta": {"k": 1}})
    assert result.is_error


def test_faulty_results_are_bent_with_a_warning():
    assert read_result({"content": "t", "isError": 1}) == ToolResult(
        {"content": [{"type": "text", "text": "t"}], "isError": True},
        ("`content` is not an array", "`isError` is not a boolean"),
    )
    assert read_result({"structuredContent": {"a": 1}}) == ToolResult(
        {"content": [], "structuredContent": {"a": 1}}, ("`content` is missing",)
    )
    assert read_result({"content": ["x"]}) == ToolResult(
        {"content": ["x"]}, ("a part of `content` is not a content block",)
    )
    assert read_result([1]) == ToolResult(
        {"content": [{"type": "text", "text": "[1]"}]}, ("the result is not an object",)
    )


def test_tool_listing_survives_faulty_entries():
    assert read_tools([{"name": "a", "inputSchema": None}, {"name": ""}, 3]) == (
        [ToolInfo("a", "", {"type": "object"}, None, {})],
        ["tool 'a' has no input schema", "a listed tool has no name", "a listed tool has no name"],
    )
    assert read_tools(None) == ([], [])


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: (
        st.lists(inner) | st.dictionaries(st.sampled_from(["content", "isError", "text", "type"]), inner)
    ),
)


@given(anything)
def test_any_answer_becomes_a_result_and_a_value(answer):
    result = read_result(answer)
    assert isinstance(result.raw["content"], list)
    native_value(result)
    read_tools(answer)
