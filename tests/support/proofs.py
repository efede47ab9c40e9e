"""Remembers what was proved of this machine, so that it is not attacked again at each start of the thousands in tests.

Half of the time of a short program goes into the canary. `tests/integration/confinement` has every start prove its tier,
and so has every command that is executed instead of forked (`tests.support.forked`).
"""

import asyncio
import os
import resource
import shutil
import tempfile
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from pathlib import Path

from paddock.confinement.sandbox import tiers
from paddock.confinement.sandbox.child import namespaces
from paddock.confinement.sandbox.sandbox import KernelSandbox
from paddock.model.sandbox import Tier, TierReport

_LIMITS = sorted(
    {getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_")}
    - {resource.RLIMIT_STACK}
)
"""All except the one that Paddock raises itself."""
_NAMESPACES = ("mnt", "pid", "user")

_prove = tiers.prove
_proofs: dict[Hashable, TierReport] = {}


async def _prove_once(
    tier: Tier, job_user: int | None = None, starter: KernelSandbox | None = None
) -> TierReport:
    key = (tier, job_user, *_describe_process())
    if key not in _proofs:
        report = await _prove(tier, job_user, starter)
        if not report.proved:
            return report
        _proofs[key] = report
    return _proofs[key]


def _describe_process() -> tuple[Hashable, ...]:
    """Return what a proof may depend on: powers, limits, namespaces, and where bubblewrap and temporary files are."""
    bubblewrap = shutil.which(namespaces.BUBBLEWRAP)
    powers = ("Uid:", "Gid:", "Groups:", "Cap", "NoNewPrivs:", "Seccomp:")
    status = Path("/proc/self/status").read_text().splitlines()
    return (
        bubblewrap and os.path.realpath(bubblewrap),
        tempfile.gettempdir(),
        *(line for line in status if line.startswith(powers)),
        *(resource.getrlimit(number) for number in _LIMITS),
        *(Path("/proc/self/ns", name).readlink() for name in _NAMESPACES),
    )


@contextmanager
def remember_proofs() -> Iterator[None]:
    """Have this process prove each tier once meanwhile."""
    tiers.prove = _prove_once
    try:
        yield
    finally:
        tiers.prove = _prove


def prove_for_children() -> None:
    """Have processes that are forked from this one know the strongest tier, which a child of it proves."""
    tiers.prove = _prove_once
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writer, asyncio.run(_prove("namespaces")).model_dump_json().encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        report = TierReport.model_validate_json(pipe.read())
    os.waitpid(child, 0)
    if report.proved:
        _proofs[("namespaces", None, *_describe_process())] = report
