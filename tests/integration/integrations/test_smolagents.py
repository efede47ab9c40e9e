"""The executor for smolagents, in a `CodeAgent` whose model is a script."""

from collections.abc import Sequence
from typing import Any

import pytest
from PIL import Image
from smolagents import ActionStep, ChatMessage, CodeAgent, LogLevel, MessageRole, Model, Tool
from smolagents.local_python_executor import InterpreterError
from smolagents.serialization import SerializationError
from tests.integration.integrations.conversation import (
    DENIED,
    DRAW,
    ENDLESS,
    FILES,
    KILL,
    LOST,
    SHORT_MS,
    plain,
)

from paddock import BlockingPaddock
from paddock.integrations.smolagents import PaddockExecutor

AGAIN = "A program with only `restart_session()` starts a new session with the files that were given."


class ScriptedModel(Model):
    """Writes these programs, one in each step."""

    def __init__(self, programs: Sequence[str]) -> None:
        super().__init__(model_id="script")
        self.programs = iter(programs)

    def generate(self, *args: Any, **named: Any) -> ChatMessage:
        return ChatMessage(role=MessageRole.ASSISTANT, content=f"<code>\n{next(self.programs)}\n</code>")


class Doubling(Tool):
    name = "double"
    description = "Doubles a number."
    inputs = {"number": {"type": "integer", "description": "The number."}}  # noqa: RUF012 - as its base has it
    output_type = "integer"

    def forward(self, number: int) -> int:
        return number * 2


def converse(
    executor: PaddockExecutor, programs: Sequence[str], tools: Sequence[Tool] = (), **given: Any
) -> tuple[Any, list[ActionStep]]:
    """Return the final answer of an agent that writes these programs, and its steps."""
    agent = CodeAgent(
        [*tools],
        ScriptedModel(programs),
        executor=executor,
        max_steps=20,
        verbosity_level=LogLevel.OFF,
        step_callbacks=[executor.show_images],
    )
    answer = agent.run("go", additional_args=given)
    return answer, [step for step in agent.memory.steps if isinstance(step, ActionStep)]


def observe(step: ActionStep) -> str:
    """Return what the model is told of a step."""
    return plain(step.error.message if step.error else step.observations or "")


def see(logs: str, output: Any) -> str:
    return f"Execution logs:\n{logs}Last output from code snippet:\n{output}"


def test_an_agent_works_in_one_session(opened: BlockingPaddock) -> None:
    with PaddockExecutor(paddock=opened, files=FILES) as executor:
        answer, steps = converse(
            executor,
            [
                "import csv; rows = list(csv.DictReader(open('visits.csv')))",
                "total = sum(int(row['visits']) for row in rows)\ntotal",
                DRAW,
                "rows[9]",
                KILL,
                "rows",
                "restart_session()",
                "'rows' in globals(), double(factor)",
                "final_answer({'total': double(21), 'rows': []})",
            ],
            [Doubling()],
            factor=4,
        )
    assert answer == {"total": 42, "rows": []}
    assert [observe(step) for step in steps] == [
        see("(no output)", None),
        see("8", "8"),
        see("file: plot.png (image/png, 70 bytes)", None),
        "failed: IndexError: list index out of range\n  at line 1\nTraceback (most recent call last):\n"
        '  File "In [6]", line 1, in <module>\n    rows[9]\nIndexError: list index out of range',
        f"failed: The program was ended by SIGKILL\nThe session is lost: {LOST}. {AGAIN}",
        f"lost: the session is lost, and nothing ran: {LOST}. {AGAIN}",
        see("A new session has started.", None),
        see("(False, 8)", "(False, 8)"),
        see("(no output)", {"total": 42, "rows": []}),
    ]
    assert [len(step.observations_images or []) for step in steps] == [0, 0, 1, 0, 0, 0, 0, 0, 0]
    assert opened.sessions() == ()


