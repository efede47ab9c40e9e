"""An agent of Pydantic AI that reads a CSV file with Python. A script replaces the model."""

from pydantic_ai import Agent, ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from paddock.integrations.pydantic_ai import PaddockToolset

PROGRAMS = [
    "import csv; rows = list(csv.DictReader(open('visits.csv')))",
    "sum(int(row['visits']) for row in rows)",
]
replies = iter(
    [
        *(ModelResponse([ToolCallPart("run_python", {"code": code})]) for code in PROGRAMS),
        ModelResponse([TextPart("There were 8 visits.")]),
    ]
)


def reply(_messages: list[ModelMessage], _info: AgentInfo) -> ModelResponse:
    """Return the next message of the script."""
    return next(replies)


# Each run has its own session. `async with agent:` keeps one over several runs.
toolset = PaddockToolset(files={"visits.csv": "city,visits\nOslo,3\nRome,5\n"})
agent = Agent(FunctionModel(reply), toolsets=[toolset])
result = agent.run_sync("How many visits?")
for message in result.all_messages():
    for part in message.parts:
        if not isinstance(part, ToolCallPart):
            print(f"{part.part_kind}: {part.content}")
