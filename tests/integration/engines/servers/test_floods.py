"""Servers that send too much: they are cut off or fail the one call, by name, and other calls go on."""

import asyncio
import json

import pytest
from tests.support.processes import PATIENCE_S
from tests.support.servers import make_command

from paddock.engines.servers.calls import unsolicited
from paddock.engines.servers.config import HttpServer, StdioServer
from paddock.model.errors import ServerUnavailable

from .conftest import failure
from .test_hub_http_faults import SSE, answer, rude

COMMAND, *REST = make_command("flood")
FLOOD = StdioServer("flood", COMMAND, tuple(REST))
MANY = "it sent more than 500 messages, or KiB of them, that answer no call, faster than 0 a second; correct the server"
VALUES = "it has more than 30000 values; ask for less at once, or raise `servers.answer_values`"


@pytest.fixture(autouse=True)
def few(monkeypatch):
    monkeypatch.setattr(unsolicited, "MAX_MESSAGES", 500)
    monkeypatch.setattr(unsolicited, "MESSAGES_PER_SECOND", 0)
    monkeypatch.setattr(unsolicited, "ANSWER_TIMEOUT_S", PATIENCE_S)  # a busy machine reads answers late
    monkeypatch.setattr("paddock.engines.servers.calls.connection.STDERR_BYTES", 1_000_000)
    monkeypatch.setattr("paddock.engines.servers.calls.connection.STDERR_BYTES_PER_SECOND", 0)


@pytest.mark.parametrize("flood", ["pings", "progress", "logs", "changes", "answers", "noise"])
def test_a_server_that_floods_is_cut_off_and_started_anew_for_the_next_call(hub, flood):
    async def main():
        async with hub(FLOOD) as h:
            error = await failure(h.call_tool("flood", flood, {}), ServerUnavailable)
            assert (str(error), error.sent) == (f"Server flood was cut off: {MANY}.", True)
            assert (await h.call_tool("flood", "values", {"count": 1})).raw["structuredContent"] == {
                "a": [[]]
            }
            assert h.list_status()["flood"].starts == 2

    asyncio.run(main())


def test_a_server_whose_requests_we_cannot_answer_is_cut_off(hub, monkeypatch):
    monkeypatch.setattr(unsolicited, "MAX_MESSAGES", 1_000_000)
    monkeypatch.setattr(unsolicited, "ANSWER_TIMEOUT_S", 0.1)

    async def main():
        async with hub(FLOOD) as h:
            error = await failure(h.call_tool("flood", "pings", {}), ServerUnavailable)
            assert str(error) == (
                "Server flood was cut off: 64 of its requests were open, and it read no answer for 0.1 s; correct the "
                "server."
            )

    asyncio.run(main())


def test_a_server_that_floods_its_standard_error_is_cut_off(hub):
    async def main():
        async with hub(FLOOD) as h:
            error = await failure(h.call_tool("flood", "stderr", {}), ServerUnavailable)
            assert str(error) == (
                "Server flood was cut off: it wrote more than 1000000 bytes to stderr, faster than 0 a second; "
                "have it log less."
            )

    asyncio.run(main())


def test_an_answer_that_swells_fails_its_own_call_and_counts_for_nothing_against_the_server(hub):
    async def main():
        async with hub(FLOOD, answer_values=30_000) as h:
            for _ in range(6):
                error = await failure(h.call_tool("flood", "values", {"count": 40_000}), ServerUnavailable)
                assert (str(error), error.sent) == (f"Server flood sent no complete answer: {VALUES}.", True)
            deep = await failure(
                h.call_tool("flood", "deep", {"levels": 600, "beside": 20_000}), ServerUnavailable
            )
            assert str(deep) == "Server flood sent no complete answer: it is nested more than 500 deep."
            many = await h.call_tool("flood", "values", {"count": 29_000})
            assert many.raw["structuredContent"] == {"a": [[]] * 29_000}
            status = h.list_status()["flood"]
            assert (status.starts, status.failures) == (1, 0)

    asyncio.run(main())


def swollen(number, count):
    return json.dumps(
        {"jsonrpc": "2.0", "id": number, "result": {"content": [], "structuredContent": [[]] * count}}
    )


async def sse(writer, *events, ends):
    """Write events as one stream in chunks of one line each."""
    writer.write(SSE)
    for event in events:
        data = event.encode() + ends.encode()
        writer.write(b"%x\r\n%b\r\n" % (len(data), data))
    writer.write(b"0\r\n\r\n")
    await writer.drain()


@pytest.mark.parametrize("ends", ["\n", "\r\n"])
@pytest.mark.parametrize("noise", ["", 'id: "', ': "'])
def test_an_event_that_swells_fails_its_own_call(hub, ends, noise):
    async def main():
        async def many(writer, number):
            data = swollen(number, 40_000)
            half = len(data) // 2
            where = data.index(",", half) + 1  # one event in two lines
            await sse(writer, noise, f"data: {data[:where]}", f"data: {data[where:]}", "", ends=ends)

        async def few(writer, number):
            lines = [f"data: {swollen(number, 20_000)}", ""]
            chatter = [
                'data: {"jsonrpc":"2.0","method":"notifications/message","params":{"data":' + "[1,2]}}",
                "",
            ]
            await sse(writer, *chatter, *lines, ends=ends)

        options = {"answer_values": 30_000}
        async with rude(many=many, few=few) as server, hub(HttpServer("web", server.url), **options) as h:
            error = await failure(h.call_tool("web", "many", {}), ServerUnavailable)
            assert str(error) == f"Server web sent no complete answer: {VALUES}."
            assert (await h.call_tool("web", "few", {})).raw["structuredContent"] == [[]] * 20_000
            assert h.list_status()["web"].failures == 0

    asyncio.run(main())


def test_a_document_that_swells_fails_its_own_call(hub):
    async def main():
        async def many(writer, number):
            writer.write(answer(json.loads(swollen(number, 40_000))))

        async with rude(many=many) as server, hub(HttpServer("web", server.url), answer_values=30_000) as h:
            error = await failure(h.call_tool("web", "many", {}), ServerUnavailable)
            assert str(error) == f"Server web sent no complete answer: {VALUES}."
            assert h.list_status()["web"].failures == 0

    asyncio.run(main())


@pytest.mark.parametrize(
    "message",
    [
        {"jsonrpc": "2.0", "id": "p", "method": "ping"},
        {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": 1, "progress": 1}},
    ],
)
def test_a_flood_of_events_ends_the_connection(hub, message):
    async def main():
        async def flood(writer, _):
            writer.write(SSE)
            event = f"data: {json.dumps(message)}\n\n".encode() * 100
            while True:
                writer.write(b"%x\r\n%b\r\n" % (len(event), event))
                await writer.drain()
                await asyncio.sleep(0)

        async with rude(flood=flood) as server, hub(HttpServer("web", server.url)) as h:
            error = await failure(h.call_tool("web", "flood", {}), ServerUnavailable)
            assert str(error) == f"Server web was cut off: {MANY}."

    asyncio.run(main())
