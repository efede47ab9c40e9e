"""Files without a name count, whoever holds them and however, and others do not."""

import array
import contextlib
import ctypes
import mmap
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from paddock.confine.nameless import Amount, gauges, usage

MIB = 1024 * 1024
OWN = "/proc/self"
LIBC = ctypes.CDLL(None)
LIBC.mmap.restype = ctypes.c_void_p
LIBC.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
FAR = Amount(1000 * MIB, 1000 * MIB)
"""The gauges have moved far enough for anything to be believed."""


def found(folder, *places, moved=Amount()):  # noqa: B008 - a constant
    amounts = [*usage(places or [OWN], str(folder), moved=moved, most=Amount(MIB, MIB))]
    assert set(amounts[:-1]) <= {None}
    return amounts[-1]


@pytest.fixture
def before(tmp_path):
    """Return what this process holds already: it has run other tests."""
    return found(tmp_path)


@pytest.fixture
def memory_file(before):
    file = os.memfd_create("test")
    os.write(file, bytes(3 * MIB))
    yield file
    os.close(file)


def removed(folder, name="file"):
    """Return the descriptor of a file of 2 MiB that is in no folder any more."""
    file = os.open(folder / name, os.O_RDWR | os.O_CREAT)
    os.write(file, bytes(2 * MIB))
    os.fsync(file)
    (folder / name).unlink()
    return file


@contextlib.contextmanager
def mapped(file, size):
    """Map a file, of which Python's own mappings keep a descriptor; -1 is none."""
    start = LIBC.mmap(
        None, size, mmap.PROT_READ, mmap.MAP_SHARED | (mmap.MAP_ANONYMOUS if file < 0 else 0), file, 0
    )
    assert start != ctypes.c_void_p(-1).value
    yield
    LIBC.munmap(ctypes.c_void_p(start), size)


def test_memory_files_count_once_by_what_is_in_them(tmp_path, before, memory_file):
    again = os.dup(memory_file)
    sparse = os.memfd_create("sparse")
    os.ftruncate(sparse, 100 * MIB)
    assert found(tmp_path, OWN, OWN).since(before) == Amount(memory=3 * MIB)
    os.close(again)
    os.close(sparse)


def test_removed_files_of_scratch_count_while_they_are_open(tmp_path):
    (tmp_path / "scratch").mkdir()
    file, elsewhere = removed(tmp_path / "scratch"), removed(tmp_path, "other")
    with (tmp_path / "scratch" / "kept (deleted)").open("wb") as kept:
        kept.write(bytes(MIB))
        kept.flush()
        assert found(tmp_path / "scratch").disk == 2 * MIB
    os.close(file)
    os.close(elsewhere)
    assert found(tmp_path / "scratch").disk == 0


def test_a_removed_file_that_has_another_name_is_not_counted_twice(tmp_path):
    (tmp_path / "a").write_bytes(bytes(MIB))
    os.link(tmp_path / "a", tmp_path / "b")
    with (tmp_path / "a").open("rb"):
        (tmp_path / "a").unlink()
        assert found(tmp_path).disk == 0


@pytest.mark.usefixtures("as_root")
def test_what_is_mapped_alone_counts_by_what_is_in_it_where_root_looks(tmp_path):
    before = found(tmp_path, moved=FAR)
    file = removed(tmp_path)
    with mapped(-1, 800 * MIB), mapped(file, 2 * MIB):
        os.close(file)
        assert found(tmp_path).disk == 0  # nobody looks before a gauge says that there may be something
        after = found(tmp_path, moved=Amount(2 * MIB))
        assert after.since(before) == Amount(disk=2 * MIB)


def test_what_is_open_and_mapped_counts_by_what_is_in_it(tmp_path, memory_file):
    before = found(tmp_path, moved=FAR)
    with mapped(memory_file, 3 * MIB):
        assert found(tmp_path, moved=FAR) == before


