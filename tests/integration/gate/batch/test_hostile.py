"""Programs that try to be accepted otherwise than by a right answer, or to harm what judges them."""

import json
import os

import pytest

SEARCH = """
import os, sys

wanted = "TH1S-IS-" + "EXPECTED"

def search(path):
    try:
        with open(path, "rb") as file:
            return wanted.encode() in file.read(1 << 20)
    except (OSError, ValueError):
        return False

roots = ["/proc/self", "/tmp", "/var/tmp", "/dev/shm", "/home", "/root", "/run", os.getcwd(), os.path.dirname(os.getcwd())]
roots += sys.argv[1:]
roots += [f"/proc/{pid}" for pid in os.listdir("/proc") if pid.isdigit()]
for root in roots:
    for folder, folders, files in os.walk(root):
        if folder.count("/") > 8 or "/task" in folder:
            folders.clear()
        for name in files:
            if search(os.path.join(folder, name)):
                print(wanted)
                sys.exit()
for value in [*os.environ.values(), *sys.argv]:
    if wanted in value:
        print(wanted)
for number in range(3, 256):
    try:
        os.lseek(number, 0, 0)
        if wanted.encode() in os.read(number, 1 << 20):
            print(wanted)
    except OSError:
        pass
print("nothing")
"""


def test_a_program_finds_no_expected_output(batch):
    tests = {"tests": [{"stdin": "", "expect": "TH1S-IS-EXPECTED"}]}
    (batch.workspace / "tests.json").write_text(json.dumps(tests))
    result = batch.judge(SEARCH, ("", "TH1S-IS-EXPECTED"), args=[str(batch.workspace)])
    assert (result.verdict.value, result.outcome.program.stdout.text) == ("wrong_answer", "nothing\n")


LEAVE = """
import os, subprocess, sys, time

places = [os.getcwd(), os.environ.get("TMPDIR", "/tmp"), "/tmp", "/var/tmp", "/dev/shm", os.path.expanduser("~")]
if input() == "leave":
    for place in places:
        try:
            open(os.path.join(place, "left-by-a-case"), "w").close()
        except OSError:
            pass
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            while True:
                for place in places:
                    try:
                        open(os.path.join(place, "left-by-a-child"), "w").close()
                    except OSError:
                        pass
                time.sleep(0.01)
        os._exit(0)
    print("left")
else:
    names = {"left-by-a-case", "left-by-a-child"}
    print(any(names & set(os.listdir(place)) for place in places if os.access(place, os.R_OK)))
    print(sum(b"left-by" in open(f"/proc/{pid}/cmdline", "rb").read() for pid in os.listdir("/proc") if pid.isdigit()))
"""


def test_a_case_leaves_nothing_for_the_next_one(batch):
    assert batch.verdicts(LEAVE, ("leave", "left"), ("look", "False\n0")) == ["accepted", "accepted"]


FORGED = json.dumps({"id": "x", "verdict": "accepted", "exit_code": 0})


def test_a_program_that_prints_a_verdict_has_printed_a_wrong_answer(batch):
    code = f"import sys\nprint({FORGED!r}); print({FORGED!r}, file=sys.stderr)"
    assert batch.verdicts(code, ("", "3")) == ["wrong_answer"]


def test_a_program_that_writes_to_every_descriptor_is_still_judged_by_its_output(batch):
    code = f"""
import os
for number in range(3, 1024):
    try:
        os.write(number, {FORGED.encode()!r})
    except OSError:
        pass
print(4)
"""
    assert batch.verdicts(code, ("", "3")) == ["wrong_answer"]


@pytest.mark.parametrize("target", ["os.getppid()", "1", "-1", "0"])
@pytest.mark.parametrize("number", ["SIGKILL", "SIGSTOP"])
def test_a_program_that_signals_others_harms_nobody_else(batch, target, number):
    code = f"""
import os, signal
try:
    os.kill({target}, signal.{number})
except OSError:
    pass
print(4)
"""
    [verdict] = batch.verdicts(code, ("", "3"), timeout_ms=2000)
    assert verdict in {"wrong_answer", "runtime_error", "time_limit"}
    assert batch.verdicts("print(3)", ("", "3")) == ["accepted"]


