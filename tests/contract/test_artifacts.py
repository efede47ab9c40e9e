"""One contract for every place that artifacts are kept in: a directory, memory, and S3 by its protocol."""

import asyncio
import gzip
import hashlib
import json
import re
import secrets
import socket
import time
import zlib
from datetime import UTC, datetime, timedelta
from io import BytesIO
from pathlib import Path
from typing import IO

import obstore
import pytest
from tests.support.bucket import Bucket
from tests.support.late_proxy import LateProxy

from paddock.model.artifact import Handle, RunFacts
from paddock.model.errors import InvalidHandle, UnknownArtifact
from paddock.policy.redaction.scanner import Scanner
from paddock.policy.settings.schema import ArtifactSettings, RedactionSettings
from paddock.record.output import artifacts as artifacts_module
from paddock.record.output import backends
from paddock.record.output.artifacts import Artifacts, SweepReport
from paddock.record.output.backends import ObjectStoreBackend
from paddock.record.output.recording import Recording

NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
HOME = Path("/home/u/my repo")
FACTS = RunFacts(
    workspace=str(HOME),
    runtime="node",
    request="01JD3W0ZV6N4YQ1R2X5T7B8C9D",
    status="ok",
    args_hash="ab",
    exit_code=0,
    duration_ms=12.5,
    policy_audit_hash="cd",
)


class Clock:
    """A clock that stands until it is set."""

    def __init__(self) -> None:
        self.now = NOON

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=["directory", "memory", "s3"])
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> ArtifactSettings:
    if request.param == "directory":
        return ArtifactSettings(directory=tmp_path / "artifacts", ttl_hours=2, max_bytes=2000)
    url = (
        "memory:///"
        if request.param == "memory"
        else f"{request.getfixturevalue('s3_environment')}/{secrets.token_hex(4)}"
    )
    return ArtifactSettings(directory=tmp_path / "artifacts", url=url, ttl_hours=2, max_bytes=2000)


@pytest.fixture
def artifacts(settings: ArtifactSettings, clock: Clock) -> Artifacts:
    return Artifacts(settings, Scanner(RedactionSettings()), clock=clock)


def finished(recording: Recording, facts: RunFacts = FACTS) -> str | None:
    return asyncio.run(recording.finish(facts))


def stored(artifacts: Artifacts, stdout: bytes = b"out\n", stderr: bytes = b"") -> str:
    recording = artifacts.record()
    recording.stdout(stdout)
    recording.stderr(stderr)
    handle = finished(recording)
    assert handle is not None, recording.refusal
    return handle


def content(artifacts: Artifacts, handle: str, name: str) -> bytes:
    return b"".join(artifacts.store.read(handle, name, 1 << 20))


def names(artifacts: Artifacts) -> list[str]:
    """Return the names of the files of all artifacts."""
    if isinstance(artifacts.store, ObjectStoreBackend):
        paths = [meta["path"] for page in obstore.list(artifacts.store.client) for meta in page]
    else:
        paths = list(map(str, artifacts.settings.directory.glob("*/*")))
    return sorted(path.split("/")[-1] for path in paths if "/" in path)


def put(artifacts: Artifacts, handle: str, name: str, data: bytes) -> None:
    """Write an object of an artifact that is there, or lost it."""
    if isinstance(artifacts.store, ObjectStoreBackend):
        artifacts.store.put(handle, name, BytesIO(data))
    else:
        (artifacts.settings.directory / handle / name).write_bytes(data)


def remove(artifacts: Artifacts, handle: str, name: str) -> None:
    """Take one object away from an artifact."""
    if isinstance(artifacts.store, ObjectStoreBackend):
        artifacts.store.delete(handle, [name])
    else:
        (artifacts.settings.directory / handle / name).unlink()


