"""The record of computations: what the seed's audit line says, in the ledger; and computations without a record."""

import asyncio
import json
import re
from datetime import UTC, datetime

import pytest

from paddock.gate.open_paddock import open_paddock
from paddock.model.errors import LedgerError
from paddock.model.request import ExecutionRequest, GuestRun, ServerCall
from paddock.policy.settings.schema import AuditSettings, Settings

from .library import compute

SECRET = "neither the source nor the input"
NAMES = {"tool": "code.sandbox.js.run", "span": "tools.js.run"}
ENDS = {
    "success": ("emit('é')", {}, 2),
    "EVAL_ERROR": ("emit('ab'); throw 1", {"partial": True}, 2),
    "TIMEOUT": ("for (;;) {}", {"wall_ms": 50}, 0),
    "OUTPUT_LIMIT": ("for (;;) emit('abc')", {"output_kb": 1}, 1024),
}


def last_line(directory):
    """Return the last line of the ledger's file of its day, as it is in the file."""
    [path] = [path for path in directory.iterdir() if path.suffix == ".ndjson"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\d\.ndjson", path.name)
    return path, path.read_bytes()


@pytest.mark.parametrize(("code", "case"), ENDS.items())
def test_g25_g26_the_line_of_a_computation(tmp_path, code, case):
    source, limits, size = case

    async def run():
        settings = Settings(audit=AuditSettings(directory=tmp_path / "audit"))
        async with open_paddock(settings, tmp_path) as session:
            body = {"source": f"{source} // {SECRET}", "input": SECRET, "limits": limits}
            return await compute(session, body, workspace=tmp_path)

    before = datetime.now(UTC)
    assert asyncio.run(run()).code == code
    path, data = last_line(tmp_path / "audit")
    assert data.endswith(b"\n")
    assert SECRET.encode() not in data
    started, finished = map(json.loads, data.splitlines())
    assert path.stem == finished["ts"][:10]
    assert datetime.fromisoformat(finished["ts"]) >= before.replace(microsecond=0)
    assert (started["event"], finished["event"]) == ("started", "finished")
    told = {key: finished[key] for key in ("tool", "span", "code", "bytes_out", "profile")}
    assert told == {**NAMES, "code": code, "bytes_out": size, "profile": "compute"}
    assert isinstance(finished["ms"], float)


def session_without_a_ledger(tmp_path, required):
    (tmp_path / "audit").write_text("no directory")
    settings = Settings(audit=AuditSettings(directory=tmp_path / "audit", required=required))
    return open_paddock(settings, tmp_path)


def test_g28_a_computation_runs_unrecorded_where_that_is_allowed(tmp_path, caplog):
    async def run():
        async with session_without_a_ledger(tmp_path, "effects") as session:
            answer = await compute(
                session, {"source": "emit(read_input())", "input": "x"}, workspace=tmp_path
            )
            works = [GuestRun(source="return 1"), ServerCall(server="s", tool="t")]
            refusals = []
            for work in works:
                with pytest.raises(LedgerError) as caught:
                    await session.gate.execute(ExecutionRequest(workspace=tmp_path, work=work))
                refusals.append(str(caught.value))
            return answer, refusals

    answer, refusals = asyncio.run(run())
    assert (answer.stdout, answer.stderr) == ('{"output":"x"}', "")
    stop = f"The audit ledger {tmp_path / 'audit'} cannot be written: "
    assert [text.startswith(stop) for text in refusals] == [True, True]
    assert [record.message.startswith(f"not recorded: {stop}") for record in caplog.records] == [True, True]


def test_a_computation_that_needs_no_record_still_runs_at_most_once(tmp_path):
    async def run():
        settings = Settings(audit=AuditSettings(directory=tmp_path / "audit", required="effects"))
        async with open_paddock(settings, tmp_path) as session:
            request = ExecutionRequest(
                workspace=tmp_path, work=GuestRun(source="emit(1)", profile="compute", input="")
            )
            outcome = await session.gate.execute(request)
            with pytest.raises(LedgerError, match="claimed before and runs at most once"):
                await session.gate.execute(request)
            return outcome

    assert asyncio.run(run()).value == "1"


def test_nothing_runs_unrecorded_by_default(tmp_path):
    async def run():
        async with session_without_a_ledger(tmp_path, "all"):
            pass

    with pytest.raises(LedgerError, match="Nothing runs without its record"):
        asyncio.run(run())
