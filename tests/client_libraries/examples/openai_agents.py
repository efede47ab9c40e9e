import asyncio

from agents.mcp import MCPServerStdio


async def main():
    params = {"command": "paddock", "args": ["serve", "mcp", "--workspace", "."]}
    async with MCPServerStdio(params=params, client_session_timeout_seconds=120) as paddock:
        # An agent takes the server: Agent(name="coder", mcp_servers=[paddock])
        result = await paddock.call_tool("execute_code", {"code": "return 6 * 7"})
        print(result.content[0].text)


asyncio.run(main())
