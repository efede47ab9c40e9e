"""Memory and disk that a job holds outside of its address space: memory files, deleted files, and page tables.

A removed file exists as long as it is open or mapped. Memory files (memfd_create(2), and memory that processes share
without a file) use memory; removed files in scratch use the disk. An open file counts with its blocks. Three kinds of
files cannot be measured so exactly: mapped but not open, in flight through a socket, and held by a process that hides
from its user (PR_SET_DUMPABLE of prctl(2)). They are searched for when the machine's own gauges have increased by more
than the job's limit since they were lowest during the job, and count up to that increase. Page tables count as each
process reports them. Data in sockets and pipes, and other kernel memory of a job, is counted only by a control group
(cgroup v2).
"""

import contextlib
import ctypes
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, TypeVar

from paddock.confinement.sandbox.child import scratch
from paddock.confinement.sandbox.child.messages import Ceilings
from paddock.confinement.sandbox.child.process_tree import Process
from paddock.confinement.sandbox.child.system_calls import LIBC, check_result, read_file

_BLOCK_BYTES = 512
_STEP = 500
"""Number of descriptors in one step of a scan."""
_MEMORY_FILE_PREFIXES = ("/memfd:", "/dev/zero (deleted)")
"""Names of memory files in links and mappings (proc_pid_maps(5))."""
_REMOVED_SUFFIX = " (deleted)"
_SOCKET = "socket:"
_IN_FLIGHT = re.compile(rb"^scm_fds:\s*[1-9]", re.MULTILINE)
"""Number of descriptors that were sent through a socket and not yet received."""
_MAPPING_PATTERN = re.compile(
    rb"^([0-9a-f]+)-([0-9a-f]+) \S+ ([0-9a-f]+) ([0-9a-f]+):([0-9a-f]+) (\d+) +(/.*)$", re.MULTILINE
)
_PAGE_TABLES_PATTERN = re.compile(rb"^VmPTE:\s*(\d+) kB", re.MULTILINE)
_EVERY_S = 0.1
"""Pause between two measurements of scratch, or of anonymous memory, in seconds."""
_SLICE_S = 0.005
"""Maximum time of one slice of measuring anonymous memory, in seconds."""


class _SystemInfo(ctypes.Structure):
    """Source: sysinfo(2)."""

    _fields_ = (
        *((name, ctypes.c_ulong) for name in ("uptime", "load1", "load5", "load15", "totalram", "freeram")),
        *((name, ctypes.c_ulong) for name in ("sharedram", "bufferram", "totalswap", "freeswap")),
        *(("processes", ctypes.c_ushort), ("totalhigh", ctypes.c_ulong), ("freehigh", ctypes.c_ulong)),
        *(("mem_unit", ctypes.c_uint), ("padding", ctypes.c_ulong)),
    )


_SYSTEM = _SystemInfo()
"""Filled by each call, because a sample need not make another one."""
_SYSTEM_POINTER = ctypes.byref(_SYSTEM)

_FLAGS, _EXITING = 5, 4
"""Which field of /proc/<pid>/stat after the state (proc_pid_stat(5)), and PF_EXITING of the kernel in it."""

_T = TypeVar("_T")
_File = tuple[int, int]
"""Device and inode."""


class AnonymousMemory(NamedTuple):
    """Bytes of memory files, of files on the disk, and of page tables."""

    memory: int = 0
    disk: int = 0
    page_tables: int = 0

    def since(self, earlier: "AnonymousMemory") -> "AnonymousMemory":
        """Return the increase since `earlier`."""
        return AnonymousMemory(*(max(0, now - then) for now, then in zip(self, earlier, strict=True)))

    def lower(self, other: "AnonymousMemory") -> "AnonymousMemory":
        """Return the lower number of each kind."""
        return AnonymousMemory(*map(min, self, other))


def read_gauges(directory: str) -> AnonymousMemory:
    """Return the use of memory files on this machine, and of a directory's file system; 0 where it is unknown."""
    memory = disk = 0
    with contextlib.suppress(OSError):
        # As in /proc/meminfo, which takes ten times as long to read.
        check_result("sysinfo", LIBC.sysinfo(_SYSTEM_POINTER))
        memory = _SYSTEM.sharedram * _SYSTEM.mem_unit
        facts = os.statvfs(directory)
        disk = (facts.f_blocks - facts.f_bfree) * facts.f_frsize
    return AnonymousMemory(memory, disk)


