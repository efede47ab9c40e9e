"""Which tools a call means to use."""

from typing import Any

import pytest

from paddock.engines.script_tools.manifest import ToolManifest
from paddock.engines.script_tools.prompts.detection import PromptMatch, detect

SCHEMA = {
    "type": "object",
    "properties": {
        "file_path": {"type": "string"},
        "rows": {"type": "integer", "description": "Alias: lines, count"},
    },
    "required": ["file_path", "rows"],
}


def tool(name: str = "csv", *, enabled: bool = True, **execution: Any) -> tuple[ToolManifest, dict[str, Any]]:
    fields = {"id": name, "name": name, "script": "x.py", "enabled": enabled, "execution": execution}
    return ToolManifest.model_validate(fields), SCHEMA


def found(
    arguments: dict[str, Any], *tools: tuple[ToolManifest, dict[str, Any]]
) -> list[tuple[str, float, str]]:
    return [(match.tool, match.priority, match.reason) for match in detect(arguments, tools)]


@pytest.mark.parametrize(
    "arguments",
    [{"tool:csv": True}, {"tool:CSV": None}, {"tool": "csv"}, {"tool_id": "Csv"}, {"toolId": "other, csv"}],
)
@pytest.mark.parametrize("trigger", ["explicit", "schema_match", "always"])
def test_p37_a_tool_asked_for_by_name(arguments: dict[str, Any], trigger: str):
    [match] = detect(arguments, [tool("CSV", trigger=trigger)])
    assert (match.tool, match.priority, match.reason, match.explicit) == ("csv", 1.0, "name_match", True)
    assert not match.needs_confirmation


def test_p37_several_tools_by_name():
    assert found({"tool": "a, b"}, tool("a"), tool("b"), tool("c", trigger="explicit")) == [
        ("a", 1.0, "name_match"),
        ("b", 1.0, "name_match"),
    ]


def test_p38_one_of_two_required_parameters():
    one = {"file_path": "x.csv"}
    both = {"file_path": "x.csv", "rows": 3}
    assert found(one, tool()) == [("csv", 0.8, "schema_match")]
    assert found(one, tool(strict=True)) == []
    assert found(both, tool()) == found(both, tool(strict=True)) == [("csv", 0.9, "schema_match")]
    assert found({}, tool()) == []


@pytest.mark.parametrize("name", ["file_path", "filePath", "file", "path", "filepath"])
def test_parameters_are_found_under_their_other_names(name: str):
    [match] = detect({name: "x.csv", "else": 1}, [tool()])
    assert match == PromptMatch("csv", 0.8, "schema_match", explicit=False, matched=("file_path",),
                          inputs={"file_path": "x.csv"}, needs_confirmation=True)  # fmt: skip


def test_an_alias_in_the_description_counts():
    [match] = detect({"lines": 3}, [tool()])
    assert match.inputs == {"rows": 3}


@pytest.mark.parametrize("value", ["", [], None])
def test_placeholders_are_no_values(value: Any):
    assert found({"file_path": value}, tool()) == []
    assert detect({"tool": "csv", "file_path": value}, [tool()])[0].inputs == {}


def test_triggers_that_do_not_look_at_arguments():
    assert found({}, tool("a", trigger="always")) == [("a", 1.0, "always_match")]
    assert found({"file_path": "x", "rows": 1}, tool("a", trigger="explicit")) == []
    assert found({"tool": "a", "file_path": "x"}, tool("a", trigger="never")) == []
    assert found({"tool": "a"}, tool("a", enabled=False)) == []


def test_the_surest_comes_first_and_equals_keep_their_order():
    arguments = {"file_path": "x", "tool": "d"}
    assert [match.tool for match in detect(arguments, [tool("a"), tool("b"), tool("c", trigger="always"), tool("d")])] == [
        "c", "d", "a", "b",
    ]  # fmt: skip


def test_without_declared_parameters_a_tool_gets_all_arguments():
    manifest, _ = tool("a", trigger="always")
    [match] = detect({"x": 1, "tool": "a", "tool:b": True}, [(manifest, {"type": "object"})])
    assert match.inputs == {"x": 1}
    assert found({"x": 1}, (tool("a")[0], {"type": "object"})) == []


def test_whether_it_must_be_confirmed():
    assert detect({"file_path": "x"}, [tool()])[0].needs_confirmation
    assert not detect({"file_path": "x"}, [tool(confirm=False)])[0].needs_confirmation
