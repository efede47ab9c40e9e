import asyncio

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client


async def main():
    paddock = StdioServerParameters(command="paddock", args=["serve", "mcp", "--workspace", "."])
    async with stdio_client(paddock) as streams, ClientSession(*streams) as session:
        await session.initialize()
        result = await session.call_tool("execute_code", {"code": "return 6 * 7"})
        print(result.structuredContent["value"])


asyncio.run(main())
