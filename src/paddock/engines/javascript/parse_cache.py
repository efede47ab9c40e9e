"""Cache the parser's answers for later processes of the same user, so that a known script is not parsed again.

The name of an entry is the SHA-256 of the text and of the parser's version. An entry appears by one rename and is never
changed. It is checked like a fresh answer. This module imports little, because the command line uses it first.
"""

import contextlib
import hashlib
import os
import tempfile
from pathlib import Path

from platformdirs import user_cache_path

from paddock.foundation.files import is_ours, make_private
from paddock.foundation.own_files import read_own

_NEW_PREFIX = ".new-"
_ANSWER_BYTES = 1024 * 1024
_MAX_ENTRIES = 512


def find_directory() -> Path:
    """Return the directory of this user's cache."""
    return user_cache_path("paddock") / "intake"


class ParseCache:
    """Answers of the parser in a directory of this user: the 512 most recent ones, of at most 1 MiB each."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._reader = _identify_parser()

    def has(self, source: str, language: str) -> bool:
        """Return whether there is an entry, without reading it."""
        return is_ours(self._directory) and self.find_entry(source, language).is_file()

    def look_up(self, source: str, language: str) -> bytes | None:
        """Return the cached answer for `source`; None without one."""
        if not is_ours(self._directory):
            return None
        try:
            entry = self.find_entry(source, language)
            answer = read_own(entry, _ANSWER_BYTES)
            os.utime(entry)
        except OSError:
            return None
        return answer

    def store(self, source: str, language: str, answer: bytes) -> None:
        """Store an answer. Ignores failures, such as a full disk."""
        if len(answer) > _ANSWER_BYTES:
            return
        with contextlib.suppress(OSError):
            make_private(self._directory)
            if not is_ours(self._directory):
                return
            handle, new = tempfile.mkstemp(prefix=_NEW_PREFIX, dir=self._directory)
            try:
                with open(handle, "wb") as file:
                    file.write(answer)
                Path(new).replace(self.find_entry(source, language))
            finally:
                Path(new).unlink(missing_ok=True)
            self._make_room()

    def find_entry(self, source: str, language: str) -> Path:
        text = source.encode("utf-8", "surrogatepass")
        name = hashlib.sha256(b"\0".join([self._reader, language.encode(), text]))
        return self._directory / name.hexdigest()

    def _make_room(self) -> None:
        """Remove the least recently used entries, which include the temporary files of dead writers."""
        with os.scandir(self._directory) as entries:
            found = sorted((entry.stat(follow_symlinks=False).st_mtime_ns, entry.path) for entry in entries)
        for _, path in found[:-_MAX_ENTRIES]:
            Path(path).unlink(missing_ok=True)


def _identify_parser() -> bytes:
    """Return what identifies the parser's version: its files, their sizes and times."""
    here = Path(__file__).parent / "js"
    with os.scandir(here) as own, os.scandir(here / "vendor") as vendored:
        scripts = [entry for entry in (*own, *vendored) if entry.name.endswith((".js", ".wasm"))]
        facts = sorted((entry.name, entry.stat().st_size, entry.stat().st_mtime_ns) for entry in scripts)
    return repr(facts).encode()
