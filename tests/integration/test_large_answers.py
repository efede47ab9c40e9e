"""What a server answers is bounded on its way to a program, and the program is not blamed for it."""

import asyncio
import json
import sys
from pathlib import Path

import pytest

from paddock.app.session import open_session
from paddock.model.limits import MIB
from paddock.model.request import ExecutionRequest, GuestRun
from paddock.settings.profiles import ExecuteLimits, LimitSettings
from paddock.settings.schema import AuditSettings, ServerSettings, Settings

FLOOD = Path(__file__).resolve().parents[1] / "servers" / "flood.py"
SWELLS = "ask for less at once, or raise `servers.answer_values`."
TEXT_SWELLS = "ask for less at once, raise `servers.answer_values`, or read the text with `callRaw`."


@pytest.mark.parametrize(
    ("call", "told"),
    [
        ("values({ count: 20000 })", 20_000),
        (
            "values({ count: 60000 })",
            f"Server flood sent no complete answer: it has more than 50000 values; {SWELLS}",
        ),
        (
            "text_values({ count: 60000 })",
            f"Server flood sent no complete answer: its text is JSON of more than 50000 values; {TEXT_SWELLS}",
        ),
        (
            "deep({ levels: 10, beside: 100000 })",
            "Server flood: the answer of deep takes 100054 bytes, and a program can receive at most 100000. Ask for "
            "less at "
            "once, or raise `limits.execute.frame_bytes`.",
        ),
    ],
)
def test_an_answer_that_is_too_large_rejects_its_call_and_names_the_server(
    tmp_path: Path, call: str, told: object
) -> None:
    (tmp_path / ".mcp.json").write_text(
        json.dumps({"mcpServers": {"flood": {"command": sys.executable, "args": ["-I", "-S", str(FLOOD)]}}})
    )
    settings = Settings(
        audit=AuditSettings(directory=tmp_path / "audit"),
        servers=ServerSettings(state=tmp_path / "servers", answer_values=50_000),
        limits=LimitSettings(execute=ExecuteLimits(frame_bytes=100_000, timeout_ms=5 * 60_000)),
    )
    code = f"return servers.flood.{call}.then((given) => given.a.length, (error) => error.message)"

    async def main() -> None:
        async with open_session(settings, tmp_path) as session:
            outcome = await session.gate.execute(
                ExecutionRequest(workspace=tmp_path, work=GuestRun(source=code))
            )
            assert (outcome.status.value, outcome.value) == ("ok", told)
            assert outcome.usage.peak_bytes < 256 * MIB

    asyncio.run(main())
