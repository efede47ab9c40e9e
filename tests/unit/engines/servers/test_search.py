"""What is found among tools, and in which order."""

import sqlite3
from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.engines.servers.catalog.queries import split_words
from paddock.engines.servers.catalog.search import (
    Hit,
    ToolIndex,
    compute_confidence,
    keyword_score,
    keyword_search,
)
from paddock.engines.servers.result import CatalogTool, ToolInfo


def tool(server, name, description="", parameters=None):
    properties = {key: {"type": "string", "description": text} for key, text in (parameters or {}).items()}
    schema = {"type": "object", "properties": properties}
    return CatalogTool(server, ToolInfo(name, description, schema, None, {}))


TOOLS = [
    tool("github", "listIssues", "List the issues of a repository", {"repo": "Repository name"}),
    tool("github", "create_pull_request", "Open a pull request"),
    tool("git", "git_log", "Show the commit history"),
    tool("files", "readTextFile2", "", {"headLines": "How many lines from the start"}),
]


def found(query, **options):
    return [hit.tool.name for hit in ToolIndex(TOOLS).search_tools(query, **options)]


def test_names_are_taken_apart():
    assert split_words("readTextFile2") == ["read", "text", "file", "2"]
    assert split_words("HTTPServer_name-x.y") == ["http", "server", "name", "x", "y"]
    assert split_words("straßeFinden ÉTÉ") == ["straße", "finden", "été"]


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("issue", ["github.listIssues"]),
        ("what is the history of commits?", ["git.git_log"]),
        ("read a text file", ["files.readTextFile2"]),
        ("starting lines", ["files.readTextFile2"]),
        ("files", ["files.readTextFile2"]),
        ("nothing of the kind", []),
        ("", []),
        ('" OR name:* NEAR(', ["github.listIssues"]),
    ],
)
def test_what_is_found(query, names):
    assert found(query) == names


def test_a_question_of_fillers_alone_is_still_asked():
    assert found("open the") == ["github.create_pull_request"]
    assert found("show") == ["git.git_log"]


def test_server_and_limit_narrow_what_is_found():
    assert found("commit pull issues history repository", server="git") == ["git.git_log"]
    assert len(found("commit pull issues", limit=2)) == 2


def test_equal_tools_stay_in_order_and_searching_twice_says_the_same():
    index = ToolIndex([tool(f"s{n}", "same") for n in range(50)])
    first = index.search_tools("same", limit=50)
    assert [hit.tool.server for hit in first] == [f"s{n}" for n in range(50)]
    assert index.search_tools("same", limit=50) == first


@given(st.text(max_size=200))
def test_no_question_breaks_the_search(query):
    ToolIndex(TOOLS).search_tools(query)


@given(st.text(max_size=50), st.text(max_size=200))
def test_no_tool_breaks_the_index(name, description):
    ToolIndex([tool(name, name, description, {name: description})]).search_tools(description)


def test_the_search_is_built_into_python():
    with closing(sqlite3.connect(":memory:")) as base:
        [row] = base.execute("SELECT sqlite_compileoption_used('ENABLE_FTS5')").fetchall()
    assert row == (1,)


def test_seed_score_counts_name_part_and_description():
    assert keyword_score(["echo"], "Echo", "echo it") == 12
    assert keyword_score(["ec", "it", "no"], "Echo", "echo it") == 9
    first, second = tool("a", "log", "the log"), tool("a", "git_log")
    assert keyword_search([second, first, tool("a", "x")], "LOG") == (Hit(first, 12), Hit(second, 5))
    assert len(keyword_search([tool("a", "log")] * 30, "log")) == 20


def test_seed_confidence_is_a_share_of_what_every_word_could_score():
    assert (
        compute_confidence(12, "log"),
        compute_confidence(5, "log"),
        compute_confidence(12, "log it now"),
    ) == (1, 0.42, 0.33)
    assert compute_confidence(99, "log") == 1
    assert compute_confidence(0, " ") == 0
