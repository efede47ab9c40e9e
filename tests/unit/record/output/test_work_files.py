"""What a program leaves in its working directory, made to mislead who reads it."""

import asyncio
import hashlib
import os
import resource
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from paddock.engines.programs.workdir import walk_files
from paddock.model.artifact import RunFacts
from paddock.model.work_files import OutputFile
from paddock.policy.redaction.scanner import Scanner
from paddock.policy.settings.schema import ArtifactSettings, RedactionSettings
from paddock.record.output.artifacts import Artifacts
from paddock.record.output.work_files import MAX_LISTED_FILES, FileCollector, judge_media_type

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 8
TOKEN = "ghp_" + "aB3dE5" * 6


@pytest.fixture
def artifacts(tmp_path: Path) -> Artifacts:
    return Artifacts(
        ArtifactSettings(directory=tmp_path / "artifacts", max_bytes=1024), Scanner(RedactionSettings())
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (found := tmp_path / "work").mkdir()
    return found


def collect(
    artifacts: Artifacts,
    folder: Path,
    *patterns: str,
    before: dict[str, bytes] | None = None,
    hide: Callable[[str], str] = str,
    persist: bool = True,
) -> dict[str, OutputFile]:
    collector = FileCollector(lambda: artifacts, patterns or None, hide, persist=persist)
    collector.read(
        walk_files(folder), {path: hashlib.sha256(data).hexdigest() for path, data in (before or {}).items()}
    )
    kept = asyncio.run(collector.keep(RunFacts(workspace="/w", runtime="python")))
    assert [file.path for file in kept] == sorted(file.path for file in kept)
    return {file.path: file for file in kept}


def test_new_and_changed_files_are_listed_and_what_matches_is_kept(
    artifacts: Artifacts, folder: Path
) -> None:
    (folder / "same.csv").write_bytes(b"1")
    (folder / "changed.csv").write_bytes(b"2")
    (folder / "code.py").write_text("1")
    (folder / "sub").mkdir()
    (folder / "sub" / "new.csv").write_bytes(b"3")
    (folder / "notes.txt").write_bytes(b"4")
    (folder / "__pycache__").mkdir()
    (folder / "__pycache__" / "x.pyc").write_bytes(b"5")
    before = {"same.csv": b"1", "changed.csv": b"1", "code.py": b"1"}
    found = collect(artifacts, folder, "*.csv", before=before)
    assert [*found] == ["changed.csv", "notes.txt", "sub/new.csv"]
    new = found["sub/new.csv"]
    assert (new.size, new.media_type, new.sha256) == (1, "text/csv", hashlib.sha256(b"3").hexdigest())
    assert new.handle is not None
    assert artifacts.read(new.handle, Path("/w")) == b"3"
    stored = artifacts.find(new.handle, Path("/w")).manifest
    assert stored is not None
    assert (stored.file_path, stored.media_type) == ("sub/new.csv", "text/csv")
    assert (found["notes.txt"].handle, found["notes.txt"].not_kept) == (
        None,
        "no pattern of `outputs` matches it",
    )


def test_without_patterns_images_are_kept_by_their_content(artifacts: Artifacts, folder: Path) -> None:
    (folder / "plot").write_bytes(PNG)
    (folder / "fake.png").write_bytes(b"<script>")
    found = collect(artifacts, folder)
    assert found["plot"].handle is not None
    assert (found["fake.png"].media_type, found["fake.png"].not_kept) == (
        "text/plain",
        "only images are kept unless `outputs` has a pattern for it",
    )


def test_nothing_leads_out(artifacts: Artifacts, folder: Path, tmp_path: Path) -> None:
    (outside := tmp_path / "outside.txt").write_text("secret")
    (tmp_path / "place").mkdir()
    (tmp_path / "place" / "deep.txt").write_text("secret")
    (folder / "link.txt").symlink_to(outside)
    (folder / "folder").symlink_to(tmp_path / "place")
    (folder / "loop").symlink_to("loop")
    os.link(outside, folder / "hard.txt")
    os.mkfifo(folder / "pipe.txt")
    with socket.socket(socket.AF_UNIX) as listener:
        here = os.open(folder, os.O_PATH)
        listener.bind(f"/proc/self/fd/{here}/socket.txt")
        os.close(here)
        found = collect(artifacts, folder, "*")
    assert [*found] == ["hard.txt"]
    hard = found["hard.txt"]
    assert (hard.handle, hard.sha256, hard.not_kept) == (None, "", "it has another name elsewhere")


def test_what_is_too_much_is_listed_and_not_kept(artifacts: Artifacts, folder: Path) -> None:
    (folder / "large.csv").write_bytes(b"x" * 1025)
    with (folder / "sparse.csv").open("wb") as stream:
        stream.truncate(1 << 40)
    found = collect(artifacts, folder, "*")
    assert {path: file.not_kept for path, file in found.items()} == {
        "large.csv": "it is larger than artifacts.max_bytes = 1024",
        "sparse.csv": "the files are larger than 268435456 bytes together",
    }
    for number in range(MAX_LISTED_FILES + 5):
        (folder / f"{number:05}").touch()
    assert len(collect(artifacts, folder, "*.csv")) == MAX_LISTED_FILES


def test_a_secret_in_a_name_is_not_shown(artifacts: Artifacts, folder: Path) -> None:
    (folder / f"{TOKEN}.txt").write_text("1")
    found = collect(artifacts, folder, "*", hide=lambda text: text.replace(TOKEN, "[REDACTED:x]"))
    assert [*found] == ["[REDACTED:x].txt"]
    handle = found["[REDACTED:x].txt"].handle
    assert handle is not None
    stored = artifacts.find(handle, Path("/w")).manifest
    assert stored is not None
    assert stored.file_path == "[REDACTED:x].txt"


def test_many_directories_take_few_descriptors(artifacts: Artifacts, folder: Path) -> None:
    for number in range(300):
        (folder / str(number)).mkdir()
        (folder / str(number) / "a.txt").write_text(str(number))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len([*Path("/proc/self/fd").iterdir()]) + 20, hard))
    try:
        found = collect(artifacts, folder, "*.png")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert len(found) == 300


