"""Python environments that exist already: used where the user grants it, and no way out of the sandbox."""

import sys
import tempfile
import venv
from functools import partial
from pathlib import Path

import pytest

PREFIX = "import sys; print(sys.prefix)"
THING = "import thing; print(thing.word)"
OFF = "runtimes.workspace_environment is off, because programs may have changed what is in the workspace"


@pytest.fixture(scope="module")
def open_programs(open_programs):
    """Open gates whose jobs reach the interpreter of the tests, which may lie in root's home."""
    return partial(open_programs, job_user=0)


def make(folder: Path, word: str = "inside") -> Path:
    """Make an environment with one package."""
    venv.EnvBuilder(symlinks=True, with_pip=False).create(folder)
    [packages] = (folder / "lib").glob("python*/site-packages")
    (packages / "thing.py").write_text(f"word = {word!r}")
    return folder


GRANT = "set runtimes.workspace_environment = true in the user's paddock.toml"


def hint(interpreter: str, told: str = "", module: str = "thing", package: str = "thing") -> str:
    return (
        f"{module} is not installed for {interpreter}, which ran this program. {told}Run the program with "
        f'packages = ["{package}"] (paddock exec --package {package}), name an environment that has it with '
        f"runtimes.python.environment in the user's paddock.toml, or install it for that interpreter: {interpreter} "
        f"-m pip install {package}"
    )


@pytest.fixture(params=["landlock", "namespaces"])
def tier(request):
    return request.param


@pytest.fixture
def elsewhere():
    """A directory outside of those that each jail has of its own."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.fixture(autouse=True)
def _nothing_is_activated(monkeypatch):
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)


def test_that_of_the_workspace_is_used_where_the_user_grants_it(open_programs, tier):
    programs = open_programs(tier, workspace_environment=True)
    folder = make(programs.workspace / ".venv")
    assert programs.text("python", f"{THING}; {PREFIX}") == f"inside\n{folder}\n"
    (programs.workspace / "main.py").write_text(THING)
    assert programs.text("python", THING, file="main.py") == "inside\n"


def test_without_the_grant_it_is_passed_over_and_named(open_programs, tier):
    programs = open_programs(tier)
    folder = make(programs.workspace / ".venv")
    outcome = programs.run("python", THING)
    interpreter = programs.text("python", "import sys; print(sys.executable)").strip()
    assert (outcome.status, outcome.program.exit_code) == ("failed", 1)
    assert outcome.error.hint == hint(interpreter, f"{folder} was not used: {OFF}. To use it, {GRANT}. ")
    (folder / "pyvenv.cfg").unlink()
    assert programs.run("python", THING).error.hint == hint(interpreter)
    missing = programs.run("python", "import sys; sys.path.clear(); import yaml")
    assert missing.error.hint == hint(interpreter, module="yaml", package="pyyaml")


def test_a_program_that_may_not_read_the_workspace_is_told_so_and_nothing_of_what_is_there(
    open_programs, monkeypatch
):
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    programs = open_programs("namespaces")
    folder = make(programs.workspace / ".venv")
    (programs.workspace / "thing.py").write_text("")
    outcome = programs.run("python", THING, access="none")
    interpreter = programs.text("python", "import sys; print(sys.executable)", access="none").strip()
    assert outcome.error.hint == hint(
        interpreter,
        "It may not read the workspace (access none): request the access read-only to import what is there. "
        f"{folder} was not used: {OFF}; the program may not read the workspace. To use it, {GRANT} and request the "
        "access read-only. ",
    )
    (programs.workspace / "thing.py").unlink()
    assert programs.run("python", THING, access="none").error.hint == outcome.error.hint


def test_a_module_of_python_itself_is_no_package(open_programs):
    programs = open_programs("landlock")
    interpreter = programs.text("python", "import sys; print(sys.executable)").strip()
    code = "raise ModuleNotFoundError(\"No module named 'tkinter'\")"
    assert programs.run("python", code).error.hint == (
        f"tkinter is not installed for {interpreter}, which ran this program. It is part of Python, but "
        f"{interpreter} was built without it: use another interpreter"
    )


def test_a_module_name_of_any_length_is_no_hint(open_programs):
    programs = open_programs("landlock")
    code = "raise ModuleNotFoundError('No module named ' + 'x' * 101)"
    assert "x" * 50 not in programs.run("python", code).error.hint


def test_a_module_of_the_program_itself_is_no_package(open_programs):
    programs = open_programs("landlock")
    (programs.workspace / "thing.py").write_text("")
    assert programs.run("python", THING).error.hint.startswith("inline code cannot import files beside it")


def test_the_activated_one_comes_before_others(open_programs, monkeypatch):
    programs = open_programs("landlock", workspace_environment=True)
    make(programs.workspace / ".venv")
    monkeypatch.setenv("VIRTUAL_ENV", str(make(programs.workspace / "env", "activated")))
    assert programs.text("python", THING) == "activated\n"
    monkeypatch.setenv("VIRTUAL_ENV", str(make(programs.workspace.parent / "env", "outside")))
    assert programs.text("python", THING) == "inside\n"


def test_no_program_changes_the_environment_that_runs_it(open_programs):
    programs = open_programs("namespaces", workspace_environment=True, access="workspace-write")
    folder = make(programs.workspace / ".venv")
    code = """
