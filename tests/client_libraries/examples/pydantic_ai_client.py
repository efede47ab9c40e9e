import asyncio

from fastmcp.client.transports import StdioTransport
from pydantic_ai.mcp import MCPToolset


async def main():
    paddock = MCPToolset(StdioTransport("paddock", ["serve", "mcp", "--workspace", "."]))
    async with paddock:
        # An agent takes the toolset: Agent(model, toolsets=[paddock])
        result = await paddock.direct_call_tool("execute_code", {"code": "return 6 * 7"})
        print(result["value"])


asyncio.run(main())
