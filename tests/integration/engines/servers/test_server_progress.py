"""Progress that a server reports of a call: for callers that listen, bounded, and without credentials."""

import asyncio

import pytest
from tests.support.servers import make_command

from paddock.engines.servers.calls.progress import INTERVAL_S, ProgressReports
from paddock.engines.servers.config import StdioServer
from paddock.model.outcome import CallProgress
from paddock.policy.redaction.known import ServerSecrets

from .conftest import text

SECRET = "tok-0123456789abcdef"


@pytest.fixture
def library():
    command, *rest = make_command("library")
    secrets = ServerSecrets({SECRET})
    return StdioServer("lib", command, tuple(rest), secrets=secrets, credentials=secrets)


def test_only_a_call_with_a_listener_asks_for_progress(hub, library):
    reports = []

    async def main():
        async with hub(library) as h:
            silent = await h.call_tool("lib", "work", {"times": 1})
            message = f"at \u200b{SECRET}\nnow"
            heard = await h.call_tool(
                "lib", "work", {"times": 10_000, "message": message}, on_progress=reports.append
            )
            return text(silent), text(heard), h.list_status()["lib"].starts

    assert asyncio.run(main()) == ("token: False", "token: True", 1)
    assert reports[0] == CallProgress("lib", "work", 1, 10_000, r"at \u{200b}[REDACTED:server] now")
    assert len(reports) < 1_000


def test_of_a_flood_one_report_in_an_interval_is_passed_on():
    now, reports = [0.0], []
    progress = ProgressReports("lib", str, lambda: now[0])
    with progress.listen("work", reports.append) as meta:
        for at in range(1, 1_001):
            now[0] += INTERVAL_S / 128
            progress.take({**meta, "progress": at})
    progress.take({**meta, "progress": 1_001})
    assert [each.progress for each in reports] == [1, *range(129, 1_001, 128)]


@pytest.mark.parametrize(
    "params",
    [
        {"progress": True}, {"progress": "1"}, {"progress": float("nan")}, {"progress": 10**400}, {}, {"progress": 1, "progressToken": 2},
        {"progress": 1, "progressToken": "1"}, {"progress": 1, "progressToken": True}, {"progress": 1, "progressToken": [1]},
    ],
)  # fmt: skip
def test_a_report_that_breaks_the_protocol_is_dropped(params):
    reports = []
    progress = ProgressReports("lib", str, lambda: 0.0)
    with progress.listen("work", reports.append) as meta:
        progress.take({**meta, **params})
    assert reports == []


def test_a_report_is_one_line():
    assert CallProgress("lib", "work", 3, 10, "compiling").text == "lib.work: 3 of 10: compiling"
    assert CallProgress("lib", "work", 0.5).text == "lib.work: 0.5"


def test_a_listener_that_fails_ends_nothing(caplog):
    progress = ProgressReports("lib", str, lambda: 0.0)
    with progress.listen("work", lambda _: 1 / 0) as meta:
        progress.take({**meta, "progress": 1})
    assert [record.message for record in caplog.records] == ["a listener for the progress of work failed"]
