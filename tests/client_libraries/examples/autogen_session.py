import asyncio
import re

from autogen_ext.tools.mcp import McpWorkbench, StdioServerParams


async def main():
    args = ["serve", "mcp", "--workspace", "."]
    paddock = StdioServerParams(command="paddock", args=args, read_timeout_seconds=120)
    async with McpWorkbench(paddock) as workbench:
        program = {"language": "python", "session": "new", "code": "x = 40"}
        opened = await workbench.call_tool("run_program", program)
        [handle] = set(re.findall(r"s_[0-9a-f]+", opened.to_text()))
        used = await workbench.call_tool("run_program", {"session": handle, "code": "print(x + 2)"})
        print("42" if "42" in used.to_text() else used.to_text())


asyncio.run(main())
