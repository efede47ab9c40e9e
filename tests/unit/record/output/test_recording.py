"""Output on its way into the store: seen live, bounded in memory, and gone when nothing comes of it."""

import asyncio
import errno
import gzip
import hashlib
import os
import stat
import subprocess
import sys
import threading
from pathlib import Path
from tempfile import SpooledTemporaryFile
from typing import IO, Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from paddock.model.artifact import RunFacts, Stream
from paddock.model.errors import ArtifactError
from paddock.model.process import CapturedStream
from paddock.policy.redaction.scanner import Scanner
from paddock.policy.settings.schema import ArtifactSettings, RedactionSettings
from paddock.record.output import recording as recordings
from paddock.record.output.artifacts import Artifacts
from paddock.record.output.recording import RecordedStream

FACTS = RunFacts(workspace="/w/repo", runtime="node")


@pytest.fixture
def artifacts(tmp_path: Path) -> Artifacts:
    return Artifacts(ArtifactSettings(directory=tmp_path / "artifacts"), Scanner(RedactionSettings()))


def test_live_output_is_redacted_and_in_order(artifacts: Artifacts) -> None:
    seen: list[tuple[Stream, bytes]] = []
    recording = artifacts.record(persist=False, on_output=lambda stream, data: seen.append((stream, data)))
    recording.stdout(b"one\nto")
    recording.stderr(b"err\n")
    recording.stdout(b"ken=a1b2c3d4e5\nla")
    assert seen == [("stdout", b"one\n"), ("stderr", b"err\n"), ("stdout", b"token=[REDACTED:secret]\n")]
    asyncio.run(recording.finish(FACTS))
    assert seen[3:] == [("stdout", b"la")]


def test_what_is_kept_in_memory_is_redacted_across_its_ends(artifacts: Artifacts) -> None:
    """The tail of the raw stream would begin in the middle of the secret."""
    recording = artifacts.record(persist=False, kept_bytes=64)
    recording.stdout(b"a" * 40 + b"\n" + b"password=" + b"s1Z" * 10 + b"\n" + b"b" * 30)
    asyncio.run(recording.finish(FACTS))
    assert recording.make_captured("stdout") == CapturedStream(
        head="a" * 32,
        tail="]\n" + "b" * 30,
        total_bytes=111,
        omitted_bytes=34,
        omitted_line_ends=1,
    )


def test_discarding_leaves_nothing(artifacts: Artifacts) -> None:
    recording = artifacts.record()
    recording.stdout(b"x" * 1_000_000)
    asyncio.run(recording.discard())
    asyncio.run(recording.discard())
    assert not artifacts.settings.directory.exists()


def test_a_full_disk_costs_the_artifact_and_nothing_else(
    artifacts: Artifacts, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Full(SpooledTemporaryFile[bytes]):
        def write(self, _data: bytes) -> int:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(recordings, "SpooledTemporaryFile", Full)
    recording = artifacts.record()
    recording.stdout(os.urandom(200_000))
    recording.stdout(b"\nlast\n")
    assert asyncio.run(recording.finish(FACTS)) is None
    assert recording.refusal == "output could not be kept: No space left on device"
    assert recording.make_captured("stdout").head.endswith("\nlast\n")


def test_a_store_that_cannot_be_opened_costs_the_artifact_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    place = ArtifactSettings(directory=tmp_path / "file" / "below")
    recording = Artifacts(place, Scanner(RedactionSettings())).record()
    recording.stdout(b"x")
    assert asyncio.run(recording.finish(FACTS)) is None
    assert recording.refusal.startswith(
        "output could not be kept: cannot write the artifact: [Errno 20] Not a directory"
    )


def test_files_are_for_the_owner_alone(artifacts: Artifacts) -> None:
    recording = artifacts.record()
    handle = asyncio.run(recording.finish(FACTS))
    assert handle is not None
    directory = artifacts.settings.directory
    assert {stat.S_IMODE(path.stat().st_mode) for path in (directory, directory / handle)} == {0o700}
    kept = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (directory / handle).iterdir()}
    assert kept == dict.fromkeys(("stdout.gz", "stderr.gz", "manifest.json"), 0o600)


