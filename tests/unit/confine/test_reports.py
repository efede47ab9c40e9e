"""A job's caller gets a result, whatever the warden's report says."""

import asyncio
import socket

import pytest

from paddock.confine.job import Job, Streams
from paddock.confine.order import Order, Report
from paddock.model.outcome import SandboxFacts
from paddock.model.process import ProcessLimits


class Warden:
    """The server's end of a warden that says one thing."""

    def __init__(self, message):
        self.socket, self.theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.message = message
        self.lost = False

    def run(self, _order, *files):
        for file in files:
            socket.close(file)
        self.theirs.send(self.message)

    def lose(self):
        self.lost = True

    def end(self, *, kept):
        assert not kept


def end_of(message):
    place = Warden(message)
    place.warden = place

    async def main():
        job = Job(place, ProcessLimits(), Streams(), SandboxFacts(), jailed=False, kept=False)
        job.start(Order(""))
        return await asyncio.wait_for(job.result, 30)

    with place.socket, place.theirs:
        result = asyncio.run(main())
    return result.status, result.reason, place.lost


def test_a_report_is_read():
    assert end_of(Report(code=0).to_bytes()) == ("ok", "", False)


@pytest.mark.parametrize(
    "message",
    [b"{", b"\xff", b"[]", b'{"peak_bytes": 1.5}', b'{"wall_ms": null}', b'{"survivors": {}}'],
)
def test_what_no_warden_says_is_the_end_of_it(message):
    assert end_of(message) == ("lost", "the warden of this process said what no warden says", True)
