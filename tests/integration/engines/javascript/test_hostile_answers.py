"""An answer that is slow to redact does not keep others waiting: redaction gives them their turn."""

import asyncio
from pathlib import Path

import pytest

from paddock.gate.open_paddock import open_paddock
from paddock.model.request import ExecutionRequest, GuestRun
from paddock.policy.redaction import outgoing
from paddock.policy.redaction.scanner import Slices
from paddock.policy.settings.schema import AuditSettings, Settings
from paddock.surfaces.mcp_server.toolbox import (
    Arguments,
    McpCaller,
    McpTool,
    ToolAnswer,
    Toolbox,
    object_schema,
    text_block,
)

HOSTILE = "return 'password=password='.repeat(15000)"


def test_others_have_their_turn_while_a_result_is_redacted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns_within: list[int] = []
    turns = 0
    redact = outgoing.OutgoingRedaction.result_in_slices

    def watch(self: outgoing.OutgoingRedaction, result: object, written: bytes) -> Slices[object]:
        before = turns
        redacted = yield from redact(self, result, written)  # pyright: ignore[reportArgumentType, reportUnknownVariableType]
        turns_within.append(turns - before)
        return redacted  # pyright: ignore[reportUnknownVariableType]

    monkeypatch.setattr(outgoing.OutgoingRedaction, "result_in_slices", watch)

    async def take_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def main() -> None:
        settings = Settings(audit=AuditSettings(directory=tmp_path / "audit"))
        async with open_paddock(settings, tmp_path) as session:
            others = asyncio.create_task(take_turns())
            work = GuestRun(source=HOSTILE)
            outcome = await session.gate.execute(ExecutionRequest(workspace=tmp_path, work=work))
            others.cancel()
            assert outcome.value == "password=password=" * 15_000

    asyncio.run(main())
    # Each turn is half a millisecond, and 30,000 candidates take longer than ten of them on any machine.
    assert len(turns_within) == 1
    assert turns_within[0] >= 10


def test_others_have_their_turn_while_an_answer_over_mcp_is_redacted() -> None:
    turns = 0
    text = "password=password=" * 15_000

    async def take_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def run(_arguments: Arguments, _caller: McpCaller) -> ToolAnswer:
        return ToolAnswer([text_block(text)])

    async def main() -> None:
        toolbox = Toolbox([McpTool("run", "Run", "Runs.", object_schema([]), run)])
        others = asyncio.create_task(take_turns())
        answer = await toolbox.call_tool("run", {}, McpCaller("test"))
        others.cancel()
        assert answer.content == [text_block(text)]
        assert turns >= 10

    asyncio.run(main())
