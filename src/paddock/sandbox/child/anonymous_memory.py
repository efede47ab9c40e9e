"""What a job holds that no folder shows, and that no process need have in its memory: files without a name, and more.

What was removed lives on while it is open or mapped. Memory files (memfd_create(2), and what processes share without
any file) take memory, removed files of scratch take the disk. What is open counts by its blocks. What is mapped alone,
on its way through a socket, or held by who hides it from his user (PR_SET_DUMPABLE of prctl(2)) cannot be told so well.
It is looked for when the machine's own gauges have moved by more than the job may have, and believed as far as they
moved. What lies in sockets and pipes no file tells of: each counts as the most that it can hold, and all of them as far
as the machine has less memory to spare. What the kernel itself keeps for a job (tables of pages, mappings, locks on
files, what is watched) no limit of a process bounds. When the kernel holds much more than before, it is counted.
"""

import contextlib
import ctypes
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, TypeVar

_BLOCK_BYTES = 512
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_STEP, _SHORT_STEP = 500, 5
"""Descriptors that are looked at together, the second when each may have thousands of locks."""
_MEMORY_FILE_PREFIXES = ("/memfd:", "/dev/zero (deleted)")
"""How links and mappings call files that are memory and nothing else (proc_pid_maps(5))."""
_REMOVED_SUFFIX = " (deleted)"
_SOCKET, _PIPE = "socket:", "pipe:"
_PIPE_BYTES = 64 * 1024
"""As pipes are made (pipe(7)); no confined program enlarges one, and for all of one user the kernel has a bound."""
_IN_FLIGHT = re.compile(rb"^scm_fds:\s*[1-9]", re.MULTILINE)
"""Descriptors that were sent through a socket and not taken yet."""
_MAPPING_PATTERN = re.compile(
    rb"^([0-9a-f]+)-([0-9a-f]+) \S+ ([0-9a-f]+) ([0-9a-f]+):([0-9a-f]+) (\d+) +(/.*)$", re.MULTILINE
)
_GAUGES_PATTERN = re.compile(
    rb"^(Shmem|MemTotal|MemAvailable|SUnreclaim|PageTables):\s*(\d+) kB", re.MULTILINE
)
_FREE_LIST_PATTERN = re.compile(rb"^\s+count:\s*(\d+)", re.MULTILINE)
"""Pages that a processor keeps at hand (/proc/zoneinfo, in proc(5)), up to an eighth of a zone's. They are free, and no
gauge of /proc/meminfo says so: what a job takes of them would not be seen."""
_PAGE_TABLES_PATTERN = re.compile(rb"^VmPTE:\s*(\d+) kB", re.MULTILINE)
_OBJECT_BYTES = 256
"""What the kernel takes for a mapping, a lock on a file, a file that is open or watched; /proc has a line for each."""
_KERNEL_SHARE_DIVISOR = 4
"""Of what a job may have, the kernel may keep this part unseen: more, and everything is counted."""
_PIECE_BYTES = 64 * 1024
_DESCRIPTOR_SLOTS_PATTERN = re.compile(rb"^FDSize:\s*(\d+)", re.MULTILINE)
_LIBC = ctypes.CDLL(None, use_errno=True)

_FLAGS, _EXITING = 5, 4
"""Which field of /proc/<pid>/stat after the state (proc_pid_stat(5)), and PF_EXITING of the kernel in it."""

_T = TypeVar("_T")
_File = tuple[int, int]
"""Device and inode."""


class AnonymousMemory(NamedTuple):
    """Bytes of memory files, of files on the disk, of what lies in sockets and pipes, and of the kernel's own."""

    memory: int = 0
    disk: int = 0
    buffers: int = 0
    kernel: int = 0

    def since(self, earlier: "AnonymousMemory") -> "AnonymousMemory":
        """Return by how much this is more than `earlier`."""
        return AnonymousMemory(*(max(0, now - then) for now, then in zip(self, earlier, strict=True)))


def read_gauges(directory: str, *, buffers: bool = True) -> AnonymousMemory:
    """Return what this machine has in memory files, on the file system of a directory, and in memory altogether.

    The last one is what of it the kernel has for itself and cannot do without. 0 where it does not say. Without
    `buffers` it is not read how much memory is free, which takes most of the time.
    """
    memory = disk = taken = kernel = 0
    with contextlib.suppress(OSError):
        found = {
            name: int(number) * 1024 for name, number in _GAUGES_PATTERN.findall(_read_file("/proc/meminfo"))
        }
        memory = found.get(b"Shmem", 0)
        if buffers:
            taken = found.get(b"MemTotal", 0) - found.get(b"MemAvailable", 0) - _at_hand()
        kernel = found.get(b"SUnreclaim", 0) + found.get(b"PageTables", 0)
        facts = os.statvfs(directory)
        disk = (facts.f_blocks - facts.f_bfree) * facts.f_frsize
    return AnonymousMemory(memory, disk, taken, kernel)