def measure_in_slices(
    folders: Iterable[str],
    directory: str,
    overlays: Sequence[str] = (),
    *,
    moved: AnonymousMemory,
    limit: AnonymousMemory,
) -> Iterator[AnonymousMemory | None]:
    """Yield None every few hundred descriptors, and in the end what processes hold.

    `folders` are their folders below /proc, or those of one of their threads. Of files, those below `directory` count,
    and those in memory. Removed ones in `overlays` may be of the lower directories: they count up to what has `moved`.
    That is by how much the gauges have moved since the job began, and `limit` its maximum.
    """
    thorough = moved.memory > limit.memory or moved.disk > limit.disk
    look = _ProcessScan(f"{directory}/", tuple(f"{each}/" for each in overlays), thorough=thorough)
    for folder in folders:
        look.count_page_tables(folder)
        for thread in look.threads(folder):
            numbers = look.descriptors(thread)
            for start in range(0, len(numbers), _STEP):
                look.at(thread, numbers[start : start + _STEP])
                yield None
        if thorough:
            yield from look.at_mappings(folder)
            yield None
    yield look.totals(moved)


class _ProcessScan:
    """One scan of some processes."""

    def __init__(self, below: str, overlays: tuple[str, ...], *, thorough: bool) -> None:
        self._below = below
        self._overlays = overlays
        self._thorough = thorough
        self._open: dict[_File, AnonymousMemory] = {}
        self._mapped: dict[_File, AnonymousMemory] = {}
        self._page_tables = 0
        self._hides = False

    def count_page_tables(self, folder: str) -> None:
        """Count the page tables of a process, which it cannot hide. Does nothing if the process has ended."""
        with contextlib.suppress(OSError):
            self._page_tables += _find_kib(_PAGE_TABLES_PATTERN, f"{folder}/status")

    def threads(self, folder: str) -> list[str]:
        """Return the /proc folders whose descriptors count: a thread may have its own (CLONE_FILES of clone(2))."""
        if not self._thorough:
            return [folder]
        tasks = f"{folder.partition('/task')[0]}/task"
        return [f"{tasks}/{thread}" for thread in self._look_as_owner(tasks, lambda: os.listdir(tasks))]

    def descriptors(self, folder: str) -> list[str]:
        """Return the descriptors of a process or thread; none if it has ended or hides them."""
        return self._look_as_owner(folder, lambda: os.listdir(f"{folder}/fd"))

    def at(self, folder: str, numbers: Sequence[str]) -> None:
        """Count open files."""
        self._look_as_owner(folder, lambda: [self._at_file(folder, number) for number in numbers])

    def _at_file(self, folder: str, number: str) -> None:
        path = f"{folder}/fd/{number}"
        with contextlib.suppress(FileNotFoundError):  # it has been closed
            name = os.readlink(path)
            if name.startswith(_SOCKET):
                if self._thorough:
                    self._hides |= _IN_FLIGHT.search(read_file(f"{folder}/fdinfo/{number}")) is not None
            elif name.startswith(_MEMORY_FILE_PREFIXES):
                facts = os.stat(path)
                self._open[facts.st_dev, facts.st_ino] = AnonymousMemory(
                    memory=facts.st_blocks * _BLOCK_BYTES
                )
            elif name.startswith(self._below) and name.endswith(_REMOVED_SUFFIX):
                facts = os.stat(path)
                if not facts.st_nlink:  # otherwise the walk of its folder counts it
                    self._open[facts.st_dev, facts.st_ino] = AnonymousMemory(
                        disk=facts.st_blocks * _BLOCK_BYTES
                    )
            elif name.startswith(self._overlays) and name.endswith(_REMOVED_SUFFIX):
                facts = os.stat(path)
                self._mapped[facts.st_dev, facts.st_ino] = AnonymousMemory(
                    disk=facts.st_blocks * _BLOCK_BYTES
                )

    def at_mappings(self, folder: str) -> Iterator[None]:
        """Count mapped files, a few hundred at a time.

        The number of blocks of a mapped file is visible only to root (map_files, in proc(5)).
        """
        maps = self._look_as_owner(folder, lambda: [read_file(f"{folder}/maps")])
        for number, line in enumerate(_MAPPING_PATTERN.finditer(b"".join(maps)), 1):
            if number % _STEP == 0:
                yield
            first, end, offset, major, minor, inode, raw = line.groups()
            name = os.fsdecode(raw)
            in_memory = name.startswith(_MEMORY_FILE_PREFIXES)
            below = name.startswith((self._below, *self._overlays))
            if not in_memory and not (below and name.endswith(_REMOVED_SUFFIX)):
                continue
            file = os.makedev(int(major, 16), int(minor, 16)), int(inode)
            try:
                facts = os.stat(f"{folder}/map_files/{first.decode()}-{end.decode()}")
                known, size = self._open, facts.st_blocks * _BLOCK_BYTES
            except OSError:
                known, size = self._mapped, int(end, 16) - int(first, 16) + int(offset, 16)
            amount = AnonymousMemory(memory=size) if in_memory else AnonymousMemory(disk=size)
            known[file] = max(amount, known.get(file, amount))

    def totals(self, moved: AnonymousMemory) -> AnonymousMemory:
        """Return the totals of the scan."""
        known = _sum(self._open.values())
        if self._hides and self._thorough:
            known = AnonymousMemory(max(known.memory, moved.memory), max(known.disk, moved.disk))
        else:
            more = _sum(amount for file, amount in self._mapped.items() if file not in self._open)
            memory, disk = min(more.memory, moved.memory), min(more.disk, moved.disk)
            known = AnonymousMemory(known.memory + memory, known.disk + disk)
        return known._replace(page_tables=self._page_tables)

    def _look_as_owner(self, folder: str, look: Callable[[], list[_T]]) -> list[_T]:
        """Return the result of `look` with the rights of the process's user; nothing if the process has ended or hides.

        Root without CAP_SYS_PTRACE may not look into the processes of others (ptrace(2)).
        """
        user, group = os.geteuid(), os.getegid()
        try:
            if not user:
                facts = os.stat(folder)
                LIBC.setfsgid(facts.st_gid)
                LIBC.setfsuid(facts.st_uid)
            return look()
        except PermissionError:
            self._hides |= not _is_ending(folder)
        except OSError:
            pass
        finally:
            if not user:
                LIBC.setfsuid(user)
                LIBC.setfsgid(group)
        return []


