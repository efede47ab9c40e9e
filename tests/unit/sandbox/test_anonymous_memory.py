"""Files without a name count, whoever holds them and however, and others do not."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from paddock.sandbox.child import anonymous_memory
from paddock.sandbox.child.anonymous_memory import AnonymousMemory, measure_in_slices, read_gauges

MIB = 1024 * 1024
OF_SOCKET = 3 * int(Path("/proc/sys/net/core/wmem_default").read_text()) // 2
OF_PIPE = 64 * 1024
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
    amounts = [*measure_in_slices(places, str(folder), moved=moved, most=AnonymousMemory(MIB, MIB))]
    assert set(amounts[:-1]) <= {None}
    return amounts[-1]


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
        amounts = [
            *measure_in_slices(
                [place, place], str(tmp_path), moved=AnonymousMemory(), most=AnonymousMemory(MIB, MIB)
            )
        ]
        holder.kill()
    assert amounts == [None, None, AnonymousMemory()]


def room_in_buffers(place, *, hidden=False):
    """Return what sockets and pipes of a process can hold; of one that hides them, what it could have open."""
    if hidden:
        status = Path(place, "status").read_text().splitlines()
        return int(next(line for line in status if line.startswith("FDSize:")).split()[1]) * OF_SOCKET
    try:
        names = {str(file.readlink()) for file in Path(place, "fd").iterdir()}
    except FileNotFoundError:  # its first thread has ended
        return 0
    sizes = {"socket": OF_SOCKET, "pipe": OF_PIPE}
    return sum(sizes.get(name.partition(":")[0], 0) for name in names)


def test_sockets_and_pipes_count_as_what_they_can_hold_as_far_as_memory_went(tmp_path, place, do):
    before = room_in_buffers(place)
    do(
        "pairs = [socket.socketpair() for _ in range(10)]; again = os.dup(pairs[0][0].fileno()); pipe = os.pipe()"
    )
    room = before + 20 * OF_SOCKET + OF_PIPE
    assert room_in_buffers(place) == room
    assert found(tmp_path, place, place, moved=AnonymousMemory(buffers=1000 * MIB)) == AnonymousMemory(
        buffers=room
    )
    assert found(tmp_path, place, moved=AnonymousMemory(buffers=100)) == AnonymousMemory(buffers=100)
    assert found(tmp_path, place) == AnonymousMemory()


def kernels(place):
    """Return what the kernel keeps for a process, by what it tells of it."""
    told = Path(place, "status").read_text().splitlines()
    tables = sum(int(line.split()[1]) * 1024 for line in told if line.startswith("VmPTE:"))
    lives = max(Path(place, "task").iterdir())  # its first thread may have ended
    files = Path(place, "maps"), *Path(lives, "fdinfo").iterdir()
    return tables + 256 * sum(file.read_bytes().count(b"\n") for file in files)


def test_processes_that_are_gone_hold_nothing(tmp_path):
    assert found(tmp_path, "/proc/0", "/proc/0/task/0", moved=FAR) == AnonymousMemory()


ZONES = b"""\
Node 0, zone   Normal
  pages free     4961226
        cpu: 0
              count:    10
              high:     12538
        cpu: 1
              count:    2
Node 1, zone   Normal
        cpu: 0
              count:    3
