"""Tool directories: where they are found, when they are read again, and what of a stranger's is not read at all."""

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from paddock.engines.script_tools.library import (
    BrokenTool,
    ScriptTool,
    ScriptToolError,
    ToolLibrary,
    inside,
    load,
    read_inside,
)

MakeTool = Callable[..., Path]


def names(library: ToolLibrary) -> list[tuple[str, str]]:
    return [(tool.id, tool.prompt) for tool in library.all() if isinstance(tool, ScriptTool)]


def test_tools_are_found_in_every_place(workspace: Path, make_tool: MakeTool, tmp_path: Path):
    make_tool("b")
    make_tool("A")
    make_tool("local", folder="resources/prompts/data/analyse/tools")
    (workspace / "resources/prompts/data/analyse/prompt.yaml").write_text("id: analyse\n")
    make_tool("top", folder="tools")
    (workspace / "prompt.yaml").write_text("")
    make_tool("shared", folder="resources/scripts")
    make_tool("stray", folder="resources/prompts/data/other/tools")
    make_tool("own", folder="../own")
    (workspace / ".paddock/tools/empty").mkdir()
    library = ToolLibrary(workspace, (tmp_path / "own",))
    assert names(library) == [
        ("a", ""), ("b", ""), ("shared", ""), ("own", ""), ("top", "ws"), ("local", "analyse"),
    ]  # fmt: skip


def test_of_two_with_one_id_the_first_wins_and_the_prompts_own_goes_before(
    workspace: Path, make_tool: MakeTool
):
    mine = make_tool("count")
    other = make_tool("count", folder="prompts/analyse/tools")
    (workspace / "prompts/analyse/prompt.yaml").write_text("")
    library = ToolLibrary(workspace)

    def found(name: str, prompt: str = "") -> Path | None:
        tool = library.find(name, prompt=prompt)
        return tool.directory if tool else None

    assert [found("Count"), found("count", "analyse"), found("analyse/count")] == [mine, other, other]
    assert [found("count", "else"), found("x"), found("x/count")] == [mine, None, None]
    assert library.tools()["count"].directory == mine


@pytest.mark.parametrize("folder", ["resources/scripts", "../own"])
def test_the_tool_that_is_listed_is_the_one_that_runs(
    workspace: Path, make_tool: MakeTool, tmp_path: Path, folder: str
):
    make_tool("count", folder="prompts/analyse/tools", description="The prompt's.")
    (workspace / "prompts/analyse/prompt.yaml").write_text("")
    directory = make_tool("count", folder=folder, description="The workspace's.")
    library = ToolLibrary(workspace, (tmp_path / "own",))
    assert [description for _, description, _ in library.listing()] == ["The workspace's."]
    assert library.tools()["count"] is library.find("count") is library.all()[0]
    assert library.tools()["count"].directory == directory.resolve()


def test_what_a_tool_says_of_itself(make_tool: MakeTool):
    schema = {"type": "object", "properties": {"a": {"type": "string"}}}
    said = load(make_tool("a", manifest="description: Short.\n", schema=schema, description=" Long.\n"))
    assert (said.id, said.description, said.content, said.schema.document) == ("a", "Short.", "Long.", schema)
    bare = load(make_tool("B", description="Long.\n"))
    assert (bare.id, bare.description, bare.script) == ("b", "Long.", bare.directory / "script.py")
    assert bare.schema.document == {"type": "object", "properties": {}}