def test_cancelled_it_leaves_nothing_half(artifacts: Artifacts, monkeypatch: pytest.MonkeyPatch) -> None:
    entered, leave = threading.Event(), threading.Event()
    real = artifacts.store.put

    def slow(*arguments: Any, **options: Any) -> object:
        entered.set()
        assert leave.wait(60)
        return real(*arguments, **options)

    monkeypatch.setattr(artifacts.store, "put", slow)

    async def cancelled() -> None:
        recording = artifacts.record()
        recording.stdout(b"x" * 1000)
        task = asyncio.create_task(recording.finish(FACTS))
        assert await asyncio.to_thread(entered.wait, 60)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        leave.set()

    asyncio.run(cancelled())  # it waits for threads
    assert list(artifacts.readable(None)) == []
    assert list(artifacts.list()) == []


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (OSError("no\nand more"), "no"),
        (
            PermissionError(errno.EACCES, os.strerror(errno.EACCES), "/there"),
            f"/there: Permission denied; make it accessible to user {os.geteuid()}, or set artifacts.directory",
        ),
    ],
)
def test_a_store_that_cannot_be_listed_is_an_error(
    artifacts: Artifacts, monkeypatch: pytest.MonkeyPatch, error: OSError, told: str
) -> None:
    def failing(*_: object) -> None:
        raise error

    asyncio.run(artifacts.record().finish(FACTS))
    monkeypatch.setattr(artifacts.store, "groups", failing)
    with pytest.raises(ArtifactError) as caught:
        artifacts.sweep()
    assert str(caught.value) == f"cannot list artifacts: {told}"


GROWTH = """
import asyncio, resource, sys
from pathlib import Path
from paddock.model.artifact import RunFacts
from paddock.policy.settings.schema import ArtifactSettings, RedactionSettings
from paddock.policy.redaction.scanner import Scanner
from paddock.record.output.artifacts import Artifacts

settings = ArtifactSettings(directory=Path(sys.argv[1]), max_bytes=2**40)
artifacts = Artifacts(settings, Scanner(RedactionSettings()))

def record(pieces):
    recording = artifacts.record()
    for _ in range(pieces):
        recording.stdout(piece)
    assert asyncio.run(recording.finish(RunFacts(workspace="/w/repo", runtime="node"))), recording.refusal
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

piece = b"".join(b"%d: request %d served\\n" % (n, n * 7919 % 100_000) for n in range(10_000))[:2**18]
small, large = record(4), record(1024)
print((large - small) // 1024)
"""


@pytest.mark.slow
def test_a_quarter_of_a_gibibyte_costs_less_than_twenty_mebibytes(tmp_path: Path) -> None:
    command = [sys.executable, "-c", GROWTH, str(tmp_path / "artifacts")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=280)
    assert done.stderr == ""
    assert int(done.stdout) < 20


CRASH = """
import os, sys
from pathlib import Path
from paddock.policy.settings.schema import ArtifactSettings, RedactionSettings
from paddock.policy.redaction.scanner import Scanner
from paddock.record.output.artifacts import Artifacts

artifacts = Artifacts(ArtifactSettings(directory=Path(sys.argv[1])), Scanner(RedactionSettings()))
recording = artifacts.record()
recording.stdout(os.urandom(5_000_000))
os.kill(os.getpid(), 9)
"""


def test_a_server_that_dies_leaves_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-c", CRASH, str(tmp_path / "artifacts")]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    assert subprocess.run(command, env=environment, check=False, timeout=60).returncode == -9
    assert list(tmp_path.iterdir()) == []