def test_an_unchanged_large_file_leaves_nothing_open(artifacts: Artifacts, folder: Path) -> None:
    data = os.urandom(1000)
    (folder / "a.bin").write_bytes(data)
    assert collect(artifacts, folder, "*", before={"a.bin": data}) == {}
    assert [*artifacts.list()] == []


def test_deep_and_strange_names_do_no_harm(artifacts: Artifacts, folder: Path) -> None:
    here = os.open(folder, os.O_RDONLY)
    for _ in range(300):
        os.mkdir("d", dir_fd=here)
        here, before = os.open("d", os.O_RDONLY, dir_fd=here), here
        os.close(before)
    os.close(os.open("bottom.txt", os.O_CREAT | os.O_WRONLY, dir_fd=here))
    os.close(here)
    name = b"caf\xe9\n.txt"
    os.close(os.open(os.fsencode(folder) + b"/" + name, os.O_CREAT))
    assert [*collect(artifacts, folder, "*.txt")] == ["caf\\xe9\n.txt"]


def test_texts_lose_their_secrets_and_other_files_stay_as_they_are(
    artifacts: Artifacts, folder: Path
) -> None:
    (folder / "a.txt").write_text(f"token {TOKEN}\n")
    (folder / "b.bin").write_bytes(b"\0token " + TOKEN.encode())
    found = collect(artifacts, folder, "*")
    text, data = found["a.txt"], found["b.bin"]
    assert text.handle is not None
    assert data.handle is not None
    assert TOKEN.encode() not in artifacts.read(text.handle, None)
    assert artifacts.read(data.handle, None) == b"\0token " + TOKEN.encode()


def test_nothing_is_kept_where_nothing_shall_be(artifacts: Artifacts, folder: Path) -> None:
    (folder / "a.txt").write_text("1")
    assert collect(artifacts, folder, "*", persist=False)["a.txt"].not_kept == "output is not kept"


@pytest.mark.parametrize(
    ("path", "sample", "media_type"),
    [
        ("a", b"\xff\xd8\xff\xe0", "image/jpeg"),
        ("a.txt", b"GIF89a", "image/gif"),
        ("a", b"RIFF\0\0\0\0WEBP", "image/webp"),
        ("a", b"%PDF-1.7", "application/pdf"),
        ("a.png", b"\0", "application/octet-stream"),
        ("a.zip", b"PK\3\4\0", "application/zip"),
        ("a.json", b"{}", "application/json"),
        ("a.svg", b"<svg/>", "image/svg+xml"),
        ("a.zip", b"text", "text/plain"),
        ("a", b"", "text/plain"),
    ],
)
def test_a_media_type_is_judged_by_content(path: str, sample: bytes, media_type: str) -> None:
    assert judge_media_type(path, sample) == media_type
