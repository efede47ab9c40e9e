import asyncio
import re

from autogen_core import CancellationToken
from autogen_ext.tools.mcp import StdioServerParams, create_mcp_server_session, mcp_server_tools


async def main():
    args = ["serve", "mcp", "--workspace", "."]
    paddock = StdioServerParams(command="paddock", args=args, read_timeout_seconds=120)
    async with create_mcp_server_session(paddock) as session:
        await session.initialize()
        tools = {tool.name: tool for tool in await mcp_server_tools(paddock, session=session)}

        async def run(**args):
            blocks = await tools["run_program"].run_json(args, CancellationToken())
            return "\n".join(block.text for block in blocks if block.type == "text")

        opened = await run(language="python", session="new", code="x = 40")
        [handle] = re.findall(r"s_[0-9a-f]+", opened)
        used = await run(session=handle, code="print(x + 2)")
        print(used.splitlines()[-1])


asyncio.run(main())
