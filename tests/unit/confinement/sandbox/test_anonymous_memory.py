"""Files without a name count, whoever holds them and however, and others do not."""

import subprocess
import sys
from pathlib import Path

import pytest

from paddock.confinement.sandbox.child.anonymous_memory import AnonymousMemory, measure_in_slices, read_gauges

MIB = 1024 * 1024
FAR = AnonymousMemory(1000 * MIB, 1000 * MIB)
"""The gauges have moved far enough for anything to be believed."""
HOLDER = """
import array, ctypes, os, socket
MIB = 1024 * 1024
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
def memory_file():
    file = os.memfd_create("test")
    os.write(file, bytes(3 * MIB))
    return file
def removed(path):
    file = os.open(path, os.O_RDWR | os.O_CREAT)
    os.write(file, bytes(2 * MIB))
    os.fsync(file)
    os.unlink(path)
    return file
def mapped(file, size):
    assert libc.mmap(None, size, 1, 0x21 if file < 0 else 1, file, 0) != ctypes.c_void_p(-1).value
while True:
    exec(input())
    print("done", flush=True)
"""
"""A process that does what it is told, a line of Python at a time.

It stands alone: this process has what other tests left, such as the birth of a worker that nobody has heard of yet.
"""


def found(folder, *places, moved=AnonymousMemory()):  # noqa: B008 - a constant
    amounts = [*measure_in_slices(places, str(folder), moved=moved, limit=AnonymousMemory(MIB, MIB))]
    assert set(amounts[:-1]) <= {None}
    return amounts[-1]._replace(page_tables=0)


@pytest.fixture
def holder():
    process = subprocess.Popen(
        [sys.executable, "-I", "-c", HOLDER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with process:
        yield process
        process.kill()


@pytest.fixture
def place(holder):
    return f"/proc/{holder.pid}"


@pytest.fixture
def do(holder):
    def done(line):
        holder.stdin.write(f"{line}\n")
        holder.stdin.flush()
        assert holder.stdout.readline() == "done\n"

    return done


def test_memory_files_count_once_by_what_is_in_them(tmp_path, place, do):
    do("file = memory_file(); again = os.dup(file)")
    do("sparse = os.memfd_create('sparse'); os.ftruncate(sparse, 100 * MIB)")
    assert found(tmp_path, place, place) == AnonymousMemory(memory=3 * MIB)


def test_removed_files_of_scratch_count_while_they_are_open(tmp_path, place, do):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    do(f"file, elsewhere = removed({str(scratch / 'file')!r}), removed({str(tmp_path / 'other')!r})")
    do(f"kept = open({str(scratch / 'kept (deleted)')!r}, 'wb'); kept.write(bytes(MIB)); kept.flush()")
    assert found(scratch, place) == AnonymousMemory(disk=2 * MIB)
    do("os.close(file)")
    assert found(scratch, place) == AnonymousMemory()


def test_a_removed_file_that_has_another_name_is_not_counted_twice(tmp_path, place, do):
    (tmp_path / "a").write_bytes(bytes(MIB))
    (tmp_path / "b").hardlink_to(tmp_path / "a")
    do(f"file = open({str(tmp_path / 'a')!r})")
    (tmp_path / "a").unlink()
    assert found(tmp_path, place) == AnonymousMemory()


@pytest.mark.usefixtures("as_root")
def test_what_is_mapped_alone_counts_by_what_is_in_it_where_root_looks(tmp_path, place, do):
    do(
        f"mapped(-1, 800 * MIB); file = removed({str(tmp_path / 'file')!r}); mapped(file, 2 * MIB); os.close(file)"
    )
    assert (
        found(tmp_path, place) == AnonymousMemory()
    )  # nobody looks before a gauge says that there may be something
    assert found(tmp_path, place, moved=AnonymousMemory(2 * MIB)) == AnonymousMemory(disk=2 * MIB)


def test_what_is_open_and_mapped_counts_by_what_is_in_it(tmp_path, place, do):
    do("file = memory_file(); mapped(file, 3 * MIB)")
    assert found(tmp_path, place, moved=FAR) == AnonymousMemory(memory=3 * MIB)


def test_who_has_sent_what_nobody_has_taken_is_believed_to_have_what_came(tmp_path, place, do):
    do("file = memory_file(); here, there = socket.socketpair()")
    do("here.sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [file]))])")
    assert found(tmp_path, place) == AnonymousMemory(memory=3 * MIB)
    assert found(tmp_path, place, moved=FAR) == FAR
    do("there.recv(1)")
    assert found(tmp_path, place, moved=FAR) == AnonymousMemory(memory=3 * MIB)


def test_a_look_at_many_descriptors_pauses(tmp_path):
    program = "import os, sys\nfor _ in range(700): os.open('/dev/null', 0)\nprint('ready', flush=True)\nsys.stdin.read()"
    holder = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    with holder:
        assert holder.stdout.readline() == b"ready\n"
        place = f"/proc/{holder.pid}"
        *pauses, last = measure_in_slices(
            [place, place], str(tmp_path), moved=AnonymousMemory(), limit=AnonymousMemory(MIB, MIB)
        )
        tables = page_tables(place)
        holder.kill()
    assert (pauses, last) == ([None] * 4, AnonymousMemory(page_tables=2 * tables))


def page_tables(place):
    """Return what the kernel needs to map the memory of a process, by what it tells of it."""
    told = Path(place, "status").read_text().splitlines()
    return sum(int(line.split()[1]) * 1024 for line in told if line.startswith("VmPTE:"))


def test_tables_of_pages_count_where_nothing_is_in_the_pages(tmp_path, place, do):
    do("start = libc.mmap(None, 1 << 30, 1, 0x4022, -1, 0)")
    do("[ctypes.string_at(start + (each << 21), 1) for each in range(512)]")
    limits = AnonymousMemory(MIB, MIB)
    *_, last = measure_in_slices([place], str(tmp_path), moved=AnonymousMemory(), limit=limits)
    assert last.page_tables == page_tables(place) > 2 * MIB


def test_processes_that_are_gone_hold_nothing(tmp_path):
    assert found(tmp_path, "/proc/0", "/proc/0/task/0", moved=FAR) == AnonymousMemory()


def test_the_gauges_are_those_of_the_machine(tmp_path):
    shared = next(line for line in Path("/proc/meminfo").read_text().splitlines() if line[:6] == "Shmem:")
    assert read_gauges(str(tmp_path)).memory == pytest.approx(int(shared.split()[1]) * 1024, abs=64 * MIB)
    assert read_gauges(str(tmp_path)).disk > 0
    assert read_gauges("/nowhere").disk == 0
    assert AnonymousMemory(5, 1).since(AnonymousMemory(2, 3)) == AnonymousMemory(3, 0)
    assert AnonymousMemory(5, 1).lower(AnonymousMemory(2, 3)) == AnonymousMemory(2, 1)


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
from paddock.confinement.sandbox.child.anonymous_memory import AnonymousMemory, measure_in_slices
far = AnonymousMemory(1000 << 20, 1000 << 20)
for moved in (AnonymousMemory(), AnonymousMemory(2 << 20), far):
    print(*[*measure_in_slices([sys.argv[1]], "/nowhere", moved=moved, limit=AnonymousMemory(1, 1))][-1][:2])
print([*measure_in_slices([sys.argv[1]], "/nowhere", moved=far, limit=AnonymousMemory(1, 1))][-1].page_tables)
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
        tables = page_tables(f"/proc/{holder.pid}")
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
    assert (observer.stderr, observer.stdout) == ("", f"{told}{tables}\n")
