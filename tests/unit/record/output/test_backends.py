"""Objects in a directory: what belongs there, what does not, and what is not needed for it."""

import subprocess
import sys
import time
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path

import pytest

from paddock.record.output.backends import LocalBackend

ALONE = """
import sys, threading
from pathlib import Path

def refused(*_):
    raise RuntimeError("can't start new thread")

sys.modules["obstore"] = None
threading.Thread.start = refused
from paddock.policy.settings.schema import ArtifactSettings, RedactionSettings
from paddock.policy.redaction.scanner import Scanner
from paddock.record.output.artifacts import Artifacts

artifacts = Artifacts(ArtifactSettings(directory=Path(sys.argv[1])), Scanner(RedactionSettings()))
print(sorted(map(str, artifacts.list())), artifacts.size())
artifacts.sweep_when_due()
print(sorted(map(str, artifacts.list())), artifacts.size(), artifacts.sweep())
"""


def put(folder: LocalBackend, group: str, name: str, data: bytes) -> None:
    folder.begin(group, [name], whole="whole")
    folder.put(group, name, BytesIO(data))


def test_a_directory_is_looked_through_without_a_thread(tmp_path: Path) -> None:
    """Where a user may have no more of them, a client that waits for one would wait for ever."""
    folder = tmp_path / "artifacts"
    old, new = (f"runtime-r-{ms}-0123456789abcdef" for ms in (1, round(time.time() * 1000)))
    for handle in (old, new):
        put(LocalBackend(folder), handle, "manifest.json", b"{}")
    run = subprocess.run(
        [sys.executable, "-c", ALONE, folder], capture_output=True, text=True, check=False, timeout=60
    )
    left = f"{[new]} 2 SweepReport(deleted=0, errors=1)"  # which nobody can judge before its time
    assert (run.stdout, run.stderr) == (f"{[old, new]} 4\n{left}\n", "")


def test_what_is_whole_has_its_name_at_the_end(tmp_path: Path) -> None:
    folder = LocalBackend(tmp_path)
    folder.begin("a", [], whole="x")
    assert list(folder.read("a", "x", 10)) == []
    folder.put("a", "x", BytesIO(b"whole"), whole=True)
    assert (list(folder.read("a", "x", 3)), list(folder.read("a", "x.new", 3))) == ([b"who", b"le"], [])


def test_an_empty_object_is_one_piece(tmp_path: Path) -> None:
    folder = LocalBackend(tmp_path)
    put(folder, "a", "x", b"")
    assert list(folder.read("a", "x", 3)) == [b""]


def test_links_and_files_are_no_groups(tmp_path: Path) -> None:
    folder = LocalBackend(tmp_path / "artifacts")
    put(folder, "a", "x", b"12345")
    (tmp_path / "artifacts" / "link").symlink_to(tmp_path)
    (tmp_path / "artifacts" / "file").write_bytes(b"123")
    assert (list(folder.groups()), folder.size()) == (["a"], 8)


def test_a_link_is_not_read(tmp_path: Path) -> None:
    folder = LocalBackend(tmp_path)
    folder.begin("a", [], whole="whole")
    (tmp_path / "a" / "x").symlink_to("/etc/passwd")
    with pytest.raises(OSError, match="it is a link, not a regular file"):
        list(folder.read("a", "x", 10))


def test_nothing_is_nowhere(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for place in (tmp_path / "none", tmp_path / "file"):
        folder = LocalBackend(place)
        assert (list(folder.read("a", "x", 10)), list(folder.groups()), folder.size()) == ([], [], 0)
    assert LocalBackend(tmp_path / "none").last_sweep == datetime.fromtimestamp(0, UTC)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file"]


def test_deleting_leaves_nothing_and_misses_nothing(tmp_path: Path) -> None:
    folder = LocalBackend(tmp_path)
    put(folder, "a", "x", b"1")
    (tmp_path / "a" / "stray").touch()
    folder.delete("a", ["x", "y"])
    assert list(tmp_path.iterdir()) == []