import os, thing
for attempt in (
    lambda: open(thing.__file__, "w"),
    lambda: os.symlink("/bin/sh", ".venv/bin/pytest"),
    lambda: os.rename(".venv", "moved"),
    lambda: os.rename(".venv/bin", ".venv/bin2"),
    lambda: os.unlink(".venv/bin/python3"),
):
    try:
        attempt()
        print("done")
    except OSError as error:
        print(error.strerror)
open("made", "w")
"""
    told = programs.text("python", code, access="workspace-write").splitlines()
    assert told == [*["Read-only file system"] * 2, "Device or resource busy", *["Read-only file system"] * 2]
    assert (programs.workspace / "made").exists()
    assert sorted(path.name for path in programs.workspace.iterdir()) == [".venv", "made"]
    assert (folder / "bin" / "python3").exists()


def test_where_it_could_be_changed_it_is_passed_over(open_programs):
    programs = open_programs("landlock", workspace_environment=True, access="workspace-write")
    folder = make(programs.workspace / ".venv")
    outcome = programs.run("python", THING, access="workspace-write")
    why = "in the tier landlock a program that may write to the workspace could change it"
    assert f" {folder} was not used: {why}. " in outcome.error.hint
    assert f" {folder} was not used: the program may not read the workspace. " in (
        programs.run("python", THING, access="none").error.hint
    )


def test_no_interpreter_out_of_the_workspace_runs_outside_of_the_sandbox(open_programs, tier, tmp_path):
    programs = open_programs(tier, workspace_environment=True)
    folder, marker = make(programs.workspace / ".venv"), tmp_path / "ran"
    for path in (folder / "bin").glob("python*"):
        path.unlink()
        path.write_text(f"#!/bin/sh\ntouch {marker}\necho /usr/bin/python3\n")
        path.chmod(0o755)
    outcome = programs.run("python", THING)
    interpreter = folder / "bin" / "python3"
    assert outcome.status == "unavailable"
    assert outcome.error.message == (
        f"Python cannot be run here: {folder} cannot be used: its interpreter {interpreter} is in the workspace, "
        "not outside"
    )
    assert outcome.error.hint == "make it again, or change runtimes.workspace_environment in the settings"
    assert not marker.exists()


def test_links_of_an_environment_open_nothing(open_programs, tier, tmp_path):
    programs = open_programs(tier, workspace_environment=True)
    for name in ("bin", "lib"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "secret").write_text("hidden")
    (tool := tmp_path / "bin" / "tool").write_text("#!/bin/sh\n")
    tool.chmod(0o755)
    folder = make(programs.workspace / ".venv")
    real = (folder / "bin" / "python3").resolve()

    def error() -> str:
        return programs.run("python", "1").error.message.partition("cannot be used: ")[2]

    (interpreter := folder / "bin" / "python3").unlink()
    interpreter.symlink_to(tool)
    assert error() == f"{interpreter} leads to {tool}, which is not in an installation of Python"
    interpreter.unlink()
    interpreter.symlink_to(real)
    (folder / "lib").rename(folder / "old")
    (folder / "lib").symlink_to(tmp_path / "lib")
    code = f"""
for path in {str(tmp_path / "lib" / "secret")!r}, {str(folder / "lib" / "secret")!r}:
    try:
        print(open(path).read())
    except OSError:
        print("closed")
