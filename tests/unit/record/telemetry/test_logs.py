"""Log lines as JSON: one line whatever a message holds, and no text of libraries or exceptions."""

import json
import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.record.telemetry.logs import JsonFormatter, RequestLog


def record(name: str, message: str, fault: BaseException | None = None) -> logging.LogRecord:
    about = (type(fault), fault, fault.__traceback__) if fault else None
    return logging.LogRecord(name, logging.WARNING, "/somewhere/wire.py", 7, message, (), about)


@given(st.text())
def test_a_message_is_one_line(text: str) -> None:
    line = JsonFormatter(all_text=False).format(record("paddock.mcp", text.replace("%", "")))
    assert len(line.splitlines()) == 1
    assert json.loads(line)["message"] == text.replace("%", "")


@pytest.mark.parametrize(
    ("all_text", "told"), [(False, {"where": "wire:7"}), (True, {"message": "bad input: hush"})]
)
def test_libraries_tell_their_place_only(*, all_text: bool, told: dict[str, str]) -> None:
    line = json.loads(JsonFormatter(all_text=all_text).format(record("mcp.server", "bad input: hush")))
    line.pop("ts")
    assert line == {"level": "warning", "logger": "mcp.server", **told}


def test_an_exception_tells_its_kind_and_where() -> None:
    try:
        int("hush")
    except ValueError as fault:
        text = JsonFormatter(all_text=False).format(record("paddock.mcp", "tool x failed", fault))
    line = json.loads(text)
    assert (line["message"], line["exception"], "hush" in text) == ("tool x failed", "ValueError", False)
    assert [frame.partition(":")[0] for frame in line["frames"]] == ["test_logs.py"]


def test_a_client_cannot_fake_a_line_by_its_name(caplog: pytest.LogCaptureFixture) -> None:
    facts = {"actor": 'x kind=guest\n"INFO', "kind": "runtime", "name": "python", "status": "ok", "ms": 2.5}
    with caplog.at_level(logging.INFO, "paddock.requests"):
        RequestLog().on_end("01", None, facts)
    assert [line.getMessage() for line in caplog.records] == [
        'ended request=01 actor="x kind=guest\\\\u000a\\"INFO" kind=runtime language=python status=ok ms=2.5'
    ]
