import asyncio

from autogen_core import CancellationToken
from autogen_ext.tools.mcp import StdioServerParams, mcp_server_tools


async def main():
    args = ["serve", "mcp", "--workspace", "."]
    paddock = StdioServerParams(command="paddock", args=args, read_timeout_seconds=120)
    tools = {tool.name: tool for tool in await mcp_server_tools(paddock)}
    # An agent takes all of them: AssistantAgent("coder", model, tools=[*tools.values()])
    blocks = await tools["execute_code"].run_json({"code": "return 6 * 7"}, CancellationToken())
    print(blocks[0].text)


asyncio.run(main())
