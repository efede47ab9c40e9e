"""Files that a program is given: their paths and sources."""

import hashlib
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from paddock.model.errors import UnknownArtifact
from paddock.model.request import RuntimeRun
from paddock.model.texts import explain
from paddock.model.work_files import INPUT_BYTES, InputFile, OutputFile, normalize_path


def refusal(files: list[dict[str, object]], **given: object) -> str:
    with pytest.raises(ValidationError) as caught:
        RuntimeRun.model_validate({"runtime": "python", "code": "1", "files": files, **given})
    (told,) = explain(caught.value)
    return told


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("/etc/passwd", "'/etc/passwd' is absolute; give a path relative to the working directory"),
        ("../x", "'../x' leads out of the working directory"),
        ("a/../../x", "'a/../../x' leads out of the working directory"),
        ("", "'' names no file"),
        ("./", "'./' names no file"),
        ("a/", "'a/' names no file"),
        ("a\0b", "'a\\x00b' is no path that a file can have"),
        ("x" * 256, f"{'x' * 256!r} is no path that a file can have"),
        ("/".join("a" * 33), f"{'/'.join('a' * 33)!r} is no path that a file can have"),
        ("\ud800", "'\\ud800' is not Unicode"),
    ],
)
def test_paths_that_are_refused(path: str, why: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(why)}$"):
        normalize_path(path)


def test_a_path_is_made_plain() -> None:
    assert normalize_path("./a//b/./c.txt") == "a/b/c.txt"
    assert normalize_path("cafe\u0301.csv") == "caf\u00e9.csv"


@given(st.text())
def test_a_path_stays_inside(path: str) -> None:
    try:
        plain = normalize_path(path)
    except ValueError:
        return
    assert normalize_path(plain) == plain
    assert not plain.startswith("/")
    assert not {"", ".", ".."} & set(plain.split("/"))


def test_files_that_exclude_each_other() -> None:
    one, other = {"path": "a.csv", "data": b""}, {"path": "A.csv", "data": b""}
    assert refusal([one, other]) == "'a.csv' and 'A.csv' differ in case alone; rename one"
    assert refusal([one, one]) == "'a.csv' is given twice"
    assert refusal([one, {"path": "a.csv/b", "data": b""}]) == (
        "'a.csv' is a file, and 'a.csv/b' needs a directory there"
    )
    half = {"path": "a", "data": b"x" * (INPUT_BYTES // 2 + 1)}
    assert refusal([half, {**half, "path": "b"}]) == (
        f"the files have {INPUT_BYTES + 2} bytes, and at most {INPUT_BYTES} are allowed"
    )
    assert "at most 100 items" in refusal([{"path": str(number), "data": b""} for number in range(101)])


def test_a_file_has_one_source() -> None:
    told = "'a' needs one source: its content, or a file of the workspace or an artifact"
    assert refusal([{"path": "a"}]).endswith(told)
    assert refusal([{"path": "a", "data": b"", "workspace": "b"}]).endswith(told)
    assert refusal([{"path": "a", "workspace": "../b"}]).endswith("'../b' leads out of the working directory")


def test_what_does_not_go_with_a_directory_of_its_own() -> None:
    told = (
        "with `files`, `outputs` or `session` the program works in a separate directory: give its text as `code`, no `file` "
        "and no `cwd`"
    )
    assert refusal([{"path": "a", "data": b""}], cwd="sub") == told
    assert refusal([], outputs=["*"], file="x.py") == told
    assert refusal([], env={"A=B": "1"}) == "'A=B' is not the name of an environment variable with a value"
    assert refusal([], env={"A": "1\0"}) == "'A' is not the name of an environment variable with a value"


def test_the_hash_of_a_request_covers_files_patterns_and_variables() -> None:
    def sha(**given: object) -> str:
        return RuntimeRun.model_validate({"runtime": "python", "code": "1", **given}).sha256

    several = [
        sha(),
        sha(outputs=()),
        sha(outputs=("*",)),
        sha(env={"A": "1"}),
        sha(env={"A": "2"}),
        sha(files=[{"path": "a", "data": b"1"}]),
        sha(files=[{"path": "a", "data": b"2"}]),
        sha(files=[{"path": "a", "workspace": "a"}]),
        sha(files=[{"path": "a", "artifact": "a"}]),
    ]
    assert len(set(several)) == len(several)
    assert InputFile(path="a", data=b"1").identify() == ("a", hashlib.sha256(b"1").hexdigest(), "", "")


def test_a_file_that_was_not_kept_is_not_read() -> None:
    file = OutputFile(path="a", size=1, media_type="text/plain", sha256="", not_kept="no pattern matches it")
    with pytest.raises(UnknownArtifact, match=r"^a was not kept: no pattern matches it$"):
        file.read()
