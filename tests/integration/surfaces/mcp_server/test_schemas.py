"""Every tool says what it is and what its data look like, and its data, refusals too, look like that."""

import asyncio
from typing import Any

import pytest
from tests.support.mcp_server import ERAS, SCHEMAS, Place

from paddock.foundation.schema.check import Schema

CALLS: list[tuple[str, dict[str, Any]]] = [
    ("execute_code", {"code": "return {a: 1}"}),
    ("execute_code", {"code": "throw new Error('x')"}),
    ("execute_code", {"code": "return 'x'.repeat(100_000)"}),
    ("execute_code", {"code": "function f() { g() } function g() { null.x } f()"}),
    ("execute_code", {"code": "const"}),
    ("execute_code", {"code": "for (;;) {}", "timeout_ms": 100}),
    ("execute_code", {"code": "console.log('x'); await servers.odd.echo({text: 'x'}); throw 1"}),
    ("execute_code", {"code": "await servers.odd.echo({text: 'x'})", "mode": "dry_run"}),
    ("search_tools", {"query": "again"}),
    ("search_tools", {"query": "zzzz"}),
    ("describe_tools", {"names": ["odd.echo", "odd.none"]}),
    ("describe_tools", {"names": ["none"]}),
    ("provision_server", {"intent": "x"}),
    ("provision_server", {"action": "disable", "name": "odd"}),
    ("provision_server", {"action": "enable", "name": "none"}),
    ("run_program", {"language": "perl", "code": "print 1", "output_mode": "summary"}),
    ("run_program", {"language": "perl", "code": "print STDERR 'x'; exit 3", "output_mode": "digest"}),
    ("run_program", {"language": "perl", "code": "print 1", "output_mode": "minimal", "stdin": "x"}),
    ("run_program", {"language": "perl", "code": "print 1", "output_mode": "intent", "query_terms": ["1"]}),
    ("run_program", {"language": "perl", "code": "print 'x' x 200_000", "max_response_lines": 1000}),
    ("run_program", {"language": "perl", "code": "print 1", "timeout_ms": 1}),
    ("run_program", {"language": "perl", "code": "print 1", "network": "full"}),
    ("run_program", {"runtime": "perl", "code": "exit 3"}),
    ("run_program", {"runtime": "perl", "code": "1", "relativeCwd": "../.."}),
    ("query_output", {"artifactHandle": "none", "queryTerms": ["x"]}),
    ("query_output", {"artifactHandle": "none"}),
    ("compute", {"source": "emit('x')"}),
    ("compute", {"source": "throw 1"}),
]
UNDECLARED = {"call_tool"}
"""Its data are those of any upstream tool, untouched, if there are any; a declared type would have to hold always."""


@pytest.mark.parametrize("mode", ERAS)
def test_data_match_what_was_declared(place: Place, mode: str) -> None:
    async def main() -> None:
        async with place.client(mode=mode) as client:
            tools = {tool.name: tool for tool in (await client.list_tools()).tools}
            assert {name for name, tool in tools.items() if tool.output_schema is None} == UNDECLARED
            assert {name for name, _ in CALLS} == set(tools) - UNDECLARED
            assert {name: tools[name].output_schema for name in SCHEMAS} == SCHEMAS
            for name, tool in tools.items():
                assert tool.annotations is not None, name
                assert tool.icons is not None, name
                assert [icon.src.startswith("data:image/svg+xml,%3Csvg%20") for icon in tool.icons] == [True]
            invalid = [(name, {"no such argument": 1}) for name in tools if name not in UNDECLARED]
            for name, arguments in [*CALLS, *invalid]:
                data = (await client.call_tool(name, arguments)).structured_content
                assert data is not None, name
                assert (name, Schema(tools[name].output_schema).list_problems(data)) == (name, ())
            ran = await client.call_tool("run_program", {"runtime": "perl", "code": "print 42"})
            asked = {"artifactHandle": ran.structured_content["artifactHandle"], "queryTerms": ["42"]}
            found = await client.call_tool("query_output", asked)
            assert Schema(tools["query_output"].output_schema).list_problems(found.structured_content) == ()
            assert found.structured_content["matchStatus"] == "matched"

    asyncio.run(main())
