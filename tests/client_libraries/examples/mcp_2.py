import asyncio

from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client


async def main():
    paddock = StdioServerParameters(command="paddock", args=["serve", "mcp", "--workspace", "."])
    async with Client(stdio_client(paddock)) as client:
        result = await client.call_tool("execute_code", {"code": "return 6 * 7"})
        print(result.structured_content["value"])


asyncio.run(main())
