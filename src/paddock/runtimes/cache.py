"""Compiled programs by what they were made of: source, toolchain, command. Jobs never see the cache.

A compile step sees neither workspace nor network, so its result depends on nothing that is not in the key. What a job
gets is a copy, or a second name for a file that it cannot change (`safe_copy`). An entry appears by one
rename, complete, named by its checksum, and is never changed; so any number of processes may share a directory.

To look at thousands of entries takes longer than many a compiler. So whoever adds one looks by chance, the more likely
the larger it is, and then the entries used longest ago go, down to less than the bound: it is kept, but for bad luck.
"""

import contextlib
import hashlib
import os
import stat
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import random
from typing import NamedTuple

from paddock.files import is_ours, make_private
from paddock.model.canonical import canonical
from paddock.model.limits import MIB
from paddock.runtimes import safe_copy
from paddock.sandbox.child import scratch

_PROGRAM = "program"
_MAX_SEEN = 4096
"""Programs that a process knows to be whole; with more it looks at all of them anew."""
_MAX_QUICK_COPY_BYTES = 2 * MIB
"""So much is copied in less time than another thread takes to begin."""
_SWEEPS_PER_CAPACITY = 64
"""How often all entries are looked at, on average, while programs of the size of the bound are added."""
_NOTED_S = 60.0
"""Which programs were used last is known as exactly as that, in seconds."""
_STAGING = ".new-"
_FORMAT_VERSION = 5
"""Part of every key; another layout or another way of compiling is another number."""


def key(
    runtime: str,
    toolchain: str,
    command: Sequence[str],
    environment: Mapping[str, str],
    files: Mapping[str, str],
) -> str:
    """Return the name of a compiled program: SHA-256 (hex) over all that makes it what it is."""
    parts = (_FORMAT_VERSION, runtime, toolchain, command, environment, files)
    return hashlib.sha256(canonical(parts)).hexdigest()


class Cache:
    """Compiled programs below a directory of this user, at most `most` bytes of them; 0 keeps nothing."""

    def __init__(self, directory: Path, most: int) -> None:
        self._directory = directory
        self._most = most
        self._left = most - most // 8
        """Bytes that a look at all entries leaves."""
        self._seen: dict[str, _Seen] = {}

    def is_quick(self, name: str) -> bool:
        """Tell whether a program was whole when this process looked, and is small enough to be taken at once."""
        return name in self._seen and self._seen[name].size <= _MAX_QUICK_COPY_BYTES

    def take(self, name: str, target: safe_copy.StrPath, *, owner: int | None) -> bool:
        """Put the program of that key at `target`; tell whether there was one. Whoever removes it meanwhile wins."""
        entry, made = f"{self._directory}/{name}", os.fspath(target)
        if not is_ours(self._directory):
            return False
        try:
            seen = self._seen.get(name)
            [kept] = os.listdir(entry) if seen is None else [seen.kept]
            program = f"{entry}/{kept}"
            facts = _stat_facts(program)
            known = seen is not None and seen.facts is not None and seen.facts == facts
            copied = safe_copy.lend(program, made, owner=owner, checked=not known)
            if known or copied.checksum == kept:
                now = time.monotonic()
                if seen is None or not known or now - seen.noted > _NOTED_S:
                    os.utime(entry)
                    self._note_seen(name, _Seen(kept, copied.size, facts, now))
                return True
        except FileNotFoundError:
            _remove_entry(Path(made))
            # Another process may have removed it, and made it anew: then it can be called something else.
            return self._seen.pop(name, None) is not None and self.take(name, target, owner=owner)
        except (OSError, ValueError):
            pass
        _remove_entry(Path(made))
        _remove_entry(Path(entry))  # it is damaged, and the next one takes its place
        return False

    def keep(self, name: str, program: safe_copy.StrPath) -> None:
        """Keep a program for the next time, unless that is impossible: a full disk costs nobody his result.

        Raises TreeError.
        """
        if not self._most:
            return
        with contextlib.suppress(OSError):
            make_private(self._directory)
            if not is_ours(self._directory):
                return
            staging = Path(tempfile.mkdtemp(prefix=_STAGING, dir=self._directory))
            try:
                copied = safe_copy.keep(program, staging / _PROGRAM)
                if copied.size <= self._left:
                    (staging / _PROGRAM).rename(staging / copied.checksum)
                    staging.rename(self._directory / name)
                    facts = _stat_facts(f"{self._directory}/{name}/{copied.checksum}")
                    self._note_seen(name, _Seen(copied.checksum, copied.size, facts, time.monotonic()))
            finally:
                _remove_entry(staging)
            if random() * self._most < copied.size * _SWEEPS_PER_CAPACITY:  # noqa: S311 - nobody gains by guessing it
                self._make_room()

    def _note_seen(self, name: str, seen: "_Seen") -> None:
        if len(self._seen) >= _MAX_SEEN:
            self._seen.clear()
        self._seen[name] = seen

    def _make_room(self) -> None:
        """Remove the entries used longest ago, and what writers that died have left, until the rest fits."""
        entries: list[tuple[float, int, Path]] = []
        for entry in self._directory.iterdir():
            with contextlib.suppress(OSError):
                entries.append((entry.stat().st_mtime, _entry_bytes(entry), entry))
        total = 0
        for _, size, entry in sorted(entries, reverse=True):
            total += size
            if total > self._left:
                _remove_entry(entry)


class _Seen(NamedTuple):
    """A kept program that was whole when this process looked."""

    kept: str
    """What it is called: its checksum."""
    size: int
    """Bytes."""
    facts: tuple[int, ...] | None
    """What changes when the file does (stat(2)) but not with its names; None for a directory, looked at each time."""
    noted: float
    """When its use was noted last; seconds of `time.monotonic`."""


def _stat_facts(program: str) -> tuple[int, ...] | None:
    facts = os.lstat(program)
    if stat.S_ISDIR(facts.st_mode):
        return None
    return facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns


def _entry_bytes(entry: Path) -> int:
    """Return the bytes of an entry, however deep its folders are. Raises OSError."""
    total, pending = 0, [os.fspath(entry)]
    while pending:
        path = pending.pop()
        facts = os.lstat(path)
        if stat.S_ISDIR(facts.st_mode):
            pending += [f"{path}/{name}" for name in os.listdir(path)]
        else:
            total += facts.st_size
    return total


def _remove_entry(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        with contextlib.suppress(OSError):
            scratch.remove_directory(os.fspath(path))
    else:
        path.unlink(missing_ok=True)
