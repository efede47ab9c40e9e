"""The processes below a supervisor are found, however they were started, and each fork of it stays small."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import paddock
from paddock.confinement.sandbox.child import process_tree
from paddock.confinement.sandbox.interpreter import CHILD_PROGRAM

FORK_SERVER = "paddock.confinement.sandbox.child.fork_server"
TWO_THREADS = """
import os, subprocess, sys, threading, time
def start():
    subprocess.Popen(["/bin/sleep", "60"])
    print("started", flush=True)
    time.sleep(60)
threading.Thread(target=start, daemon=True).start()
sys.stdin.read()
os.killpg(0, 9)
"""
MEASURE = (
    "import sys; sys.path.insert(0, sys.argv.pop(1)); import subprocess\n"
    "from paddock.confinement.sandbox.child import process_tree\n"
    f"held = subprocess.Popen([sys.executable, '-c', {TWO_THREADS!r}], stdin=subprocess.PIPE,"
    " stdout=subprocess.PIPE, start_new_session=True)\n"
    "held.stdout.readline()\n"
    "print(len(process_tree.measure_tree().processes))\n"
    "held.communicate()\n"
)


@pytest.fixture
def package():
    return str(Path(paddock.__file__).parents[1])


def test_what_a_second_thread_started_counts(package):
    command = [sys.executable, "-I", "-S", "-c", MEASURE, package]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "2\n"


def test_threads_count_for_their_user():
    before = process_tree.threads_by_user()[os.geteuid()]
    done = threading.Event()
    more = [threading.Thread(target=done.wait) for _ in range(200)]
    for each in more:
        each.start()
    try:
        assert process_tree.threads_by_user()[os.geteuid()] > before + 100
    finally:
        done.set()
        for each in more:
            each.join()


def test_forks_run_no_handlers_of_modules(package):
    """`threading` registers one (os.register_at_fork), which writes to a hundred pages in each forked process."""
    program = CHILD_PROGRAM.format(module=FORK_SERVER).replace("main()", "print('threading' in sys.modules)")
    command = [sys.executable, "-I", "-S", "-c", program, package]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "False\n"
