"""What an unknown name stands for, among the tools that a program may call."""

import asyncio
from pathlib import Path

import pytest

from paddock.gate.visible_tools import NotVisible, suggest_call
from paddock.model.request import ExecutionRequest, ServerCall

TOOLS = {"g": ["search_issues", "get-sum"], "my-hub": ["list", "a.b"], "tools": ["run"]}
REQUEST = ExecutionRequest(workspace=Path("/"), work=ServerCall(server="", tool="*"))


class Offered:
    """Offers some tools, and remembers which servers were asked."""

    def __init__(self, tools, refused=()):
        self._tools = tools
        self._refused = refused
        self.asked = []

    async def list_names(self, method, server, request):
        assert request is REQUEST
        if method == "servers.list":
            return [*self._tools]
        self.asked.append(server)
        if server in self._refused:
            raise NotVisible("no")
        return self._tools[server]


def asked(names, tools=None):
    offered = Offered(TOOLS if tools is None else tools)
    return asyncio.run(suggest_call(offered, names, REQUEST)), offered.asked


@pytest.mark.parametrize(
    ("names", "call", "servers"),
    [
        (["g", "search_issues"], "servers.g.search_issues(...)", ["g"]),
        (["G", "searchIssues"], "", ["g"]),
        (["g", "get_sum"], 'servers.g["get-sum"](...)', ["g"]),
        (["my_hub", "list"], 'servers["my-hub"].list(...)', ["my-hub"]),
        (["my-hub", "a_b"], 'servers["my-hub"]["a.b"](...)', ["my-hub"]),
        (["mcp__my-hub__list"], 'servers["my-hub"].list(...)', ["my-hub"]),
        (["mcp__g__search_issues"], "servers.g.search_issues(...)", ["g"]),
        (["mcp_g_search_issues"], "servers.g.search_issues(...)", ["g"]),
        (["g_search_issues"], "servers.g.search_issues(...)", ["g"]),
        (["tools", "g", "search_issues"], "servers.g.search_issues(...)", ["tools", "g"]),
        (["tools", "run"], "servers.tools.run(...)", ["tools"]),
        (["servers", "g_search_issues"], "servers.g.search_issues(...)", ["g"]),
        (["paddock", "g", "search_issues"], "servers.g.search_issues(...)", ["g"]),
        (["rows"], "", []),
        (["search_issues"], "", []),
        (["servers", "search_issues"], "", []),
        (["github", "search_issues"], "", []),
    ],
)
def test_a_name_stands_for_a_tool_that_there_is(names, call, servers):
    assert asked(names) == (call, servers)


def test_a_tool_without_its_server_is_of_the_only_one():
    assert asked(["servers", "list"], {"g": ["list"]}) == ("servers.g.list(...)", ["g"])
    assert asked(["list"], {"g": ["list"]}) == ("", [])
    assert asked(["servers", "list"], {}) == ("", [])


def test_what_policy_withholds_is_not_told():
    with pytest.raises(NotVisible):
        asyncio.run(suggest_call(Offered(TOOLS, refused=("g",)), ["g", "search_issues"], REQUEST))
    assert asked(["g", "search_issues"], {"my-hub": ["list"]}) == ("", [])
