"""A `CodeAgent` of smolagents that reads a CSV file. A script replaces the model."""

from smolagents import ActionStep, ChatMessage, CodeAgent, LogLevel, MessageRole, Model

from paddock.integrations.smolagents import PaddockExecutor

PROGRAMS = iter(
    [
        "import csv; rows = list(csv.DictReader(open('visits.csv')))",
        "final_answer(sum(int(row['visits']) for row in rows))",
    ]
)


class Script(Model):
    """Writes `PROGRAMS`."""

    def generate(self, *_: object, **__: object) -> ChatMessage:
        return ChatMessage(role=MessageRole.ASSISTANT, content=f"<code>\n{next(PROGRAMS)}\n</code>")


with PaddockExecutor(files={"visits.csv": "city,visits\nOslo,3\nRome,5\n"}) as executor:
    agent = CodeAgent(
        tools=[],
        model=Script(),
        executor=executor,
        additional_authorized_imports=["*"],  # what the prompt says; policy decides
        step_callbacks=[executor.show_images],  # a model that reads images sees what its programs draw
        verbosity_level=LogLevel.OFF,
    )
    answer = agent.run("How many visits?")
for step in agent.memory.steps:
    if isinstance(step, ActionStep):
        print(f"program: {step.code_action}")
print(f"agent: {answer}")
