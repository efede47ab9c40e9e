"""Refused requests: all are counted, and the record and the log get one entry for each cause and second."""

import asyncio
import logging
from typing import Any

import pytest

from paddock.model.errors import LedgerError
from paddock.record.telemetry.metrics import Metrics
from paddock.surfaces.tenants import refusals
from paddock.surfaces.tenants.refusals import Refusals
from paddock.testing.fakes import MemoryAudit

REFUSAL = {"kind": "refusal", "surface": "http"}


def list_facts(sink: MemoryAudit) -> list[dict[str, Any]]:
    return [dict(each.fields) for each in sink.query(event="refused", newest_first=False)]


def test_a_flood_is_counted_and_gets_few_records_and_lines(caplog: pytest.LogCaptureFixture) -> None:
    sink, metrics = MemoryAudit(), Metrics()

    async def flood() -> None:
        noted = Refusals(sink, metrics)
        for _ in range(5000):
            noted.note("unauthorized")
        noted.note("too-many-requests", "token:bob")
        noted.note("no-slot", "token:bob", "python")
        noted.note("no-slot", "token:ada", "python")
        noted.note("no-slot", "token:bob", "javascript")
        noted.note("no-slot", "token:bob", "made-up")
        noted.close()

    with caplog.at_level(logging.WARNING, "paddock.refusals"):
        asyncio.run(flood())
    bob, python = ("token:bob",), ("python",)
    assert list_facts(sink) == [
        {**REFUSAL, "reason": "unauthorized", "count": 1},
        {**REFUSAL, "reason": "too-many-requests", "count": 1, "actors": bob},
        {**REFUSAL, "reason": "no-slot", "count": 1, "actors": bob, "languages": python},
        {**REFUSAL, "reason": "unauthorized", "count": 4999},
        {
            **REFUSAL,
            "reason": "no-slot",
            "count": 3,
            "actors": ("token:ada", "token:bob"),
            "languages": ("javascript", "python"),
        },
    ]
    assert [line.getMessage() for line in caplog.records][1:3] == [
        "refused kind=refusal surface=http reason=too-many-requests count=1 actors=token:bob",
        "refused kind=refusal surface=http reason=no-slot count=1 actors=token:bob languages=python",
    ]
    counted = {
        (sample.labels["error_type"], sample.labels["language"]): sample.value
        for family in metrics.refusals.collect()
        for sample in family.samples
        if sample.name == "paddock_refusals_total"
    }
    assert counted == {
        ("unauthorized", ""): 5000,
        ("too-many-requests", ""): 1,
        ("no-slot", "python"): 2,
        ("no-slot", "javascript"): 1,
        ("no-slot", ""): 1,
    }


def test_what_came_within_a_period_is_written_at_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refusals, "PERIOD_S", 0.0)
    second = asyncio.Event()

    class Noticing(MemoryAudit):
        def append_soon(self, *args: Any, **more: Any) -> str:
            record = super().append_soon(*args, **more)
            if len(list_facts(self)) == 2:
                second.set()
            return record

    sink = Noticing()

    async def refuse() -> None:
        noted = Refusals(sink, None)
        for _ in range(3):
            noted.note("unauthorized")
        await second.wait()
        noted.close()

    asyncio.run(refuse())
    assert list_facts(sink) == [
        {**REFUSAL, "reason": "unauthorized", "count": 1},
        {**REFUSAL, "reason": "unauthorized", "count": 2},
    ]


def test_an_entry_names_few_callers() -> None:
    sink = MemoryAudit()

    async def refuse() -> None:
        noted = Refusals(sink, None)
        for number in range(100):
            noted.note("no-slot", f"token:{number:03}")
        noted.close()

    asyncio.run(refuse())
    assert [(each["count"], len(each["actors"])) for each in list_facts(sink)] == [(1, 1), (99, 10)]


def test_a_ledger_that_fails_does_not_answer_a_refused_request() -> None:
    class Failing(MemoryAudit):
        def append_soon(self, *_args: Any, **_more: Any) -> str:
            raise LedgerError("the disk is full")

    async def refuse() -> None:
        Refusals(Failing(), None).note("unauthorized")

    asyncio.run(refuse())