def _at_hand() -> int:
    """Return the bytes of free pages that processors keep for themselves; 0 where the kernel does not say."""
    with contextlib.suppress(OSError):
        return sum(map(int, _FREE_LIST_PATTERN.findall(_read_file("/proc/zoneinfo")))) * _PAGE_BYTES
    return 0


def _most_in_socket() -> int:
    """Return the bytes that a unix socket takes at the most, unless it was enlarged: what fits, and what did not."""
    try:
        default = int(_read_file("/proc/sys/net/core/wmem_default"))
    except (OSError, ValueError):
        default = 212_992
    return default * 3 // 2


def measure_in_slices(
    places: Iterable[str], scratch: str, *, moved: AnonymousMemory, most: AnonymousMemory
) -> Iterator[AnonymousMemory | None]:
    """Yield None every few hundred descriptors, and in the end what processes hold.

    `places` are their folders below /proc, or those of one of their threads; of files those below `scratch` count, and
    those in memory. `moved` is by how much the gauges have moved since the job began, `most` what it may have.
    """
    of_kernel = moved.kernel > most.memory // _KERNEL_SHARE_DIVISOR
    thorough = of_kernel or moved.memory > most.memory or moved.disk > most.disk
    step = _SHORT_STEP if of_kernel else _STEP
    look = _ProcessScan(f"{scratch}/", thorough=thorough, of_kernel=of_kernel)
    for place in places:
        for thread in look.threads(place):
            numbers = look.descriptors(thread)
            while numbers:
                look.at(thread, numbers[:step])
                numbers = numbers[step:]
                if look.kernel > most.memory:
                    yield look.totals(moved)  # more than enough, and to count on takes seconds
                    return
                if look.is_due():
                    yield None
        if thorough:
            yield from look.at_mappings(place)
            yield None
    yield look.totals(moved)


