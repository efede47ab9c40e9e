"""A driver can send frames without end: reading them never keeps the event loop for long."""

import asyncio

import pytest

from paddock.engines.sessions.channel import DriverChannel, pack_frame


@pytest.mark.parametrize(
    ("body", "most"), [(b'{"display": 1}', 220), (b'{"display": "%s"}' % (b"x" * 4000), 5)]
)
def test_few_frames_are_read_between_two_turns_of_the_event_loop(body, most):
    async def go():
        channel = DriverChannel()
        channel.theirs.setblocking(False)
        loop = asyncio.get_running_loop()
        total = 100 * most
        sending = asyncio.create_task(loop.sock_sendall(channel.theirs, pack_frame(body) * total))
        counts, reading = [0], True

        async def watch():
            while reading:
                counts.append(0)
                await asyncio.sleep(0)

        watching = asyncio.create_task(watch())
        for _ in range(total):
            await channel.receive()
            counts[-1] += 1
        reading = False
        await asyncio.gather(sending, watching)
        channel.close()
        channel.theirs.close()
        return counts

    counts = asyncio.run(go())
    assert sum(counts) == 100 * most
    assert max(counts) <= most
