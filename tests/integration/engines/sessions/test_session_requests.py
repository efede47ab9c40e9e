"""Requests to sessions that are not valid, and files with names that are not usual."""

import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from paddock import BlockingPaddock, BlockingSession, PaddockError, RequestError, Status

PATIENT = {"runtimes": {"timeout_ms": 120_000}}
NO_HANDLE = 'session: it is not the handle of a session; give "new", or a handle from an answer ("s_...")'
NO_ID = "`id` is not the handle of a session; give `session.id`, or a language for a new one"
INVALID: dict[str, tuple[Callable[[BlockingPaddock, BlockingSession], Any], str]] = {
    "timeout": (
        lambda _, s: s.run("1", timeout_ms=1),
        "a program's timeout is 100 to 600000 ms, not 1",
    ),
    "no number": (
        lambda _, s: s.run("1", timeout_ms="1s"),
        "`timeout_ms` must be a whole number, not '1s'",
    ),
    "handle": (lambda p, _: p.exec("python", "1", session="old"), NO_HANDLE),
    "guest": (lambda p, _: p.execute("1", session=""), NO_HANDLE),
    "id": (lambda p, _: p.session(id=""), NO_ID),
    "new": (lambda p, _: p.session(id="new"), NO_ID),
    "path": (
        lambda _, s: s.files.write("../a", "x"),
        "path: '../a' leads out of the working directory",
    ),
    "absolute": (
        lambda _, s: s.run("1", files={"/a": b""}),
        "path: '/a' is absolute; give a path relative to the working directory",
    ),
    "content": (lambda _, s: s.files.write("a", 5), "files['a'] is an int; give bytes, text or a Path"),
    "files": (
        lambda _, s: s.run("1", files=["a"]),
        "files must be a dict of contents by path, but is a list",
    ),
    "packages": (
        lambda p, _: p.exec("python", "1", packages="pandas"),
        "packages must be a list of texts, but is a str",
    ),
    "patterns": (lambda _, s: s.run("1", outputs=[""]), "outputs.0: String should have at least 1 character"),
    "language": (
        lambda p, _: p.session(),
        'give a language, for example "python", or the `id` of an open session',
    ),
}


@pytest.mark.parametrize("what", INVALID)
def test_an_invalid_request_is_an_error_of_the_library(workspace: Path, what: str) -> None:
    ask, message = INVALID[what]
    with BlockingPaddock(workspace, overrides=PATIENT) as p, p.session("python") as s:
        with pytest.raises(PaddockError) as found:
            ask(p, s)
        assert (type(found.value), str(found.value)) == (RequestError, message)
        assert s.run("1 + 1").text == "2\n"


def test_a_lost_and_an_unknown_session_have_the_same_status_in_both_kinds(workspace: Path) -> None:
    with BlockingPaddock(workspace, overrides={**PATIENT, "sessions": {"max_per_actor": 1}}) as p:
        guest = p.execute("1", session="new").session
        program = p.exec("shell", "true", session="new").session
        p.execute("1", session="new")
        assert guest is not None
        assert program is not None
        assert p.execute("1", session=guest.id).status is Status.LOST
        assert p.exec("shell", "true", session=program.id).status is Status.LOST
        unknown = "s_" + "0" * 32
        assert p.execute("1", session=unknown).status is Status.INVALID
        assert p.exec("shell", "true", session=unknown).status is Status.INVALID


NAMES = ["e\u0301.txt", "\u00e9\u0301.txt", "\u212b", "e\u0301/e\u0301", "d/" * 40 + "deep", "a b'\"\n.txt"]