def test_small_output_in_a_directory_is_written_at_once_and_any_other_in_a_thread(
    artifacts: Artifacts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another thread takes longer to begin than a small file to write; a sweep or a bucket may take long."""
    threads: list[bool] = []
    real = artifacts.store.put

    def noting(group: str, name: str, data: IO[bytes], *, whole: bool = False) -> None:
        threads.append(threading.current_thread() is not threading.main_thread())
        real(group, name, data, whole=whole)

    monkeypatch.setattr(artifacts.store, "put", noting)
    for size in (1, 1, 100_000):
        recording = artifacts.record()
        recording.stdout(b"x" * size)
        assert asyncio.run(recording.finish(FACTS))
    assert threads == [*[True] * 3, *[False] * 3, *[True] * 3]  # the first one sweeps


def test_small_output_is_stored_when_both_streams_have_ended_and_can_be_read_when_it_is_published(
    artifacts: Artifacts,
) -> None:
    async def go() -> tuple[list[str], list[str], str | None]:
        recording = artifacts.record()
        recording.prepare(Path(FACTS.workspace))
        [folder] = artifacts.settings.directory.glob("runtime-*")
        recording.stdout(b"one\ntwo")
        recording.stdout(b"")
        early = sizes(folder)
        recording.stderr(b"")
        stored = sizes(folder)
        assert list(artifacts.readable(None)) == []
        return early, stored, await recording.finish(FACTS)

    def sizes(folder: Path) -> list[str]:
        return sorted(path.name for path in folder.iterdir() if path.stat().st_size)

    early, stored, handle = asyncio.run(go())
    assert (early, stored) == ([], ["stderr.gz", "stdout.gz"])
    assert handle is not None
    [found] = artifacts.readable(None)
    assert found.manifest is not None
    assert found.manifest.stdout_sha256 == hashlib.sha256(b"one\ntwo").hexdigest()
    folder = artifacts.settings.directory / handle
    assert [gzip.decompress((folder / name).read_bytes()) for name in ("stdout.gz", "stderr.gz")] == [
        b"one\ntwo",
        b"",
    ]


@given(st.lists(st.binary(min_size=1, max_size=600), max_size=6))
@example([b"x" * 512])
@example([b"x" * 512, b"y"])
@example([b"x" * 513])
def test_what_is_packed_is_what_came_however_much_and_in_whatever_pieces(pieces: list[bytes]) -> None:
    track = RecordedStream(Scanner(RedactionSettings(enabled=False)), 10)
    for piece in pieces:
        track.spool(piece)
    whole = b"".join(pieces)
    assert gzip.decompress(track.finish_packed().read()) == whole
    assert track.sha256 == hashlib.sha256(whole).hexdigest()
    track.drop()


def test_large_output_is_not_stored_before_a_thread_does_it(
    artifacts: Artifacts, monkeypatch: pytest.MonkeyPatch
) -> None:
    puts: list[bool] = []
    real = artifacts.put

    def noting(*arguments: Any) -> None:
        puts.append(threading.current_thread() is threading.main_thread())
        real(*arguments)

    monkeypatch.setattr(artifacts, "put", noting)
    recording = artifacts.record()
    recording.prepare(Path(FACTS.workspace))
    recording.stdout(b"x" * 100_000)
    recording.stdout(b"")
    recording.stderr(b"")
    assert puts == []
    assert asyncio.run(recording.finish(FACTS))
    assert puts == [False]


def test_what_was_stored_is_gone_when_the_execution_is_cancelled(artifacts: Artifacts) -> None:
    recording = artifacts.record()
    recording.prepare(Path(FACTS.workspace))
    recording.stdout(b"text")
    recording.stdout(b"")
    recording.stderr(b"")
    asyncio.run(recording.discard())
    assert list(artifacts.settings.directory.glob("runtime-*")) == []


def test_output_that_cannot_be_stored_at_the_end_of_the_streams_costs_the_artifact_and_nothing_else(
    artifacts: Artifacts, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    recording = artifacts.record()
    recording.prepare(Path(FACTS.workspace))
    monkeypatch.setattr(artifacts.store, "put", full)
    recording.stdout(b"text")
    recording.stdout(b"")
    recording.stderr(b"")
    assert asyncio.run(recording.finish(FACTS)) is None
    assert recording.refusal == (
        "output could not be kept: cannot write the artifact: [Errno 28] No space left on device"
    )
    assert recording.make_captured("stdout").head == "text"
    assert list(artifacts.settings.directory.glob("runtime-*")) == []
