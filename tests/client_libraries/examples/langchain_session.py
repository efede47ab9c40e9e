import asyncio

from langchain_mcp_adapters.client import MultiServerMCPClient
from langchain_mcp_adapters.tools import load_mcp_tools


async def main():
    paddock = {"transport": "stdio", "command": "paddock", "args": ["serve", "mcp", "--workspace", "."]}
    async with MultiServerMCPClient({"paddock": paddock}).session("paddock") as session:
        tools = {tool.name: tool for tool in await load_mcp_tools(session)}

        async def run(**args):
            call = {"type": "tool_call", "id": "1", "name": "run_program", "args": args}
            return (await tools["run_program"].ainvoke(call)).artifact["structured_content"]

        opened = await run(language="python", session="new", code="x = 40")
        used = await run(session=opened["session"]["id"], code="print(x + 2)")
        print(used["stdoutSummary"])


asyncio.run(main())
