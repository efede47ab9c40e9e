"""A cache of compiled programs by source, toolchain and command. Programs cannot access it.

A compile step sees neither workspace nor network, so that its result depends only on the key. The one of a session's
driver may read the workspace, but nothing of it reaches its result (`RuntimeEngine`). A program gets a copy, or a hard
link to a file that it cannot change (`safe_copy`). An entry appears complete by one rename, its program is named
by its checksum, and it is never changed. Therefore any number of processes may share a directory.

Examining thousands of entries takes longer than some compilers. Therefore adding an entry sweeps only at random, with a
probability that grows with its size. A sweep removes the least recently used entries until the rest is well below the
bound. The cache may exceed the bound between two sweeps.
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

from paddock.confinement.sandbox.child import scratch
from paddock.engines.programs import safe_copy
from paddock.foundation.files import is_ours, make_private
from paddock.model.canonical import canonical
from paddock.model.limits import MIB

_PROGRAM = "program"
_MAX_SEEN = 4096
"""Maximum programs that a process remembers as undamaged; with more it forgets and checks all of them again."""
_MAX_QUICK_COPY_BYTES = 2 * MIB
"""Maximum size that is copied faster than another thread would start."""
_SWEEPS_PER_CAPACITY = 64
"""Average number of sweeps while programs of the bound's total size are added."""
_NOTED_S = 60.0
"""Precision of the time of last use, in seconds."""
_STAGING = ".new-"
_FORMAT_VERSION = 5
"""Part of every key; another layout or another way of compiling needs another number."""


def key(
    runtime: str,
    toolchain: str,
    command: Sequence[str],
    environment: Mapping[str, str],
    files: Mapping[str, str],
    *,
    user: str = "",
) -> str:
    """Return the name of a compiled program: SHA-256 (hex) over everything that its content depends on.

    With a `user`, it is for that one alone: whether a program is there says who compiled it.
    """
    parts = (_FORMAT_VERSION, runtime, toolchain, command, environment, files, *([user] if user else []))
    return hashlib.sha256(canonical(parts)).hexdigest()


class Cache:
    """Compiled programs in a directory of this user, of at most `max_bytes`; 0 stores nothing."""

    def __init__(self, directory: Path, max_bytes: int, user: str = "") -> None:
        """Keep them apart from those of other users of a server, if there is a `user`."""
        self.user = user
        self._directory = directory
        self._most = max_bytes
        self._left = max_bytes - max_bytes // 8
        """Maximum bytes that a sweep leaves."""
        self._seen: dict[str, _Seen] = {}

    def is_quick(self, name: str) -> bool:
        """Return whether this process found a program undamaged, and it is small enough to be copied at once."""
        return name in self._seen and self._seen[name].size <= _MAX_QUICK_COPY_BYTES

    def take(self, name: str, target: safe_copy.StrPath, *, owner: int | None) -> bool:
        """Put the program of a key at `target`; return whether there was one. Another process may remove it."""
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
            # Another process may have removed it and made it again, with another checksum as its name.
            return self._seen.pop(name, None) is not None and self.take(name, target, owner=owner)
        except (OSError, ValueError):
            pass
        _remove_entry(Path(made))
        _remove_entry(Path(entry))  # it is damaged and will be made again
        return False

    def keep(self, name: str, program: safe_copy.StrPath) -> None:
        """Store a program. Ignores failures, such as a full disk. Raises SafeCopyError."""
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
            if random() * self._most < copied.size * _SWEEPS_PER_CAPACITY:  # noqa: S311 - guessing it has no advantage
                self._make_room()

    def _note_seen(self, name: str, seen: "_Seen") -> None:
        if len(self._seen) >= _MAX_SEEN:
            self._seen.clear()
        self._seen[name] = seen

    def _make_room(self) -> None:
        """Remove the least recently used entries, and staging folders of dead writers, until the rest fits."""
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
    """A stored program that this process found undamaged."""

    kept: str
    """Its file name, which is its checksum."""
    size: int
    """Bytes."""
    facts: tuple[int, ...] | None
    """Facts that change with the file's content (stat(2)); None for a directory, which is checked each time."""
    noted: float
    """When its use was last recorded; seconds of `time.monotonic`."""


def _stat_facts(program: str) -> tuple[int, ...] | None:
    facts = os.lstat(program)
    if stat.S_ISDIR(facts.st_mode):
        return None
    return facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns


def _entry_bytes(entry: Path) -> int:
    """Return the size of an entry, of any depth. Raises OSError."""
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