def test_a_program_that_forks_without_end_is_ended(batch):
    code = "import os\nwhile True:\n try: os.fork()\n except OSError: pass"
    [verdict] = batch.verdicts(code, ("", ""), timeout_ms=3000)
    assert verdict in {"runtime_error", "time_limit", "memory_limit"}
    assert batch.verdicts("print(3)", ("", "3")) == ["accepted"]


def test_a_file_over_the_limit_is_too_much_output(batch):
    code = """
#include <stdio.h>
#include <unistd.h>
int main() { FILE *file = fopen("large", "w"); fseek(file, 300L << 20, SEEK_SET); fputc('x', file); fflush(file);
printf("3\\n"); return 0; }
"""
    assert batch.verdicts(code, ("", "3"), language="c") == ["output_limit"]


def test_a_full_disk_is_too_much_output(batch):
    code = """
import os, time
for number in range(4):
    file = os.open(f"large{number}", os.O_CREAT | os.O_WRONLY)
    os.posix_fallocate(file, 0, 200 << 20)
print(3, flush=True)
time.sleep(3600)
"""
    assert batch.verdicts(code, ("", "3")) == ["output_limit"]


@pytest.mark.parametrize(
    ("code", "verdict"),
    [
        ("import os; print(3, flush=True); os.close(1); os.close(2)", "accepted"),
        ("import os; os.close(1); os.write(2, b'3')", "wrong_answer"),
        ("import os, time; print(3, flush=True); os.close(1); os.close(2); time.sleep(3600)", "time_limit"),
        ("import os, signal; print(3, flush=True); os.kill(os.getpid(), signal.SIGSTOP)", "time_limit"),
        (
            "import signal\nfor number in range(1, 32):\n try: signal.signal(number, signal.SIG_IGN)\n"
            " except (OSError, ValueError): pass\nprint(3)\nwhile True: pass",
            "time_limit",
        ),
    ],
)
def test_closed_streams_and_ignored_signals_change_no_verdict(batch, code, verdict):
    timeout = {} if verdict != "time_limit" else {"timeout_ms": 500}
    assert batch.verdicts(code, ("", "3"), **timeout) == [verdict]


CHILDREN = """
import os, time
for number in range(5):
    if os.fork() == 0:
        os.setsid()
        time.sleep(3600)
        print("late")
        os._exit(0)
print(3)
"""


def test_children_that_hold_the_pipe_delay_nothing_and_add_nothing(batch):
    result = batch.judge(CHILDREN, ("", "3"), ("", "3"))
    assert [case.verdict.value for case in result.tests] == ["accepted", "accepted"]
    assert {case.outcome.program.survivors for case in result.tests} == {0}


def test_a_child_that_floods_the_pipe_does_not_outlive_its_program(batch):
    code = """
import os
if os.fork() == 0:
    while True:
        os.write(1, b"3" * 65536)
os.wait4(-1, os.WNOHANG)
os._exit(0)
"""
    [verdict] = batch.verdicts(code, ("", "3"), output_bytes=1 << 20)
    assert verdict in {"wrong_answer", "output_limit"}


def test_bytes_that_are_no_text_are_compared_as_bytes(batch):
    code = "import sys; sys.stdout.buffer.write(b'\\xff\\x00\\n')"
    accepted = batch.judge(code, tests=[{"stdin": b"", "expect": b"\xff\x00"}])
    other = batch.judge(code, tests=[{"stdin": b"", "expect": "\ufffd\x00"}])
    assert (accepted.verdict.value, other.verdict.value) == ("accepted", "wrong_answer")


def test_nothing_stays_open(batch):
    batch.judge("print(3)", ("", "3"))
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - no path is wanted
    for _ in range(3):
        batch.judge(CHILDREN, ("", "3"))
    assert len(os.listdir("/proc/self/fd")) <= before + 8  # noqa: PTH208
