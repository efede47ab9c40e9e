"""The executor for AutoGen, in agents whose model is a script."""

import asyncio
from collections.abc import Sequence

import pytest
from autogen_agentchat.agents import AssistantAgent, CodeExecutorAgent
from autogen_agentchat.messages import TextMessage
from autogen_core import CancellationToken, FunctionCall
from autogen_core.code_executor import CodeBlock
from autogen_core.models import CreateResult, RequestUsage
from autogen_ext.models.replay import ReplayChatCompletionClient
from autogen_ext.tools.code_execution import PythonCodeExecutionTool
from tests.integration.integrations.conversation import (
    DENIED,
    DRAW,
    ENDLESS,
    FILES,
    KILL,
    LOST,
    PNG,
    SHORT_MS,
    plain,
)

from paddock import BlockingPaddock
from paddock.integrations.autogen import PaddockCodeResult, PaddockExecutor

AGAIN = "A code block with only `restart_session()` starts a new session with the files that were given."


def run(executor: PaddockExecutor, *programs: Sequence[tuple[str, str]]) -> list[PaddockCodeResult]:
    """Return the results of lists of code blocks, each as language and code."""

    async def main() -> list[PaddockCodeResult]:
        async with executor:
            return [
                await executor.execute_code_blocks(
                    [CodeBlock(code, language) for language, code in blocks], CancellationToken()
                )
                for blocks in programs
            ]

    return asyncio.run(main())


def test_code_blocks_work_in_one_session(opened: BlockingPaddock) -> None:
    found = run(
        PaddockExecutor(paddock=opened, files=FILES),
        [
            ("python", "import csv"),
            ("py", "rows = list(csv.DictReader(open('visits.csv')))"),
            ("", "len(rows)"),
        ],
        [("Python", DRAW)],
        [("bash", "x=40; cat visits.csv"), ("sh", "echo $((x + 2)); exit 3"), ("python", "1")],
        [("python", "rows[9]")],
        [("cobol", "1")],
        [("python", KILL)],
        [("python", "rows")],
        [("python", "restart_session()"), ("python", "'rows' in globals()")],
        [],
    )
    assert [(result.exit_code, plain(result.output)) for result in found] == [
        (0, "(no output)\n(no output)\n2"),
        (0, "file: plot.png (image/png, 70 bytes)"),
        (3, "city,visits\nOslo,3\nRome,5\nfailed: The program exited with code 3\n42"),
        (
            1,
            "failed: IndexError: list index out of range\n  at line 1\nTraceback (most recent call last):\n"
            '  File "In [5]", line 1, in <module>\n    rows[9]\nIndexError: list index out of range',
        ),
        (1, "invalid: there is no session for 'cobol'; there are python, shell"),
        (1, f"failed: The program was ended by SIGKILL\nThe session is lost: {LOST}. {AGAIN}"),
        (1, f"lost: the session is lost, and nothing ran: {LOST}. {AGAIN}"),
        (0, "A new session has started.\nFalse"),
        (0, ""),
    ]
    assert [image.data for image in found[1].images] == [PNG]
    assert [file.path for file in found[1].files] == ["plot.png"]
    assert opened.sessions() == ()


def test_restart_starts_anew(opened: BlockingPaddock) -> None:
    async def main() -> list[str]:
        async with PaddockExecutor(paddock=opened, files=FILES) as executor:
            blocks = [CodeBlock("n = globals().get('n', 0) + 1; n, open('visits.csv').read(4)", "python")]
            told = [
                (await executor.execute_code_blocks(blocks, CancellationToken())).output for _ in range(2)
            ]
            await executor.restart()
            return [*told, (await executor.execute_code_blocks(blocks, CancellationToken())).output]

    assert asyncio.run(main()) == ["(1, 'city')", "(2, 'city')", "(1, 'city')"]


def test_a_refusal_and_a_timeout_are_results(opened: BlockingPaddock) -> None:
    [denied] = run(PaddockExecutor(paddock=opened, network="full"), [("python", "1")])
    assert (denied.exit_code, denied.output) == (1, DENIED)
    [late] = run(PaddockExecutor(paddock=opened, timeout_ms=SHORT_MS), [("python", ENDLESS)])
    assert (late.exit_code, late.output.partition("\n")[0]) == (124, "timeout: The program ran out of time")


def test_a_cancelled_token_interrupts_the_program(opened: BlockingPaddock) -> None:
    async def main() -> str:
        async with PaddockExecutor(paddock=opened) as executor:
            token = CancellationToken()
            await executor.execute_code_blocks([CodeBlock("x = 42", "python")], token)
            running = asyncio.create_task(executor.execute_code_blocks([CodeBlock(ENDLESS, "python")], token))
            while not any(session.running for session in await asyncio.to_thread(opened.sessions)):
                pass
            token.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
            return (
                await executor.execute_code_blocks([CodeBlock("x", "python")], CancellationToken())
            ).output

    told = asyncio.run(main())
    assert told == "42" or told.startswith(
        "lost: "
    )  # a program that does not end soon after an interrupt is killed


def test_an_executor_that_is_not_started_says_so() -> None:
    async def main() -> None:
        await PaddockExecutor().execute_code_blocks([CodeBlock("1", "python")], CancellationToken())

    with pytest.raises(
        RuntimeError, match=r"^this executor is not started; use it within `async with`, or call"
    ):
        asyncio.run(main())


@pytest.mark.filterwarnings("ignore:No approval function set:UserWarning")  # policy decides
def test_a_code_executor_agent_uses_it(opened: BlockingPaddock) -> None:
    model = ReplayChatCompletionClient(["```python\nx = 41\nx + 1\n```", "It is 42."])

    async def main() -> str:
        async with PaddockExecutor(paddock=opened) as executor:
            agent = CodeExecutorAgent("coder", executor, model_client=model)
            return str((await agent.run(task="go")).messages[-1].to_text())

    assert asyncio.run(main()) == "It is 42."
    assert [str(message.content) for message in model.create_calls[-1]["messages"]][-1] == "42"


def test_a_tool_of_an_assistant_uses_it(opened: BlockingPaddock) -> None:
    calls = [
        CreateResult(
            finish_reason="function_calls",
            content=[FunctionCall(id=str(n), name="CodeExecutor", arguments=arguments)],
            usage=RequestUsage(prompt_tokens=0, completion_tokens=0),
            cached=False,
        )
        for n, arguments in enumerate(['{"code": "x = 41"}', '{"code": "x + 1"}', '{"code": 7}'])
    ]
    model = ReplayChatCompletionClient(
        [*calls, "done"],
        model_info={
            "function_calling": True,
            "vision": False,
            "json_output": False,
            "family": "unknown",
            "structured_output": False,
        },
    )

    async def main() -> list[str]:
        async with PaddockExecutor(paddock=opened) as executor:
            tool = PythonCodeExecutionTool(executor)
            agent = AssistantAgent("coder", model, tools=[tool], max_tool_iterations=4)
            messages = (await agent.run(task=TextMessage(content="go", source="user"))).messages
            return [
                message.content[0].content for message in messages if message.type == "ToolCallExecutionEvent"
            ]

    told = asyncio.run(main())
    assert told[:2] == ["(no output)", "42"]
    assert told[2].startswith("1 validation error for CodeExecutionInput\n")
