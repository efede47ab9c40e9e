import asyncio

from langchain_mcp_adapters.client import MultiServerMCPClient


async def main():
    paddock = {"transport": "stdio", "command": "paddock", "args": ["serve", "mcp", "--workspace", "."]}
    tools = {tool.name: tool for tool in await MultiServerMCPClient({"paddock": paddock}).get_tools()}
    # An agent takes all of them: create_agent(model, [*tools.values()])
    call = {"type": "tool_call", "id": "1", "name": "execute_code", "args": {"code": "return 6 * 7"}}
    message = await tools["execute_code"].ainvoke(call)
    print(message.artifact["structured_content"]["value"])


asyncio.run(main())
