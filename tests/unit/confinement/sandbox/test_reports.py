"""A job's caller gets a result, whatever the warden's report says."""

import asyncio
import socket

import pytest

from paddock.confinement.sandbox import process as process_module
from paddock.confinement.sandbox.child.messages import GuardedFolder, JobReport, JobSpec
from paddock.confinement.sandbox.process import RunningProcess, Streams
from paddock.model.outcome import SandboxFacts
from paddock.model.process import ProcessLimits


class Warden:
    """The parent's end of a warden that says one thing, or nothing."""

    def __init__(self, message):
        self.socket, self.theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.message = message
        self.lost = False

    def run(self, _order, *files):
        for file in files:
            socket.close(file)
        if self.message is not None:
            self.theirs.send(self.message)

    def lose(self):
        self.lost = True

    def end(self, *, kept):
        assert not kept


def end_of(message, workspace="", faults=None, limits=None):
    place = Warden(message)
    place.supervisor = place

    async def main():
        asyncio.get_running_loop().set_exception_handler(lambda _, told: faults.append(told["exception"]))
        job = RunningProcess(
            place, limits or ProcessLimits(), Streams(), SandboxFacts(), in_namespaces=False, kept=False
        )
        job.start(JobSpec("", guarded=[GuardedFolder(workspace)] if workspace else ()))
        return await asyncio.wait_for(job.result, 30)

    with place.socket, place.theirs:
        result = asyncio.run(main())
    return result.status, result.reason, place.lost


def test_a_report_is_read():
    assert end_of(JobReport(code=0).to_bytes()) == ("ok", "", False)


@pytest.mark.parametrize(
    "message",
    [b"{", b"\xff", b"[]", b'{"peak_bytes": 1.5}', b'{"wall_ms": null}', b'{"survivors": {}}'],
)
def test_what_no_warden_says_is_the_end_of_it(message):
    assert end_of(message) == ("lost", "the supervisor of this process sent a malformed report", True)


def test_the_end_of_a_warden_says_what_it_did_not_do():
    assert end_of(b"") == ("lost", "the supervisor of this process died", True)
    assert end_of(b"", "/workspace") == (
        "lost",
        "the supervisor of this process died; check the protected paths of its workspace, which were not restored",
        True,
    )


def test_a_warden_that_says_nothing_is_late(monkeypatch):
    monkeypatch.setattr(process_module, "_START_S", 0.0)
    monkeypatch.setattr(process_module, "GRACE_S", 0.0)
    told = "the supervisor of this process did not report in time"
    assert end_of(None, limits=ProcessLimits(timeout_ms=1)) == ("lost", told, True)


def test_a_fault_after_the_result_does_not_pass_for_a_report_that_makes_no_sense(monkeypatch):
    fault, faults = ValueError("release"), []

    def fail(*_, **__):
        raise fault

    monkeypatch.setattr(Warden, "end", fail)
    assert end_of(JobReport(code=0).to_bytes(), faults=faults) == ("ok", "", False)
    assert faults == [fault]
