"""Which file of the workspace a program may not use: only where its mode says so, and nothing beyond what it may see."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.engines.programs.closed_files import find_closed_file
from paddock.engines.programs.recipe import recipes
from paddock.engines.programs.task import ProgramTask
from paddock.model.program import Access, ProgramGrants, ProgramTerms
from paddock.model.request import RuntimeRun

USER = 65531
ME = os.geteuid()
MODES = {"data/secret.csv": 0o600, "data/open.csv": 0o644, "two words.txt": 0o600, "closed/inner.txt": 0o644}


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("workspace")
    for name, mode in MODES.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("x")
        path.chmod(mode)
    (folder / "data").chmod(0o755)
    (folder / "closed").chmod(0o700)
    (folder / "link").symlink_to(folder / "data" / "secret.csv")
    (folder / "away").symlink_to("/etc")
    return folder


def job(workspace: Path, access: Access = "read-only", cwd: str = ".") -> ProgramTask:
    terms = ProgramTerms(grants=ProgramGrants(access=access))
    return ProgramTask(
        RuntimeRun(runtime="python", code="1"),
        terms,
        workspace,
        (workspace / cwd).resolve(),
        recipes()["python"],
    )


def told(name: str, mode: str, what: str, command: str) -> str:
    return (
        f"{name} belongs to user {ME} and has mode {mode}; programs run as user {USER}, which may not {what} it. "
        f"Let that user {what} it: {command}"
    )


SECRET = told("data/secret.csv", "0600", "read", "chmod o+r data/secret.csv")


@pytest.mark.parametrize(
    "said",
    [
        "PermissionError: [Errno 13] Permission denied: 'data/secret.csv'",
        "PermissionError: [Errno 13] Permission denied: '{workspace}/data/secret.csv'",
        "cat: data/secret.csv: Permission denied",
        "code.sh: line 1: data/secret.csv: Permission denied",
        "Error: EACCES: permission denied, open '{workspace}/data/secret.csv'",
        "code.rb:1:in `initialize': Permission denied @ rb_sysopen - data/secret.csv (Errno::EACCES)",
        "open data/secret.csv: permission denied",
        "java.nio.file.AccessDeniedException: data/secret.csv",
        "java.io.FileNotFoundException: data/secret.csv (Permission denied)",
        "Warning: file_get_contents(data/secret.csv): Failed to open stream: Permission denied in code.php on line 1",
        "cannot open file 'data/secret.csv': Permission denied",
        "System.UnauthorizedAccessException: Access to the path '{workspace}/data/secret.csv' is denied.",
        "Permission denied: 'data/open.csv'\nPermission denied: './data/../data/secret.csv'\nand more",
    ],
)
def test_the_file_is_named_with_its_mode_and_its_owner(workspace: Path, said: str) -> None:
    assert find_closed_file(said.replace("{workspace}", str(workspace)), job(workspace), USER) == SECRET


def test_paths_are_those_of_the_working_directory(workspace: Path) -> None:
    assert find_closed_file("cat: secret.csv: Permission denied", job(workspace, cwd="data"), USER) == SECRET
    two = told("two words.txt", "0600", "read", "chmod o+r 'two words.txt'")
    assert (
        find_closed_file("cat: ../two words.txt: Permission denied", job(workspace, cwd="data"), USER) == two
    )


def test_what_is_open_or_elsewhere_is_not_named(workspace: Path) -> None:
    for name in (
        "data/open.csv",
        "absent",
        ".",
        "..",
        "../x",
        "/etc/shadow",
        "link",
        "away/shadow",
        "",
        "a\0b",
        "data/open.csv/x",
    ):
        assert find_closed_file(f"Permission denied: '{name}'", job(workspace), USER) == ""
    assert find_closed_file("No such file: 'data/secret.csv'", job(workspace), USER) == ""
    assert find_closed_file("Permission denied: 'data/secret.csv'", job(workspace, "none"), USER) == ""
    assert find_closed_file("Permission denied: 'data/secret.csv'", job(workspace), None) == ""


def test_nothing_is_told_of_what_is_in_a_closed_directory(workspace: Path) -> None:
    closed = told("closed", "0700", "enter", "chmod o+x closed")
    for name in ("closed/inner.txt", "closed/absent.txt"):
        assert find_closed_file(f"Permission denied: '{name}'", job(workspace), USER) == closed


def test_a_file_that_may_be_written_to_nowhere_but_is_granted(workspace: Path) -> None:
    writes = job(workspace, "workspace-write")
    for name, mode in (("data/open.csv", "0644"), ("data", "0755")):
        expected = told(name, mode, "write to", f"chown {USER} {name}")
        assert find_closed_file(f"Permission denied: '{name}'", writes, USER) == expected
    assert find_closed_file("Permission denied: 'data/new.csv'", writes, USER) == told(
        "data", "0755", "write to", f"chown {USER} data"
    )


def test_the_owner_can_be_the_user_of_programs_instead(as_root: None, workspace: Path) -> None:
    path = workspace / "theirs.txt"
    path.write_text("x")
    path.chmod(0o600)
    os.chown(path, 1234, 1234)
    assert find_closed_file("cat: theirs.txt: Permission denied", job(workspace), USER) == (
        "theirs.txt belongs to user 1234 and has mode 0600; programs run as user 65531, which may not read it. Let "
        'that user read it: chmod o+r theirs.txt, or set job_user = "1234" under [sandbox]'
    )


@given(st.text(max_size=300))
def test_any_words_are_harmless(workspace: Path, said: str) -> None:
    found = find_closed_file(f"Permission denied: {said}", job(workspace), USER)
    assert found == "" or "closed" in found or "secret.csv" in found or "two words" in found


def test_many_words_are_looked_at_in_bounded_time(workspace: Path) -> None:
    assert find_closed_file("permission denied " + "a/ " * 3000, job(workspace), USER) == ""