def test_s39_an_artifact_is_three_files_that_agree(artifacts: Artifacts) -> None:
    out, err = b"one\ntoken=a1b2c3d4e5\n" + "ü\n".encode(), b"\xff\x00"
    handle = stored(artifacts, out, err)
    assert re.fullmatch(rf"runtime-my_repo-{NOON.timestamp() * 1000:.0f}-[0-9a-f]{{16}}", handle)
    assert names(artifacts) == ["manifest.json", "stderr.gz", "stdout.gz"]
    redacted = out.replace(b"a1b2c3d4e5", b"[REDACTED:secret]")
    assert gzip.decompress(content(artifacts, handle, "stdout.gz")) == redacted
    assert gzip.decompress(content(artifacts, handle, "stderr.gz")) == err
    manifest = json.loads(content(artifacts, handle, "manifest.json"))
    assert manifest.pop("serverVersion")
    assert manifest == {
        "workspace": "/home/u/my repo",
        "runtime": "node",
        "request": "01JD3W0ZV6N4YQ1R2X5T7B8C9D",
        "status": "ok",
        "phase": "run",
        "argsHash": "ab",
        "exitCode": 0,
        "signal": None,
        "durationMs": 12.5,
        "policyAuditHash": "cd",
        "relativeCwd": ".",
        "outputMode": "minimal",
        "commandSummary": "",
        "artifactId": handle,
        "repoId": "my repo",
        "stdoutBytes": len(out),
        "stderrBytes": 2,
        "stdoutSha256": hashlib.sha256(redacted).hexdigest(),
        "stderrSha256": hashlib.sha256(err).hexdigest(),
        "createdAt": "2026-03-01T12:00:00Z",
        "expiresAt": "2026-03-01T14:00:00Z",
    }


def test_s40_without_persistence_nothing_is_created(artifacts: Artifacts) -> None:
    recording = artifacts.record(persist=False)
    recording.stdout(b"token=a1b2c3d4e5\n")
    assert finished(recording) is None
    assert recording.refusal == "output is not kept"
    assert recording.make_captured("stdout").head == "token=[REDACTED:secret]\n"
    assert not artifacts.settings.directory.exists()


def test_s41_output_beyond_the_limit_leaves_no_artifact(artifacts: Artifacts) -> None:
    assert stored(artifacts, b"x" * 1500, b"y" * 500)
    recording = artifacts.record()
    for _ in range(100):
        recording.stdout(b"x" * 15)
        recording.stderr(b"y" * 6)
    assert finished(recording) is None
    assert recording.refusal == "output is not kept: it is larger than artifacts.max_bytes = 2000"
    assert (recording.make_captured("stdout").total_bytes, recording.make_captured("stderr").total_bytes) == (
        1500,
        600,
    )
    assert len(names(artifacts)) == 3


