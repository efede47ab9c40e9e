"""smolagents: tools that are functions of the code that its agents write; of an answer they return the first block."""

from typing import Any

import steps
from mcp import StdioServerParameters
from smolagents import MCPClient


def visit(transport: str, seen: steps.Visit, *, structured: bool) -> None:
    stdio = StdioServerParameters(
        command=steps.TARGET["command"], args=steps.TARGET["args"], env=steps.ENVIRONMENT
    )
    http = {"url": steps.TARGET["url"], "transport": "streamable-http", "headers": steps.HEADERS}
    server: Any = stdio if transport == "stdio" else http
    options = {"client_session_timeout_seconds": 300, "connect_timeout": 300}
    with MCPClient(server, adapter_kwargs=options, structured_output=structured) as found:
        tools = {tool.name: tool for tool in found}
        seen.tools = [*tools]
        for step in ["code"] if structured else [*steps.STEPS]:
            name, arguments = steps.STEPS[step]
            result = tools[name](**arguments)
            if structured:
                seen.answers[step]["structured"] = result
            else:
                seen.take(step, text=str(result))


told: dict[str, Any] = {}
for transport in steps.TARGET["transports"]:
    seen = steps.Visit()
    visit(transport, seen, structured=False)
    visit(transport, seen, structured=True)
    told[transport] = seen.told()
steps.write(told)