@pytest.mark.parametrize(
    ("program", "answer"),
    [
        ("final_answer()", None),
        ("final_answer(answer='é')", "é"),
        ("import math; final_answer([1, math.pi, None, True])", [1, 3.141592653589793, None, True]),
        ("final_answer(float('nan'))", "nan"),
        ("final_answer({'n': [2**64 + 1, -(2**70)]})", {"n": [2**64 + 1, -(2**70)]}),
        ("final_answer({1, })", "{1}"),
        ("try: final_answer(1)\nexcept Exception: final_answer(2)", 1),
        ("print('before'); final_answer('x'); print('after')", "x"),
    ],
)
def test_a_final_answer_arrives(opened: BlockingPaddock, program: str, answer: Any) -> None:
    with PaddockExecutor(paddock=opened) as executor:
        executor.send_tools({})
        output = executor(program)
    assert (output.output, output.is_final_answer) == (answer, True)


def test_an_image_can_be_the_answer(opened: BlockingPaddock) -> None:
    program = f"""{DRAW}
class Image:
    __module__ = "PIL.Image"
    def save(self, buffer, form): buffer.write(open("plot.png", "rb").read())
final_answer(Image())"""
    with PaddockExecutor(paddock=opened) as executor:
        executor.send_tools({})
        output = executor(program)
    assert isinstance(output.output, Image.Image)
    assert (output.output.size, output.is_final_answer) == ((1, 1), True)


@pytest.mark.parametrize(
    "program",
    [
        "final_answer('x' * 2_000_000)",
        "display({'final_answer': 1}); raise ValueError('no')",
        "final_answer = None; final_answer(1)",
    ],
)
def test_a_failed_answer_is_none(opened: BlockingPaddock, program: str) -> None:
    with PaddockExecutor(paddock=opened) as executor:
        executor.send_tools({})
        with pytest.raises(InterpreterError, match=r"^failed: (ValueError|TypeError): "):
            executor(program)


def test_hostile_images_are_left_out(opened: BlockingPaddock) -> None:
    huge = "b'\\x89PNG\\r\\n\\x1a\\n\\0\\0\\0\\rIHDR' + (60_000).to_bytes(4) * 2 + b'\\x08\\x06\\0\\0\\0'"
    with PaddockExecutor(paddock=opened) as executor:
        executor(f"_ = open('a.png', 'wb').write({huge}); {DRAW}")
        step = ActionStep(step_number=1, timing=None)  # pyright: ignore[reportArgumentType]
        executor.show_images(step)
    assert [image.name for image in executor.images] == ["a.png", "plot.png"]
    assert [image.size for image in step.observations_images or []] == [(1, 1)]


def test_a_refusal_is_told_in_each_step(opened: BlockingPaddock) -> None:
    with PaddockExecutor(paddock=opened, network="full") as executor:
        agent = CodeAgent(
            [], ScriptedModel(["1"] * 3), executor=executor, max_steps=2, verbosity_level=LogLevel.OFF
        )
        agent.run("go")
        found = [observe(step) for step in agent.memory.steps if isinstance(step, ActionStep)]
    assert found[:2] == [DENIED, DENIED]


def test_a_timeout_is_told(opened: BlockingPaddock) -> None:
    with (
        PaddockExecutor(paddock=opened, timeout_ms=SHORT_MS) as executor,
        pytest.raises(InterpreterError, match=r"^timeout: The program ran out of time\n"),
    ):
        executor(ENDLESS)


def test_what_cannot_run_in_a_sandbox_is_refused(opened: BlockingPaddock) -> None:
    with PaddockExecutor(paddock=opened) as executor:
        with pytest.raises(
            ValueError, match=r"^helper is a managed agent, which cannot run in a sandbox; leave it out$"
        ):
            executor.send_tools({"helper": object()})
        with pytest.raises(SerializationError, match="object"):
            executor.send_variables({"x": object()})
