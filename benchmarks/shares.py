"""Judge right programs beside a program that takes all it can get: `python -m benchmarks.shares [--tier landlock]`.

Run it in each surrounding that matters: with a delegated control group, without one, and in a group with a quota:

    mkdir /sys/fs/cgroup/cpu/shares && echo 150000 > /sys/fs/cgroup/cpu/shares/cpu.cfs_quota_us      (version 1)
    sh -c 'echo 0 > /sys/fs/cgroup/cpu/shares/cgroup.procs; exec python -m benchmarks.shares'

Fails if a right program is judged wrong. `unavailable` is no wrong verdict: the machine was too busy.
"""

import argparse
import asyncio
import sys
from typing import TYPE_CHECKING

from paddock import Case, Paddock, Program
from paddock.confinement.sandbox.sandbox import KernelSandbox
from paddock.model.outcome import SandboxFacts

if TYPE_CHECKING:
    from paddock.model.sandbox import Tier

_RIGHT = "import time\nwhile time.process_time() < 1: pass\nprint(1)"
"""Needs a second of a processor, and may take three."""
_FLOODS = {
    "sessions": "import os, time\nfor _ in range(20):\n    if os.fork() == 0:\n        os.setsid()\n        while True: pass\n"
    "time.sleep(100)",
    "processes": "import os, time\nfor _ in range(20):\n    if os.fork() == 0:\n        while True: pass\ntime.sleep(100)",
    "threads": "import hashlib, threading\ndef work():\n    while True: hashlib.pbkdf2_hmac('sha256', b'', b'', 100_000)\n"
    "for _ in range(20): threading.Thread(target=work).start()",
    "short sessions": "import os, signal, time\nsignal.signal(signal.SIGCHLD, signal.SIG_IGN)\nfor _ in range(20):\n"
    "    if os.fork() == 0:\n        while True:\n            if os.fork(): os._exit(0)\n            os.setsid()\n"
    "            end = time.monotonic() + 0.008\n            while time.monotonic() < end: pass\ntime.sleep(100)",
}


async def main() -> int:
    """Return the number of wrong verdicts."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--tier", choices=["namespaces", "landlock"], default="namespaces")
    tier: Tier = parser.parse_args().tier
    wrong = 0
    async with (
        KernelSandbox(SandboxFacts(tier=tier), tier) as sandbox,
        Paddock(overrides={"runtimes.max_jobs": 2}, sandbox=sandbox if tier == "landlock" else None) as p,
    ):
        for name, flood in _FLOODS.items():
            programs = [Program(language="python", code=flood, id="flood", timeout_ms=12_000)]
            programs += [
                Program(
                    language="python",
                    code=_RIGHT,
                    id=f"{number}",
                    timeout_ms=3000,
                    tests=(Case(expect=b"1"),),
                )
                for number in (1, 2, 3)
            ]
            print(f"{tier}, beside {name}:")
            async for result in p.map(programs, max_parallel=2):
                usage, ended = result.outcome.usage, result.verdict or result.outcome.status
                wrong += result.id != "flood" and ended not in {"accepted", "unavailable"}
                print(
                    f"  {result.id}: {ended}, {usage.cpu_ms:.0f} ms of a processor in {usage.wall_ms:.0f} ms"
                )
    return wrong


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
