"""Files that are being sent: the memory of all of them is bounded, and given back."""

import asyncio
from collections.abc import MutableMapping
from typing import Any

import pytest

from paddock.surfaces.http_api.downloads import Downloads
from paddock.surfaces.http_server.problems import SERVER_BUSY, Problem


async def receive() -> MutableMapping[str, Any]:
    return {"type": "http.disconnect"}


def test_all_files_that_are_being_sent_have_a_maximum() -> None:
    async def main() -> tuple[list[bytes], list[bytes]]:
        downloads, taken, first, second = (
            Downloads(max_bytes=100),
            asyncio.Event(),
            list[bytes](),
            list[bytes](),
        )

        async def send_slowly(message: MutableMapping[str, Any]) -> None:
            await taken.wait()
            first.append(message.get("body", b""))

        async def send(message: MutableMapping[str, Any]) -> None:
            second.append(message.get("body", b""))

        scope = {"type": "http"}
        slow = asyncio.create_task(downloads.respond(b"a" * 60, "text/csv")(scope, receive, send_slowly))
        await asyncio.sleep(0)
        with pytest.raises(Problem) as raised:
            await downloads.respond(b"b" * 60, "text/csv")(scope, receive, send)
        assert (raised.value.kind, second) == (SERVER_BUSY, [])
        taken.set()
        await slow
        await downloads.respond(b"c" * 100, "text/csv")(scope, receive, send)
        return first, second

    assert asyncio.run(main()) == ([b"", b"a" * 60], [b"", b"c" * 100])


def test_an_outcome_is_sent_without_room_and_nothing_further_starts() -> None:
    async def main() -> tuple[list[bytes], str]:
        downloads, taken, sent = Downloads(max_bytes=100), asyncio.Event(), list[bytes]()

        async def send_slowly(message: MutableMapping[str, Any]) -> None:
            await taken.wait()
            sent.append(message.get("body", b""))

        downloads.check_room()
        slow = [
            asyncio.create_task(downloads.respond_outcome(each * 60)({"type": "http"}, receive, send_slowly))
            for each in (b"a", b"b")
        ]
        await asyncio.sleep(0)
        with pytest.raises(Problem) as raised:
            downloads.check_room()
        taken.set()
        await asyncio.gather(*slow)
        downloads.check_room()
        return sorted(sent), str(raised.value)

    assert asyncio.run(main()) == (
        [b"", b"", b"a" * 60, b"b" * 60],
        "Too many large answers are being sent just now. Nothing was started; send it again later.",
    )


def test_the_media_type_stays_as_it_is() -> None:
    answer = Downloads().respond(b"1", "text/csv", {"Cache-Control": "no-store"})
    assert (answer.headers["content-type"], answer.headers["cache-control"]) == ("text/csv", "no-store")