"""
    assert programs.text("python", code) == "closed\nclosed\n"
    (folder / "bin").rename(tmp_path / "moved")
    (folder / "bin").symlink_to(tmp_path / "moved")
    assert error() == "it is a link, or its bin is one"
    folder.rename(tmp_path / "venv")
    folder.symlink_to(tmp_path / "venv")
    assert not programs.text("python", PREFIX).startswith(str(tmp_path / "venv"))


def test_one_that_the_user_names_is_used_and_is_read_only(open_programs, tier, tmp_path):
    folder = make(tmp_path / "data", "named")
    (folder / "share").mkdir()
    (folder / "share" / "table").write_text("rows")
    programs = open_programs(tier, access="workspace-write", python={"environment": folder})
    make(programs.workspace / ".venv")
    code = """
import sys, thing
print(thing.word, sys.prefix, open(sys.prefix + "/share/table").read())
try:
    open(thing.__file__, "w")
except OSError as error:
    print(error.strerror)
"""
    told = "Read-only file system" if tier == "namespaces" else "Permission denied"
    assert programs.text("python", code, access="workspace-write") == f"named {folder} rows\n{told}\n"
    assert programs.text("python", THING) == "named\n"


def test_one_that_leads_to_its_interpreter_through_links_works(open_programs, tier, elsewhere):
    """As uv lays them out: `python3` to `python`, and that through a link in the place of a directory."""
    (link := elsewhere / "cpython-3").symlink_to(sys.base_prefix)
    folder = make(elsewhere / "data")
    for path in (folder / "bin").glob("python*"):
        path.unlink()
    (folder / "bin" / "python").symlink_to(link / "bin" / "python3")
    (folder / "bin" / "python3").symlink_to("python")
    (folder / "pyvenv.cfg").write_text(f"home = {link}/bin\nversion_info = 3\n")
    programs = open_programs(tier, python={"environment": folder})
    assert programs.text("python", f"{THING}; {PREFIX}") == f"inside\n{folder}\n"


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("missing", "it is not an environment: it has neither pyvenv.cfg nor conda-meta"),
        ("broken", "its interpreter is missing: {folder}/bin has no python3 or python"),
    ],
)
def test_one_that_cannot_be_used_is_not_replaced_by_another(open_programs, tmp_path, name, why):
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "pyvenv.cfg").touch()
    folder = tmp_path / name
    outcome = open_programs("landlock", python={"environment": folder}).run("python", PREFIX)
    assert (outcome.status, outcome.error.message, outcome.error.hint) == (
        "unavailable",
        f"Python cannot be run here: {folder} cannot be used: {why.format(folder=folder)}",
        "make it again, or change runtimes.python.environment in the settings",
    )


def test_one_of_the_workspace_that_the_user_names_is_held_to_the_same(open_programs, tmp_path):
    programs = open_programs("landlock", access="workspace-write")
    named = open_programs(
        "landlock", access="workspace-write", python={"environment": programs.workspace / ".venv"}
    )
    make(programs.workspace / ".venv")
    named.workspace = programs.workspace
    assert named.text("python", THING) == "inside\n"
    for access, why in (
        ("workspace-write", "in the tier landlock a program that may write to the workspace could change it"),
        ("none", "the program may not read the workspace"),
    ):
        error = named.run("python", THING, access=access).error
        assert (error.message, error.hint) == (
            f"Python cannot be run here: {programs.workspace}/.venv cannot be used: {why}",
            "request the access read-only, or change runtimes.python.environment in the settings",
        )


def test_other_languages_have_no_such_environment(open_programs):
    programs = open_programs("landlock", python={"environment": Path("/nowhere")})
    assert programs.text("shell", "echo shell") == "shell\n"


def test_a_package_of_npm_is_named_with_the_ways_to_it(open_programs):
    programs = open_programs("landlock")
    for code, name in (
        ("require('lodash')", "lodash"),
        ("import('@scope/name/inner.js')", "@scope/name"),
    ):
        assert programs.run("node", code).error.hint == (
            f'{name} is not installed. Run the program with packages = ["{name}"] (paddock exec node --package {name}).'
            " Inline code does not see the node_modules of the workspace: save it there and run that file, for "
            "instance: paddock exec node ./main.js"
        )
    assert programs.run("node", "require('./own')").error.hint.startswith(
        "inline code cannot import files beside it"
    )