def test_files_that_are_listed_can_be_read_and_removed(workspace: Path) -> None:
    making = "\n".join(
        f"os.makedirs(os.path.dirname({name!r}) or '.', exist_ok=True); open({name!r}, 'w').write({name!r})"
        for name in NAMES
    )
    raw = "open(b'raw\\xff', 'w').write('raw')"
    with BlockingPaddock(workspace, overrides=PATIENT) as p, p.session("python") as s:
        assert s.run(f"import os\n{making}\n{raw}").ok
        listed = [file.path for file in s.files.list()]
        assert sorted(listed) == sorted([*NAMES, "raw\\xff"])
        for name in NAMES:
            assert s.files.read(name).decode() == name
        assert s.files.read("raw\\xff") == b"raw"
        assert [file.read() for file in s.files.list() if file.path == "raw\\xff"] == [b"raw"]
        for name in listed:
            s.files.remove(name)
        assert s.files.list() == ()


def test_a_path_finds_a_file_in_another_normal_form(workspace: Path) -> None:
    decomposed, composed = "e\u0301.txt", "\u00e9.txt"
    assert unicodedata.normalize("NFC", decomposed) == composed
    with BlockingPaddock(workspace, overrides=PATIENT) as p, p.session("python") as s:
        s.files.write(decomposed, "written")
        assert [file.path for file in s.files.list()] == [composed]
        assert (s.files.read(decomposed), s.files.read(composed)) == (b"written", b"written")
        s.run(f"open({decomposed!r}, 'w').write('own')")
        assert (s.files.read(decomposed), s.files.read(composed)) == (b"own", b"written")


def test_a_session_that_is_not_open_cannot_be_used_again(workspace: Path) -> None:
    with BlockingPaddock(workspace, overrides=PATIENT) as p:
        with p.session("python") as s:
            pass
        for handle, message in (
            (s.id, "the session is lost: it was closed"),
            ("s_" + "0" * 32, "there is no such session, or it belongs to another caller"),
        ):
            with pytest.raises(PaddockError) as found, p.session(id=handle):
                pass
            assert str(found.value) == message


REFUSED = {
    "../code.py": "'../code.py' leads out of the working directory",
    "/etc/passwd": "'/etc/passwd' is absolute; give a path relative to the working directory",
    "": "'' names no file",
    "a\0b": "'a\\x00b' is no path that a file can have",
    "none": "[Errno 2] there is no such file: 'none'",
}


@pytest.mark.parametrize("path", REFUSED)
def test_paths_of_no_file(workspace: Path, path: str) -> None:
    with BlockingPaddock(workspace, overrides=PATIENT) as p, p.session("python", files={"a": b""}) as s:
        for use in (s.files.read, s.files.remove):
            with pytest.raises(FileNotFoundError if path == "none" else RequestError) as found:
                use(path)
            assert str(found.value) == REFUSED[path]


@pytest.mark.parametrize(
    ("name", "access", "is_named"),
    [
        ("in.csv", "read-only", True),
        ("in.csv", "none", False),
        ("link.csv", "read-only", False),
        ("folder", "read-only", False),
        ("../in.csv", "read-only", False),
    ],
)
def test_the_hint_names_a_file_of_the_workspace_that_the_program_may_read(
    workspace: Path, name: str, access: str, is_named: bool
) -> None:
    (workspace / "in.csv").write_text("1")
    (workspace / "link.csv").symlink_to("/etc/passwd")
    (workspace / "folder").mkdir()
    with BlockingPaddock(workspace, overrides=PATIENT) as p:
        outcome = p.exec("python", f"open({name!r})", session="new", access=access)
    assert outcome.error is not None
    assert (f"{name} is in the workspace" in outcome.error.hint) is is_named


def test_links_among_the_files_of_a_session_are_not_followed(workspace: Path) -> None:
    with BlockingPaddock(workspace, overrides=PATIENT) as p, p.session("python") as s:
        s.run("import os; os.symlink('/etc/passwd', 'link'); os.symlink('/etc', 'folder')")
        for path, use in (
            ("link", s.files.read),
            ("folder/passwd", s.files.read),
            ("folder/passwd", s.files.remove),
        ):
            with pytest.raises(RequestError) as raised:
                use(path)
            assert str(raised.value) == f"{path} is a link, or leads through one; links are not followed"
