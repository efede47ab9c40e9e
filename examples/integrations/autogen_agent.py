"""Agents of AutoGen that read a CSV file with code blocks. A script replaces the model."""

import asyncio

from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.messages import TextMessage, ToolCallExecutionEvent
from autogen_core import CancellationToken, FunctionCall
from autogen_core.code_executor import CodeBlock
from autogen_core.models import CreateResult, ModelFamily, ModelInfo, RequestUsage
from autogen_ext.models.replay import ReplayChatCompletionClient
from autogen_ext.tools.code_execution import PythonCodeExecutionTool

from paddock.integrations.autogen import PaddockExecutor

PROGRAMS = [
    '{"code": "import csv; rows = list(csv.DictReader(open(\'visits.csv\')))"}',
    '{"code": "sum(int(row[\'visits\']) for row in rows)"}',
]
USAGE = RequestUsage(prompt_tokens=0, completion_tokens=0)
CALLS = [[FunctionCall(id=program, name="CodeExecutor", arguments=program)] for program in PROGRAMS]
REPLIES = [
    CreateResult(finish_reason="function_calls", content=call, usage=USAGE, cached=False) for call in CALLS
]
SCRIPT = ModelInfo(
    vision=False,
    function_calling=True,
    json_output=False,
    structured_output=False,
    family=ModelFamily.UNKNOWN,
)


async def main() -> None:
    """Ask the agent."""
    model = ReplayChatCompletionClient([*REPLIES, "There were 8 visits."], model_info=SCRIPT)
    async with PaddockExecutor(files={"visits.csv": "city,visits\nOslo,3\nRome,5\n"}) as executor:
        tools = [PythonCodeExecutionTool(executor)]
        agent = AssistantAgent("analyst", model, tools=tools, max_tool_iterations=3)
        for message in (await agent.run(task="How many visits?")).messages:
            if isinstance(message, ToolCallExecutionEvent):
                print(f"tool: {message.content[0].content}")
            elif isinstance(message, TextMessage):
                print(f"{message.source}: {message.content}")
        # A `CodeExecutorAgent` takes the executor itself, which also runs blocks in Bash:
        result = await executor.execute_code_blocks(
            [CodeBlock("wc -l visits.csv", "bash")], CancellationToken()
        )
        print(f"bash: {result.output}")


asyncio.run(main())