def _is_ending(folder: str) -> bool:
    """Return whether a process or thread has ended or is about to end: its /proc folder then belongs to root."""
    try:
        state, *fields = read_file(f"{folder}/stat").rpartition(b")")[2].split()
        return state in {b"Z", b"X"} or bool(int(fields[_FLAGS]) & _EXITING)
    except OSError:
        return True


def _find_kib(number: re.Pattern[bytes], path: str) -> int:
    """Return a number of KiB in a file, in bytes; 0 if the file does not contain it. Raises OSError."""
    found = number.search(read_file(path))
    return int(found[1]) * 1024 if found else 0


def _sum(amounts: Iterable[AnonymousMemory]) -> AnonymousMemory:
    memory = disk = 0
    for amount in amounts:
        memory, disk = memory + amount.memory, disk + amount.disk
    return AnonymousMemory(memory, disk)


class StorageMeter:
    """Measures the files in scratch and the anonymous memory of a job, each at most every tenth of a second.

    It does so in short slices that delay no deadline.
    """

    def __init__(self, folder: str, overlays: Sequence[str] = ()) -> None:
        """Measure a job whose scratch is `folder`, and which writes to `overlays` of these directories."""
        self._folder = folder
        self._overlays = overlays
        self._scratch_walk = scratch.measure_in_slices(folder)
        self._scratch_due = 0.0
        self._scratch_bytes = 0
        self._walk: Iterator[AnonymousMemory | None] = iter(())
        self._due = 0.0
        self.anonymous = AnonymousMemory()
        """What the last complete measurement found."""
        self._lowest_gauges = AnonymousMemory()
        """The lowest values of the machine's gauges since the job began: what others release hides nothing of it."""

    def begin(self) -> None:
        """Read the machine's gauges before the job starts."""
        self._lowest_gauges = read_gauges(self._folder)

    def sample_memory(self, processes: Sequence[Process], ceilings: Ceilings) -> bool:
        """Continue measuring anonymous memory for a few milliseconds; return whether it is unfinished."""
        now, gauges = time.monotonic(), read_gauges(self._folder)
        self._lowest_gauges = self._lowest_gauges.lower(gauges)
        if now < self._due:
            return False
        try:
            while (found := next(self._walk)) is None and time.monotonic() < now + _SLICE_S:
                pass
        except StopIteration:
            self._walk = measure_in_slices(
                [process.folder for process in processes],
                self._folder,
                self._overlays,
                moved=gauges.since(self._lowest_gauges),
                limit=AnonymousMemory(ceilings.memory_bytes, ceilings.scratch_bytes),
            )
            return False
        if found is not None:
            self.anonymous, self._due = found, now + _EVERY_S
        return found is None

    def measure_disk(self) -> int:
        """Continue measuring scratch by one step; return its bytes as known, with those of removed files."""
        now = time.monotonic()
        if now >= self._scratch_due:
            try:
                total = next(self._scratch_walk)
            except StopIteration:
                self._scratch_walk, total = scratch.measure_in_slices(self._folder), None
            if total is not None:
                self._scratch_bytes, self._scratch_due = total, now + _EVERY_S
        return self._scratch_bytes + self.anonymous.disk
