from mcp import StdioServerParameters
from smolagents import MCPClient

paddock = StdioServerParameters(command="paddock", args=["serve", "mcp", "--workspace", "."])
with MCPClient(paddock, structured_output=True) as found:
    # An agent takes all of them: CodeAgent(tools=found, model=model)
    tools = {tool.name: tool for tool in found}
    print(tools["execute_code"](code="return 6 * 7")["value"])