"""


@pytest.mark.parametrize(("zones", "at_hand"), [(ZONES, 15), (None, 0)])
def test_pages_that_processors_keep_at_hand_are_free(monkeypatch, zones, at_hand):
    texts = {"/proc/meminfo": b"MemTotal:   9000 kB\nMemAvailable:   5000 kB\n", "/proc/zoneinfo": zones}

    def read(path):
        if texts[path] is None:
            raise PermissionError
        return texts[path]

    monkeypatch.setattr(anonymous_memory, "_read_file", read)
    page = os.sysconf("SC_PAGE_SIZE")
    assert read_gauges("/nowhere") == AnonymousMemory(buffers=4000 * 1024 - at_hand * page)


def test_the_gauges_are_those_of_the_machine(tmp_path):
    shared = next(line for line in Path("/proc/meminfo").read_text().splitlines() if line[:6] == "Shmem:")
    assert read_gauges(str(tmp_path)).memory == pytest.approx(int(shared.split()[1]) * 1024, abs=64 * MIB)
    assert read_gauges(str(tmp_path)).disk > 0
    assert read_gauges("/nowhere").disk == 0
    assert AnonymousMemory(5, 1).since(AnonymousMemory(2, 3)) == AnonymousMemory(3, 0)


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
from paddock.sandbox.child import anonymous_memory
from paddock.sandbox.child.anonymous_memory import AnonymousMemory, measure_in_slices
far = AnonymousMemory(1000 << 20, 1000 << 20)
for moved in (AnonymousMemory(), AnonymousMemory(2 << 20), far):
    print(*[*measure_in_slices([sys.argv[1]], "/nowhere", moved=moved, most=AnonymousMemory(1, 1))][-1][:2])
print([*measure_in_slices([sys.argv[1]], "/nowhere", moved=AnonymousMemory(buffers=1000 << 20), most=AnonymousMemory(1, 1))][-1].buffers)
print([*measure_in_slices([sys.argv[1]], "/nowhere", moved=AnonymousMemory(kernel=50 << 20), most=AnonymousMemory(8 << 20))][-1].kernel)
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
        hidden = "prctl(4, 0" in program
        place = f"/proc/{holder.pid}"
        buffers = room_in_buffers(place, hidden=hidden)
        kernel = 50 * MIB if hidden else kernels(place)
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
    assert (observer.stderr, observer.stdout) == ("", f"{told}{buffers}\n{kernel}\n")


NOTICED = AnonymousMemory(kernel=MIB)
"""The kernel has taken more than a quarter of what the job may have."""


def test_what_the_kernel_keeps_is_counted_once_it_is_much(tmp_path, place, do):
    before = kernels(place)
    do(f"file = os.open({str(tmp_path / 'file')!r}, os.O_RDWR | os.O_CREAT)")
    do("import fcntl; [fcntl.lockf(file, fcntl.LOCK_EX, 1, 2 * each) for each in range(1000)]")
    do("import select; waiting = select.epoll(); [waiting.register(os.dup(0)) for _ in range(20)]")
    kept = kernels(place)
    assert 1020 * 256 < kept - before < MIB
    assert found(tmp_path, place) == AnonymousMemory()
    assert found(tmp_path, place, moved=NOTICED) == AnonymousMemory(kernel=kept)


def test_tables_of_pages_count_where_nothing_is_in_the_pages(tmp_path, place, do):
    do("start = libc.mmap(None, 1 << 30, 1, 0x4022, -1, 0)")
    do("[ctypes.string_at(start + (each << 21), 1) for each in range(512)]")
    assert found(tmp_path, place, moved=NOTICED).kernel == kernels(place) > 2 * MIB


def test_threads_that_share_their_files_count_them_once(tmp_path, place, do):
    do("import threading; waiting = [threading.Event() for _ in range(4)]")
    do("[threading.Thread(target=each.wait, daemon=True).start() for each in waiting]")
    assert found(tmp_path, place, moved=NOTICED).kernel == kernels(place)


def test_counting_ends_with_what_is_too_much(tmp_path, place, do):
    do(f"file = os.open({str(tmp_path / 'file')!r}, os.O_RDWR | os.O_CREAT)")
    do("import fcntl; [fcntl.lockf(file, fcntl.LOCK_EX, 1, 2 * each) for each in range(5000)]")
    amounts = [*measure_in_slices([place] * 50, str(tmp_path), moved=NOTICED, most=AnonymousMemory(MIB, MIB))]
    assert amounts[-1].kernel > MIB
