"""What the end of a job shows of the limits that it exceeded, although nothing ended it at that moment.

The supervisor samples, so that a job may exit between two samples. The kernel refuses to enlarge a file, or to load a
program whose data do not fit, and many runtimes turn that into an error of their own. Therefore the supervisor looks at
the peak, at the files that were left, and at the program's own file; the words of a program count for nothing here.
"""

import os
import signal
import stat
import struct
from collections.abc import Iterable

from paddock.confinement.sandbox.child.messages import JobReport, JobSpec

_SHIM_BYTES = 16 * 1024 * 1024
"""More than the memory of a shim, which the kernel counts as the peak of the program that it becomes."""
_MAX_ENTRIES = 10_000
"""Maximum number of directory entries to look at."""
_ENDED_BY_PROGRAM = frozenset({"exit", "wall", "cpu", "processes", "scratch", "stdout", "stderr"})
_ELF_HEADER, _SEGMENT = struct.Struct("<16x16xQ14xHH"), struct.Struct("<II32xQ8x")
"""e_phoff, e_phentsize and e_phnum; p_type, p_flags and p_memsz of a 64-bit file (elf(5))."""
_ELF_64, _LOAD, _WRITABLE = b"\x7fELF\x02\x01", 1, 2


def find_limit(spec: JobSpec, report: JobReport, *, is_file_full: bool = False) -> str:
    """Return the limit that a job exceeded, as `JobReport.ended_by` names it; "" if its end shows none.

    `is_file_full` says whether a file outside of its scratch is as large as a file may be.
    """
    ceilings = spec.ceilings
    if report.ended_by in _ENDED_BY_PROGRAM and report.peak_bytes > max(ceilings.memory_bytes, _SHIM_BYTES):
        return "memory"
    if report.ended_by != "exit" or report.code == 0:
        return ""
    if report.signal == signal.SIGSEGV and _count_data_bytes(spec.argv[0]) > 2 * ceilings.memory_bytes:
        return "memory"
    return "file_size" if is_file_full or has_full_file([spec.scratch], ceilings.file_bytes) else ""


def has_full_file(directories: Iterable[str], file_bytes: int) -> bool:
    """Return whether a file below `directories` is as large as a file may be: then a write was refused (write(2))."""
    pending, seen = [*directories], 0
    while pending:
        try:
            with os.scandir(pending.pop()) as entries:
                for entry in entries:
                    seen += 1
                    if seen > _MAX_ENTRIES:
                        return False
                    facts = entry.stat(follow_symlinks=False)
                    if stat.S_ISDIR(facts.st_mode):
                        pending.append(entry.path)
                    elif stat.S_ISREG(facts.st_mode) and facts.st_size >= file_bytes:
                        return True
        except OSError:  # too deep, or closed to us
            continue
    return False


def _count_data_bytes(path: str) -> int:
    """Return the size of a program's writable data when it is loaded, in bytes; 0 for what is no such file.

    The program may have replaced its own file by anything, to its own disadvantage.
    """
    try:
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return 0
    try:
        head = os.pread(file, _ELF_HEADER.size, 0) if stat.S_ISREG(os.fstat(file).st_mode) else b""
        if not head.startswith(_ELF_64):
            return 0
        offset, size, number = _ELF_HEADER.unpack(head)
        table = os.pread(file, size * number, offset)
        segments = (_SEGMENT.unpack_from(table, index * size) for index in range(number))
        return sum(held for kind, flags, held in segments if kind == _LOAD and flags & _WRITABLE)
    except (OSError, OverflowError, struct.error):
        return 0
    finally:
        os.close(file)
