"""However many threads or sessions a job starts, together they weigh as much as one thread.

The programs wait until their own weights have changed; no test depends on how much time anything gets.
"""

import os

import pytest
from tests.integration.confinement.sandbox.conftest import patiently

from paddock.confinement.sandbox.child.shares import find_nice
from paddock.confinement.sandbox.protocol import Streams
from paddock.confinement.sandbox.sandbox import KernelSandbox
from paddock.model.outcome import SandboxFacts, Status
from paddock.model.process import ProcessLimits

PYTHON = "/usr/bin/python3"
FLOOD = 8
LIMITS = ProcessLimits(timeout_ms=600_000, cpu_ms=6_000_000)
SPIN = """
import os, re, threading, time
def spin():
    while True: pass
def weigh(task, group):
    try: text = open(f"/proc/{group}/autogroup").read()
    except OSError: text = "nice NICE"
    return os.getpriority(os.PRIO_PROCESS, task), text.split()[-1]
"""
PROGRAMS = {
    "sessions": "own = []\nfor _ in range(FLOOD):\n    pid = os.fork()\n    if pid == 0:\n        os.setsid()\n        spin()\n"
    "    own.append(pid)\nwhile {weigh(pid, pid) for pid in own} != {(NICE, 'NICE')}: time.sleep(0.05)\nprint('equal')",
    "processes": "own = []\nfor _ in range(FLOOD):\n    pid = os.fork()\n    if pid == 0: spin()\n    own.append(pid)\n"
    "while {weigh(pid, 'self')[0] for pid in own} != {NICE}: time.sleep(0.05)\nprint('equal')",
    "threads": "import hashlib, threading\ndef work():\n"
    "    while True: hashlib.pbkdf2_hmac('sha256', b'', b'', 1_000_000)\n"  # without the interpreter's lock
    "own = [threading.Thread(target=work, daemon=True) for _ in range(FLOOD)]\nfor each in own: each.start()\n"
    "while {weigh(each.native_id, 'self')[0] for each in own} != {NICE}: time.sleep(0.05)\nos.write(1, b'equal\\n')\nos._exit(0)",
}


@pytest.mark.root
@pytest.mark.usefixtures("as_root")
@pytest.mark.parametrize("tier", ["namespaces", "landlock"])
@pytest.mark.parametrize("kind", PROGRAMS)
def test_a_flood_weighs_as_much_as_one_thread(tier, kind):
    said = bytearray()
    nice = str(find_nice(FLOOD))
    program = (SPIN + PROGRAMS[kind]).replace("FLOOD", str(FLOOD)).replace("NICE", nice)

    async def run():
        async with KernelSandbox(SandboxFacts(tier=tier), tier=tier, job_user=None) as sandbox:
            command = [PYTHON, "-I", "-S", "-c", program]
            return await sandbox.run(command, limits=LIMITS, streams=Streams(stdout=said.extend))

    result = patiently(run())
    assert (result.status, bytes(said), result.stderr.head) == (Status.OK, b"equal\n", "")


@pytest.mark.parametrize("tier", ["namespaces", "landlock"])
def test_a_job_of_one_thread_keeps_its_weight(tier):
    program = "import os, time\nbegan = time.process_time()\nwhile time.process_time() < began + 0.3: pass\nprint(os.nice(0))"

    async def run():
        async with KernelSandbox(SandboxFacts(tier=tier), tier=tier, job_user=0) as sandbox:
            return await sandbox.run([PYTHON, "-I", "-S", "-c", program], limits=LIMITS)

    result = patiently(run())
    assert (result.status, result.stdout.head) == (Status.OK, f"{os.nice(0)}\n")
