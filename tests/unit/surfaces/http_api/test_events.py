"""Server-sent events: in order, bounded, and the last one always arrives."""

import asyncio

from paddock.model.outcome import ConsoleLine
from paddock.surfaces.http_api.events import Listener, Publisher


async def read_all(listener: Listener) -> list[bytes]:
    return [event async for event in listener.stream()]


def test_events_arrive_in_order_until_the_last() -> None:
    async def main() -> list[bytes]:
        listener = Listener()
        publisher = Publisher()
        publisher.add(listener)
        publisher.on_console(ConsoleLine(level="log", text="a\nb"))
        publisher.on_output("stdout", "ä".encode()[:1])
        publisher.on_output("stdout", "ä".encode()[1:])
        publisher.end("outcome", b"{}")
        publisher.put("console", {})
        return await read_all(listener)

    assert asyncio.run(main()) == [
        b'event: console\ndata: {"level":"log","text":"a\\nb"}\n\n',
        b'event: output\ndata: {"stream":"stdout","text":"\\u00e4"}\n\n',
        b"event: outcome\ndata: {}\n\n",
    ]


def test_what_a_slow_client_misses_is_counted() -> None:
    async def main() -> list[bytes]:
        listener = Listener(max_bytes=100)
        for number in range(10):
            listener.put("console", {"text": "x" * 20, "n": number})
        listener.end("outcome", b'"' + b"y" * 1000 + b'"')
        return await read_all(listener)

    events = asyncio.run(main())
    assert [event.split(b"\n")[0] for event in events] == [
        b"event: console",
        b"event: dropped",
        b"event: outcome",
    ]
    assert events[1] == b'event: dropped\ndata: {"events":9}\n\n'


def test_comments_keep_a_quiet_connection_open() -> None:
    async def main() -> bytes:
        async for event in Listener().stream(ping_s=0.001):
            return event
        raise AssertionError

    assert asyncio.run(main()) == b": still running\n\n"


def test_a_listener_without_events_gets_none_of_the_others() -> None:
    async def main() -> list[bytes]:
        publisher, listener = Publisher(), Listener()
        publisher.add(listener)
        publisher.remove(listener)
        publisher.put("console", {})
        listener.end("outcome", b"1")
        return await read_all(listener)

    assert asyncio.run(main()) == [b"event: outcome\ndata: 1\n\n"]
