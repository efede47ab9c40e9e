"""References to scripts in templates."""

import asyncio
import time
from typing import Any

import pytest

from paddock.engines.script_tools.prompts.templates import (
    FieldNotFound,
    ScriptFailed,
    TemplateError,
    TemplateNotFound,
    fill,
    variables,
)
from paddock.model.numbers import loads
from paddock.model.tool import ToolEnd


class Scripts:
    """Runs nothing, remembers everything."""

    def __init__(self, **ends: ToolEnd) -> None:
        self.ends = ends
        self.runs: list[tuple[str, dict[str, Any]]] = []

    async def run(self, tool: str, inputs: dict[str, Any]) -> ToolEnd | None:
        self.runs.append((tool, inputs))
        return self.ends.get(tool)


def good(output: Any) -> ToolEnd:
    return ToolEnd(success=True, output=output, exit_code=0)


def filled(template: str, scripts: Scripts, **context: Any) -> str:
    return asyncio.run(fill(template, context, scripts.run, searched=["/a", "/b"]))


def test_p42_two_references_to_one_script_run_it_once():
    scripts = Scripts(a=good({"count": 42}))
    assert filled("{{script:a.count}} + {{script:a.count}}", scripts) == "42 + 42"
    assert scripts.runs == [("a", {})]


def test_arguments_of_a_reference_go_over_the_context():
    scripts = Scripts(a=good("x"))
    template = "{{ script:A k='v w' n=42 b=true f=1.5 s=\"q\" t=word z=null }}{{script:a}}"
    assert filled(template, scripts, k="old", c=[1]) == "xx"
    own = {"k": "v w", "n": 42, "b": True, "f": 1.5, "s": "q", "t": "word", "z": None}
    assert scripts.runs == [("a", {"k": "old", "c": [1]}), ("a", {"k": "old", "c": [1], **own})]


def test_a_number_that_json_does_not_know_is_a_text():
    scripts = Scripts(a=good("x"))
    assert filled("{{script:a n=NaN i=-Infinity b=1e999}}", scripts) == "x"
    assert scripts.runs == [("a", {"n": "NaN", "i": "-Infinity", "b": "1e999"})]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, ""),
        ("a'b", "a'b"),
        (1, "1"),
        (1.5, "1.5"),
        (2.0, "2"),
        (True, "true"),
        ({"é": [1, 2]}, '{"é":[1,2]}'),
        (loads("12345678901234567890.5"), "12345678901234567890.5"),
        ([loads("0.12345678901234567890")], "[0.12345678901234567890]"),
    ],
)
def test_values_as_texts(value: Any, text: str):
    assert filled("<{{script:a.v}}>", Scripts(a=good({"v": value}))) == f"<{text}>"
    assert filled("<{{script:a}}>", Scripts(a=good(value))) == f"<{text}>"


BAD = ToolEnd(success=False, exit_code=3, stderr="boom\n", error="boom\n")
SILENT = ToolEnd(success=False, exit_code=5, error="Process exited with code 5")


@pytest.mark.parametrize(
    ("template", "kind", "text"),
    [
        (
            "{{script:a.missing}}",
            FieldNotFound,
            'Field "missing" not found in script "a" output. Available: x, y',
        ),
        ("{{script:none}}", TemplateNotFound, 'Script "none" not found. Searched: /a, /b'),
        ("{{script:bad}}", ScriptFailed, 'Script "bad" failed (exit code 3): boom'),
        (
            "{{script:silent.x}}",
            ScriptFailed,
            'Script "silent" failed (exit code 5): Process exited with code 5',
        ),
        (
            "{{script:list.x}}",
            FieldNotFound,
            'Script "list" output is not valid JSON: Output must be a JSON object for field access',
        ),
        ("{{script:../a}}", TemplateError, 'Invalid script id: "../a"'),
        ("{{ script: }}", TemplateError, 'Invalid script id: ""'),
        ("{{script:a.b.c}}", TemplateError, 'Invalid script id: "a.b.c"'),
        ("{{script:a x}}", TemplateError, 'Invalid arguments of script "a": x'),
    ],
)
def test_p43_the_errors_of_references(template: str, kind: type[TemplateError], text: str):
    scripts = Scripts(a=good({"x": 1, "y": 2}), bad=BAD, silent=SILENT, list=good([1]))
    with pytest.raises(TemplateError) as raised:
        filled(template, scripts)
    assert (type(raised.value), str(raised.value)) == (kind, text)


def test_rows_of_blanks_are_read_once():
    scripts = Scripts(a=good("x"))
    template = "{{script:" + " " * 3_000 + "{{script:a" + " " * 1_900 + "}}"
    started = time.process_time()
    assert filled(template, scripts) == "{{script:" + " " * 3_000 + "x"
    assert time.process_time() - started < 3  # a quarter of a minute when all ways to divide them were tried


def test_what_a_script_says_is_not_a_template():
    scripts = Scripts(a=good("{{script:b}}"), b=good("secret"))
    assert filled("{{script:a}} {{other}} {{ script }}", scripts) == "{{script:b}} {{other}} {{ script }}"
    assert filled("", scripts) == ""


def test_a_template_refers_to_a_bounded_number_of_scripts():
    with pytest.raises(TemplateError, match=r"^a template may refer to 100 scripts, not to 101$"):
        filled("{{script:a}}" * 101, Scripts(a=good(1)))


def test_variables_of_tools_that_ran():
    assert variables({"a": good({"x": 1}), "b": BAD}) == {
        "tool_a": {"x": 1},
        "tool_a_result": {"isError": False, "text": '{"x":1}', "content": {"x": 1}},
        "tool_b_result": {"isError": True, "text": "boom\n", "content": None},
    }