def test_who_has_sent_what_nobody_has_taken_is_believed_to_have_what_came(tmp_path, before, memory_file):
    here, there = socket.socketpair()
    with here, there:
        here.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [memory_file]))])
        assert found(tmp_path).since(before) == Amount(memory=3 * MIB)
        assert found(tmp_path, moved=FAR) == FAR
        there.recv(1)
        assert found(tmp_path, moved=FAR).disk == 0


def test_a_look_at_many_descriptors_pauses(tmp_path):
    program = "import os, sys\nfor _ in range(700): os.open('/dev/null', 0)\nprint('ready', flush=True)\nsys.stdin.read()"
    holder = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    with holder:
        assert holder.stdout.readline() == b"ready\n"
        place = f"/proc/{holder.pid}"
        amounts = [*usage([place, place], str(tmp_path), moved=Amount(), most=Amount(MIB, MIB))]
        holder.kill()
    assert amounts == [None, None, Amount()]


def test_processes_that_are_gone_hold_nothing(tmp_path):
    assert found(tmp_path, "/proc/0", "/proc/0/task/0", moved=FAR) == Amount()


def test_the_gauges_are_those_of_the_machine(tmp_path):
    shared = next(line for line in Path("/proc/meminfo").read_text().splitlines() if line[:6] == "Shmem:")
    assert gauges(str(tmp_path)).memory == pytest.approx(int(shared.split()[1]) * 1024, abs=64 * MIB)
    assert gauges(str(tmp_path)).disk > 0
    assert gauges("/nowhere").disk == 0
    assert Amount(5, 1).since(Amount(2, 3)) == Amount(3, 0)


HOLD = """
import ctypes, os, sys
ctypes.CDLL(None).prctl(4, {dumpable}, 0, 0, 0)
file = os.memfd_create("held")
os.write(file, bytes(3 << 20))
print("ready", flush=True)
sys.stdin.read()
"""
MAP = """
import ctypes, os, sys
libc = ctypes.CDLL(None)
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
libc.mmap(None, 8 << 20, 1, 0x21, -1, 0)
print("ready", flush=True)
sys.stdin.read()
"""
END_FIRST_THREAD = """
import ctypes, os, threading, time
def tell():
    while "State:\\tZ" not in open("/proc/self/status").read(): pass
    print("ready", flush=True)
    time.sleep(60)
threading.Thread(target=tell).start()
ctypes.CDLL(None).syscall({"x86_64": 60, "aarch64": 93}[os.uname().machine], 0)
"""
OBSERVER = """
import os, sys
from paddock.confine.nameless import Amount, usage
far = Amount(1000 << 20, 1000 << 20)
for moved in (Amount(), Amount(2 << 20), far):
    print(*[*usage([sys.argv[1]], "/nowhere", moved=moved, most=Amount(1, 1))][-1])
assert (os.geteuid(), os.getegid()) == (0, 0)
os.listdir("/root")
"""


@pytest.mark.usefixtures("as_root")
@pytest.mark.parametrize(
    ("program", "told"),
    [
        (HOLD.format(dumpable=1), 3 * f"{3 * MIB} 0\n"),
        (HOLD.format(dumpable=0), f"0 0\n{2 * MIB} 0\n{FAR.memory} {FAR.disk}\n"),
        (MAP, f"0 0\n{2 * MIB} 0\n{8 * MIB} 0\n"),
        (END_FIRST_THREAD, 3 * "0 0\n"),
    ],
    ids=["open", "hidden", "mapped", "ended"],
)
def test_root_without_power_over_processes_looks_as_their_user(program, told):
    holder = subprocess.Popen(
        ["setpriv", "--reuid=54321", "--regid=54321", "--clear-groups", "/usr/bin/python3", "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with holder:
        assert holder.stdout.readline() == b"ready\n"
        observer = subprocess.run(
            [
                "setpriv",
                "--bounding-set=-sys_ptrace,-sys_admin,-checkpoint_restore",
                sys.executable,
                "-c",
                OBSERVER,
                f"/proc/{holder.pid}",
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        holder.kill()
    assert (observer.stderr, observer.stdout) == ("", told)