class _ProcessScan:
    """One look at some processes."""

    def __init__(self, below: str, *, thorough: bool, of_kernel: bool) -> None:
        self._below = below
        self._thorough = thorough
        self._of_kernel = of_kernel
        self._open: dict[_File, AnonymousMemory] = {}
        self._mapped: dict[_File, AnonymousMemory] = {}
        self._buffers: dict[str, int] = {}
        self._hides = False
        self.kernel = 0
        """Bytes of the kernel's own that were found so far."""
        self._counted: set[tuple[str, str, int, int]] = set()
        self._seen = 0

    def is_due(self) -> bool:
        """Tell whether it is time for something else."""
        self._seen, due = self._seen % _STEP, self._seen >= _STEP
        return due

    def threads(self, place: str) -> list[str]:
        """Return where descriptors are to be looked for: a thread may have its own (CLONE_FILES of clone(2))."""
        if not self._thorough:
            return [place]
        tasks = f"{place.partition('/task')[0]}/task"
        return [f"{tasks}/{thread}" for thread in self._look_as_owner(tasks, lambda: os.listdir(tasks))]

    def descriptors(self, place: str) -> list[str]:
        """Return the descriptors of a process or thread; none when it is gone, or hides them."""
        hid, self._hides = self._hides, False
        numbers = self._look_as_owner(place, lambda: os.listdir(f"{place}/fd"))
        if self._hides:
            self._buffers[place] = _in_status(place, _DESCRIPTOR_SLOTS_PATTERN) * _SOCKET_BYTES
        self._hides |= hid
        return numbers

    def at(self, place: str, numbers: Sequence[str]) -> None:
        """Look at open files."""
        self._seen += len(numbers)
        self._look_as_owner(place, lambda: [self._at_file(place, number) for number in numbers])

    def _at_file(self, place: str, number: str) -> None:
        with contextlib.suppress(FileNotFoundError):  # it was closed meanwhile
            self._at_open_file(place, number)

    def _at_open_file(self, place: str, number: str) -> None:
        path = f"{place}/fd/{number}"
        name = os.readlink(path)
        if self._of_kernel:
            self._count_objects(place, number)
        if name.startswith((_SOCKET, _PIPE)):
            self._buffers[name] = _SOCKET_BYTES if name.startswith(_SOCKET) else _PIPE_BYTES
            if self._thorough and name.startswith(_SOCKET):
                self._hides |= _IN_FLIGHT.search(_read_file(f"{place}/fdinfo/{number}")) is not None
        elif name.startswith(_MEMORY_FILE_PREFIXES):
            facts = os.stat(path)
            self._open[facts.st_dev, facts.st_ino] = AnonymousMemory(memory=facts.st_blocks * _BLOCK_BYTES)
        elif name.startswith(self._below) and name.endswith(_REMOVED_SUFFIX):
            facts = os.stat(path)
            if not facts.st_nlink:  # else its folder shows it
                self._open[facts.st_dev, facts.st_ino] = AnonymousMemory(disk=facts.st_blocks * _BLOCK_BYTES)

    def _count_objects(self, place: str, number: str) -> None:
        """Count what the kernel keeps for an open file, once for all threads that share it."""
        facts = os.stat(f"{place}/fd/{number}")
        file = place.partition("/task")[0], number, facts.st_dev, facts.st_ino
        if file not in self._counted:
            self._counted.add(file)
            objects = _count_lines(f"{place}/fdinfo/{number}")
            self._seen += objects
            self.kernel += objects * _OBJECT_BYTES

    def at_mappings(self, place: str) -> Iterator[None]:
        """Look at what is mapped, some hundred files at a time, and at the tables for it.

        How much of one is there its blocks tell, which root alone may see (map_files, in proc(5)).
        """
        maps = self._look_as_owner(place, lambda: [_read_file(f"{place}/maps")])
        if self._of_kernel:
            self.kernel += _in_status(place, _PAGE_TABLES_PATTERN) * 1024
            self.kernel += sum(each.count(b"\n") for each in maps) * _OBJECT_BYTES
        for number, line in enumerate(_MAPPING_PATTERN.finditer(b"".join(maps)), 1):
            if number % _STEP == 0:
                yield
            first, end, offset, major, minor, inode, raw = line.groups()
            name = os.fsdecode(raw)
            in_memory = name.startswith(_MEMORY_FILE_PREFIXES)
            if not in_memory and not (name.startswith(self._below) and name.endswith(_REMOVED_SUFFIX)):
                continue
            file = os.makedev(int(major, 16), int(minor, 16)), int(inode)
            try:
                facts = os.stat(f"{place}/map_files/{first.decode()}-{end.decode()}")
                known, size = self._open, facts.st_blocks * _BLOCK_BYTES
            except OSError:
                known, size = self._mapped, int(end, 16) - int(first, 16) + int(offset, 16)
            amount = AnonymousMemory(memory=size) if in_memory else AnonymousMemory(disk=size)
            known[file] = max(amount, known.get(file, amount))

    def totals(self, moved: AnonymousMemory) -> AnonymousMemory:
        """Return what was found."""
        known = _sum(self._open.values())
        buffers = min(sum(self._buffers.values()), moved.buffers)
        hidden = moved.kernel if self._hides and self._of_kernel else 0
        kernel = max(self.kernel, hidden)
        if self._hides and self._thorough:
            return AnonymousMemory(
                max(known.memory, moved.memory), max(known.disk, moved.disk), buffers, kernel
            )
        more = _sum(amount for file, amount in self._mapped.items() if file not in self._open)
        memory, disk = min(more.memory, moved.memory), min(more.disk, moved.disk)
        return AnonymousMemory(known.memory + memory, known.disk + disk, buffers, kernel)

    def _look_as_owner(self, place: str, look: Callable[[], list[_T]]) -> list[_T]:
        """Return what `look` does with the rights of a process's user; nothing where it is gone, or hides.

        Root without CAP_SYS_PTRACE may not look into the processes of others (ptrace(2)).
        """
        user, group = os.geteuid(), os.getegid()
        try:
            if not user:
                facts = os.stat(place)
                _LIBC.setfsgid(facts.st_gid)
                _LIBC.setfsuid(facts.st_uid)
            return look()
        except PermissionError:
            self._hides |= not _is_ending(place)
        except OSError:
            pass
        finally:
            if not user:
                _LIBC.setfsuid(user)
                _LIBC.setfsgid(group)
        return []


def _is_ending(place: str) -> bool:
    """Tell whether a process or thread has ended or is about to: what is there of it is root's, and nothing."""
    try:
        state, *fields = _read_file(f"{place}/stat").rpartition(b")")[2].split()
        return state in {b"Z", b"X"} or bool(int(fields[_FLAGS]) & _EXITING)
    except OSError:
        return True


def _in_status(place: str, number: re.Pattern[bytes]) -> int:
    """Return a number that everybody may know of a process; 0 when it is gone."""
    with contextlib.suppress(OSError):
        found = number.search(_read_file(f"{place}/status"))
        return int(found[1]) if found else 0
    return 0


def _count_lines(path: str) -> int:
    """Return how many lines a file has, which may be millions. Raises OSError."""
    with open(path, "rb", buffering=0) as file:
        return sum(piece.count(b"\n") for piece in iter(lambda: file.read(_PIECE_BYTES), b""))


def _sum(amounts: Iterable[AnonymousMemory]) -> AnonymousMemory:
    memory = disk = 0
    for amount in amounts:
        memory, disk = memory + amount.memory, disk + amount.disk
    return AnonymousMemory(memory, disk)


def _read_file(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


_SOCKET_BYTES = _most_in_socket()