@pytest.mark.parametrize("name", ["stdout.gz", "stderr.gz", "manifest.json"])
def test_s42_a_failed_write_leaves_nothing(
    artifacts: Artifacts, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    real = artifacts.store.put

    def failing(group: str, written: str, data: IO[bytes], *, whole: bool = False) -> None:
        if written == name:
            raise OSError(28, "No space left on device\nand more")
        real(group, written, data, whole=whole)

    monkeypatch.setattr(artifacts.store, "put", failing)
    recording = artifacts.record()
    recording.stdout(b"hello")
    assert finished(recording) is None
    assert recording.refusal == (
        "output could not be kept: cannot write the artifact: [Errno 28] No space left on device"
    )
    assert recording.make_captured("stdout").head == "hello"
    assert names(artifacts) == []
    assert list(artifacts.list()) == []


def test_what_was_made_ready_ahead_is_the_same_artifact(artifacts: Artifacts) -> None:
    recording = artifacts.record()
    recording.prepare(HOME)
    assert list(artifacts.readable(None)) == []
    recording.stdout(b"out\n")
    handle = finished(recording)
    assert [str(found.handle) for found in artifacts.readable(HOME)] == [handle]
    assert names(artifacts) == ["manifest.json", "stderr.gz", "stdout.gz"]
    assert gzip.decompress(content(artifacts, handle, "stdout.gz")) == b"out\n"


def test_what_was_made_ready_for_nothing_goes(artifacts: Artifacts) -> None:
    recording = artifacts.record()
    recording.prepare(HOME)
    asyncio.run(recording.discard())
    recording.prepare(HOME)  # its turn comes too late
    for refused in (b"x" * 2001, b"x"):
        recording = artifacts.record()
        recording.prepare(HOME)
        recording.stdout(refused)
        if len(refused) > 1:
            assert finished(recording) is None
        else:
            asyncio.run(recording.discard())
    assert list(artifacts.list()) == []


def test_what_cannot_be_made_ready_is_told_at_the_end(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    settings = ArtifactSettings(directory=tmp_path / "file" / "artifacts")
    recording = Artifacts(settings, Scanner(RedactionSettings())).record()
    recording.prepare(HOME)
    assert recording.refusal == ""
    assert finished(recording) is None
    assert recording.refusal.startswith(
        f"output could not be kept: cannot write the artifact: [Errno 20] Not a directory: '{tmp_path}/file/artifacts"
    )


def test_s49_what_is_not_there_is_not_found(artifacts: Artifacts) -> None:
    handle = f"runtime-my_repo-1-{'0' * 16}"
    with pytest.raises(UnknownArtifact) as caught:
        artifacts.find(handle, HOME)
    assert str(caught.value) == (
        f"Artifact not found: {handle}; it does not exist or has expired (artifacts.ttl_hours)"
    )
    assert not artifacts.settings.directory.exists()


def test_what_has_expired_is_not_found_though_it_is_there(artifacts: Artifacts, clock: Clock) -> None:
    handle = stored(artifacts)
    clock.now = NOON + timedelta(hours=2, milliseconds=-1)
    assert str(artifacts.find(handle, HOME).handle) == handle
    clock.now = NOON + timedelta(hours=2)
    with pytest.raises(UnknownArtifact):
        artifacts.find(handle, HOME)
    assert len(names(artifacts)) == 3


def test_what_has_no_manifest_is_not_found(artifacts: Artifacts) -> None:
    handle = stored(artifacts)
    remove(artifacts, handle, "manifest.json")
    with pytest.raises(UnknownArtifact):
        artifacts.find(handle, HOME)


def test_artifacts_of_other_workspaces_are_refused(artifacts: Artifacts) -> None:
    handle = stored(artifacts)
    with pytest.raises(UnknownArtifact) as caught:
        artifacts.find(handle, Path("/elsewhere/my repo"))
    assert str(caught.value) == (
        f"Artifact not found in this workspace: {handle}; read it from its own workspace, or set "
        "artifacts.cross_workspace = true"
    )
    assert artifacts.find(handle, None).handle == Handle.parse(handle)
    open_to_all = artifacts.settings.model_copy(update={"cross_workspace": True})
    artifacts.settings = open_to_all
    assert artifacts.find(handle, Path("/elsewhere")).handle == Handle.parse(handle)


@pytest.mark.parametrize("broken", [b"{", b"", b"\xff" * 10, b"[" * 100_000, b"{}"])
def test_s50_a_broken_manifest_hides_nothing_from_its_workspace(artifacts: Artifacts, broken: bytes) -> None:
    handle = stored(artifacts)
    put(artifacts, handle, "manifest.json", broken)
    found = artifacts.find(handle, HOME)
    assert found.manifest is None
    packed = b"".join(artifacts.read_packed(found.handle, "stdout"))
    assert zlib.decompress(packed, 31) == b"out\n"
    with pytest.raises(UnknownArtifact):
        artifacts.find(handle, Path("/elsewhere"))


def test_s44_sweep(artifacts: Artifacts, clock: Clock) -> None:
    old = stored(artifacts)
    clock.now += timedelta(hours=1)
    valid, orphan, broken = stored(artifacts), stored(artifacts), stored(artifacts)
    remove(artifacts, orphan, "manifest.json")
    put(artifacts, broken, "manifest.json", b"{")
    clock.now = NOON + timedelta(hours=2)
    assert artifacts.sweep() == SweepReport(deleted=1, errors=1)
    assert {str(handle) for handle in artifacts.list()} == {valid, orphan, broken}
    assert old not in {valid, orphan, broken}
    clock.now = NOON + timedelta(hours=3)
    assert artifacts.sweep() == SweepReport(deleted=2, errors=0)
    assert [str(handle) for handle in artifacts.list()] == [orphan]
    clock.now = NOON + timedelta(hours=27)
    assert artifacts.sweep() == SweepReport(deleted=1, errors=0)
    assert names(artifacts) == []


def test_s44_sweep_of_nowhere(artifacts: Artifacts) -> None:
    assert artifacts.sweep() == SweepReport(deleted=0, errors=0)
    assert not artifacts.settings.directory.exists()


@pytest.mark.parametrize("handle", ["../x", "a/b", "a\\b", "C:x", "runtime-..-1-0123456789abcdef"])
def test_s48_paths_are_no_handles(artifacts: Artifacts, handle: str) -> None:
    with pytest.raises(InvalidHandle) as caught:
        artifacts.find(handle, HOME)
    assert str(caught.value) == "Invalid artifact handle: path traversal detected"


def test_writing_sweeps_now_and_then(artifacts: Artifacts, clock: Clock) -> None:
    old = stored(artifacts)
    clock.now += timedelta(hours=2)
    assert [str(handle) for handle in artifacts.list()] == [old]
    new = stored(artifacts)
    assert [str(handle) for handle in artifacts.list()] == [new]


def test_a_failing_sweep_is_no_failed_write(
    artifacts: Artifacts, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored(artifacts)
    clock.now += timedelta(hours=2)

    def failing(*_: object) -> None:
        raise OSError("no")

    monkeypatch.setattr(artifacts.store, "delete", failing)
    assert stored(artifacts)
    assert artifacts.sweep() == SweepReport(deleted=0, errors=1)


def test_what_may_be_read_is_listed(artifacts: Artifacts) -> None:
    handle = stored(artifacts)
    assert [str(found.handle) for found in artifacts.readable(HOME)] == [handle]
    assert list(artifacts.readable(Path("/elsewhere"))) == []


def test_s42_a_bucket_that_never_answers_holds_nobody_up_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its client would try ten times, and for three minutes."""
    monkeypatch.setattr(backends, "_RETRY_AFTER", timedelta(seconds=1))
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{silent.getsockname()[1]}")
        monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
        monkeypatch.setenv("AWS_TIMEOUT", "1 s")
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION"):
            monkeypatch.setenv(name, "test")
        artifacts = Artifacts(ArtifactSettings(url="s3://bucket"), Scanner(RedactionSettings()))
        recording = artifacts.record()
        recording.stdout(b"out")
        assert finished(recording) is None
        assert recording.refusal.startswith("output could not be kept: cannot write the artifact: ")


def test_a_bucket_that_hangs_is_left_alone_for_a_while(
    s3: Bucket, s3_environment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backends, "_RETRY_AFTER", timedelta(seconds=1))
    monkeypatch.setattr(artifacts_module, "_SLOW_S", 0.5)
    monkeypatch.setattr(artifacts_module, "_PAUSE_S", 3600)
    with LateProxy(s3.port) as late:
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{late.port}")
        monkeypatch.setenv("AWS_TIMEOUT", "5 s")  # in which a busy machine stores
        settings = ArtifactSettings(url=f"{s3_environment}/{secrets.token_hex(4)}")
        artifacts = Artifacts(settings, Scanner(RedactionSettings()))

        def try_to_store() -> str:
            recording = artifacts.record()
            recording.stdout(b"out")
            handle = finished(recording)
            return recording.refusal if handle is None else "stored"

        assert try_to_store() == "stored"
        late.swallowed = b"PUT "
        hung, sent = try_to_store(), late.count("PUT ")
        left_alone = try_to_store()
        assert late.count("PUT ") == sent
        artifacts._retry_at = time.monotonic()
        late.swallowed = b""
        assert [try_to_store(), try_to_store()] == ["stored", "stored"]
    assert (hung, left_alone) == (
        "output could not be kept: cannot write the artifact: the bucket of artifacts.url cannot be used (GenericError)",
        "output could not be kept: cannot write the artifact: the store did not answer in time, and is tried again "
        "within 3600 s",
    )
