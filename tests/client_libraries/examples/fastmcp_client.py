import asyncio

from fastmcp import Client
from fastmcp.client.transports import StdioTransport


async def main():
    async with Client(StdioTransport("paddock", ["serve", "mcp", "--workspace", "."])) as client:
        result = await client.call_tool("execute_code", {"code": "return 6 * 7"})
        print(result.structured_content["value"])


asyncio.run(main())