@pytest.mark.parametrize(
    ("files", "problem"),
    [
        ({"tool.yaml": "id: a\n"}, "tool.yaml: name: is missing; script: is missing"),
        ({"tool.yaml": "a: b: c"}, "tool.yaml: line 1: mapping values are not allowed here"),
        ({"tool.yaml": b"\xff"}, "tool.yaml is not UTF-8 text"),
        ({"tool.yaml": "#" * 300_000}, "tool.yaml is larger than 262144 bytes"),
        ({"schema.json": "{"}, "schema.json: this is not JSON: Expecting property name enclosed in double quotes: "
         "line 1 column 2 (char 1)"),
        ({"schema.json": "[" * 100_000}, "schema.json: this JSON is nested too deeply"),
        ({"schema.json": "[]"}, "schema.json: a JSON Schema of inputs must be an object"),
        ({"schema.json": '{"$ref": "http://127.0.0.1/x"}'}, "schema.json: this is no JSON Schema: the "
         "reference 'http://127.0.0.1/x' leads out of it; nothing is fetched"),
        ({"schema.json": '{"pattern": "(?=a)"}'}, "schema.json: this is no JSON Schema: the pattern '(?=a)' is no "
         "regular expression, or none that takes linear time and 512 KiB"),
    ],
)  # fmt: skip
def test_what_cannot_be_used_says_why(
    workspace: Path, make_tool: MakeTool, files: dict[str, str | bytes], problem: str
):
    directory = make_tool("a")
    for name, content in files.items():
        (directory / name).write_bytes(content.encode() if isinstance(content, str) else content)
    assert ToolLibrary(workspace).all() == [BrokenTool("a", directory, problem)]
    assert ToolLibrary(workspace).find("a") == BrokenTool("a", directory, problem)
    assert ToolLibrary(workspace).tools() == {}


def test_files_of_others_are_not_read(make_tool: MakeTool, tmp_path: Path):
    (tmp_path / "key").write_text("PRIVATE KEY")
    for number, (field, name) in enumerate(
        [
            ("descriptionFile", "../../../../key"),
            ("schemaFile", str(tmp_path / "key")),
            ("descriptionFile", "link"),
        ]
    ):
        directory = make_tool(f"t{number}", manifest=f"{field}: {name}\n")
        (directory / "link").symlink_to(tmp_path / "key")
        with pytest.raises(ScriptToolError) as refused:
            load(directory)
        assert str(refused.value) == f"{name} leads out of the tool's directory"


def test_a_link_in_the_place_of_a_file_is_followed_inside_alone(make_tool: MakeTool, tmp_path: Path):
    directory = make_tool("a")
    (tmp_path / "key").write_text("PRIVATE KEY")
    (directory / "real.md").write_text("Hello.")
    (directory / "description.md").symlink_to("real.md")
    assert load(directory).content == "Hello."
    (directory / "schema.json").symlink_to(tmp_path / "key")
    with pytest.raises(ScriptToolError, match=r"^schema.json leads out of the tool's directory$"):
        load(directory)


def test_a_link_that_is_swapped_while_it_is_followed_is_an_error_of_its_tool(
    workspace: Path, make_tool: MakeTool, monkeypatch: pytest.MonkeyPatch
):
    make_tool("a")
    directory = make_tool("b")
    (directory / "link").symlink_to("tool.yaml")
    library = ToolLibrary(workspace)
    (workspace / "prompts").symlink_to("elsewhere")

    readlink = os.readlink

    def swapped(path: str, **_: object) -> str:
        if str(path).startswith("/proc/self/fd/"):
            return readlink(path)
        raise OSError(errno.EINVAL, "Invalid argument")

    monkeypatch.setattr(os, "readlink", swapped)
    # From Python 3.13 on such a link stands for itself, and is not opened.
    with pytest.raises(
        ScriptToolError, match=r"^('link' is not a path|link: Too many levels of symbolic links)$"
    ):
        read_inside(directory, "link")
    assert sorted(library.tools()) == ["a", "b"]


def test_a_directory_that_is_swapped_after_its_links_were_followed_shows_no_other_file(
    workspace: Path, make_tool: MakeTool, monkeypatch: pytest.MonkeyPatch
):
    directory = make_tool("a")
    (workspace / "other").mkdir()
    (workspace / "other" / "tool.yaml").write_text("secret")
    found = inside(directory, "tool.yaml")
    directory.rename(workspace / "away")
    directory.symlink_to(workspace / "other")
    monkeypatch.setattr("paddock.engines.script_tools.library.inside", lambda *_: found)
    with pytest.raises(ScriptToolError, match=r"^tool.yaml leads out of the tool's directory$"):
        read_inside(directory, "tool.yaml")


