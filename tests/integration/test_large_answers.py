"""What a server answers is bounded on its way to a program, and the program is not blamed for it."""

from pathlib import Path

import pytest
from tests.support.servers import make_entry, write_servers
from tests.support.session import execute_alone

from paddock.model.limits import MIB
from paddock.model.request import GuestRun
from paddock.policy.settings.profiles import ExecuteLimits, LimitSettings
from paddock.policy.settings.schema import AuditSettings, ServerSettings, Settings

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
    write_servers(tmp_path, {"flood": make_entry("flood")})
    settings = Settings(
        audit=AuditSettings(directory=tmp_path / "audit"),
        servers=ServerSettings(state=tmp_path / "servers", answer_values=50_000),
        limits=LimitSettings(execute=ExecuteLimits(frame_bytes=100_000, timeout_ms=5 * 60_000)),
    )
    code = f"return servers.flood.{call}.then((given) => given.a.length, (error) => error.message)"

    outcome = execute_alone(settings, tmp_path, GuestRun(source=code))
    assert (outcome.status.value, outcome.value) == ("ok", told)
    assert outcome.usage.peak_bytes < 256 * MIB
