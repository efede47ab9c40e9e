"""The limits of one process that a program starts with, whatever its user may have otherwise."""

import resource

import pytest

from paddock.confinement.sandbox.child import shim
from paddock.confinement.sandbox.child.messages import Ceilings, JobSpec

INFINITE = resource.RLIM_INFINITY
ORDER = JobSpec(
    "", ceilings=Ceilings(cpu_ms=1500, memory_bytes=1000, processes=20, open_files=64, file_bytes=4096)
)


@pytest.mark.parametrize(("most", "files"), [(INFINITE, 64), (50, 50)])
def test_a_program_starts_with_its_own_limits_and_never_with_more_than_there_were(monkeypatch, most, files):
    given = {}
    monkeypatch.setattr(resource, "getrlimit", lambda _: (most, most))
    monkeypatch.setattr(resource, "setrlimit", given.__setitem__)
    shim.set_limits(ORDER, 7)
    bounded = {
        resource.RLIMIT_FSIZE: 4096,
        resource.RLIMIT_NOFILE: files,
        resource.RLIMIT_CPU: 3,
        resource.RLIMIT_NPROC: 7 + 20 + 256,
        resource.RLIMIT_DATA: 2000,
        resource.RLIMIT_STACK: INFINITE if most == INFINITE else most,
        resource.RLIMIT_RTPRIO: 0,
        resource.RLIMIT_NICE: 0,
    }
    assert given == {
        kind: (value, value) if most == INFINITE else (min(value, most),) * 2
        for kind, value in bounded.items()
    }
