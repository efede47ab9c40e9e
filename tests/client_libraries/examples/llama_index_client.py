import asyncio

from llama_index.tools.mcp import BasicMCPClient, McpToolSpec


async def main():
    paddock = BasicMCPClient("paddock", ["serve", "mcp", "--workspace", "."], timeout=120)
    tools = {tool.metadata.name: tool for tool in await McpToolSpec(paddock).to_tool_list_async()}
    # An agent takes all of them: FunctionAgent(tools=[*tools.values()], llm=model)
    output = await tools["execute_code"].acall(code="return 6 * 7")
    print(output.raw_output.structured_content["value"])


asyncio.run(main())