def test_a_path_that_is_no_utf_8_is_of_a_tool_that_cannot_be_used(workspace: Path, make_tool: MakeTool):
    odd = os.fsdecode(b"\xff")
    directory = make_tool("a")
    there = directory.rename(directory.with_name(odd))
    problem = "the path of tool.yaml is not UTF-8 text; rename its directories"
    assert ToolLibrary(workspace).all() == [BrokenTool(odd, there, problem)]
    linked = make_tool("b")
    (linked / odd).touch()
    (linked / "link").symlink_to(odd)
    with pytest.raises(
        ScriptToolError, match=r"^the path of link is not UTF-8 text; rename its directories$"
    ):
        inside(linked, "link")


def test_what_is_no_regular_file_is_not_waited_for(make_tool: MakeTool):
    directory = make_tool("a")
    os.mkfifo(directory / "description.md")
    with pytest.raises(ScriptToolError, match=r"^description.md is not a regular file$"):
        load(directory)
    with pytest.raises(ScriptToolError, match=r" is not a path$"):
        inside(directory, "no\0name")
    with pytest.raises(ScriptToolError, match=r"^missing: No such file or directory$"):
        read_inside(directory, "missing")


def test_directories_behind_links_hold_no_tools(workspace: Path, make_tool: MakeTool, tmp_path: Path):
    elsewhere = make_tool("a", folder="../elsewhere")
    (workspace / ".paddock/tools").mkdir(parents=True)
    (workspace / ".paddock/tools/a").symlink_to(elsewhere)
    (workspace / "resources").symlink_to(tmp_path)
    (tmp_path / "scripts").symlink_to(tmp_path / "elsewhere")
    assert ToolLibrary(workspace).all() == []
    assert names(ToolLibrary(workspace, (tmp_path / "elsewhere",))) == [("a", "")]


def test_what_cannot_be_looked_at_hides_no_other_tool(workspace: Path, make_tool: MakeTool):
    make_tool("a")
    endless = "n" * 300
    broken = make_tool("b")
    (broken / "schema.json").symlink_to(endless)
    for name in (".paddock/tools/c/tool.yaml", "prompts/d/prompt.yaml", "resources/scripts"):
        link = workspace / name
        link.parent.mkdir(parents=True)
        link.symlink_to(endless)
    library = ToolLibrary(workspace)
    why = "schema.json: File name too long"
    assert [each for each in library.all() if isinstance(each, BrokenTool)] == [BrokenTool("b", broken, why)]
    assert list(library.tools()) == ["a"]


def test_a_change_is_seen_at_the_next_look(workspace: Path, make_tool: MakeTool):
    directory = make_tool("a", description="One.")
    library = ToolLibrary(workspace)
    assert library.listing() == [("a", "One.", {"type": "object", "properties": {}})]
    assert library.tools()["a"] is library.tools()["a"]
    (directory / "description.md").write_text("Two!")
    assert library.listing()[0][1] == "Two!"
    schema = {"type": "object", "properties": {"x": {}}}
    (directory / "schema.json").write_text(json.dumps(schema))
    assert library.listing() == [("a", "Two!", schema)]
    make_tool("b", manifest="enabled: false\n")
    assert [name for name, _, _ in library.listing()] == ["a"]
    (directory / "tool.yaml").unlink()
    assert library.listing() == []
    (directory / "script.py").write_text("print(2)")
    assert library.listing() == []


def test_a_broken_tool_is_mended_by_its_next_version(workspace: Path, make_tool: MakeTool):
    directory = make_tool("a", schema="{")
    library = ToolLibrary(workspace)
    assert library.tools() == {}
    (directory / "schema.json").write_text("{}")
    assert list(library.tools()) == ["a"]
