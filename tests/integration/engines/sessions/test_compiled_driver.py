"""The driver of Python sessions is compiled once for each interpreter, and the cache of compiled programs keeps it."""

import venv
from pathlib import Path
from typing import Any

from platformdirs import user_cache_path

from paddock import BlockingPaddock

NAME = "print(open('/proc/self/cmdline').read().split(chr(0))[1].rpartition('/')[2])"
"""Prints the name of the file that the interpreter of the session runs."""
COMPILED, TEXT = "program\n", "program.py\n"
POISON = """
import marshal
dumps = marshal.dumps
marshal.dumps = lambda _: dumps(compile("print('poisoned')", "poison", "exec"))
"""
"""Has every compiled file be another program."""


def open_sessions(workspace: Path, count: int, **runtimes: Any) -> list[str]:
    """Return what the first programs of sessions print that one Paddock opens one after another."""
    with BlockingPaddock(workspace, overrides={"runtimes": {"timeout_ms": 120_000, **runtimes}}) as p:
        return [p.exec("python", NAME, session="new").check().text for _ in range(count)]


def list_kept() -> list[tuple[str, int]]:
    """Return the files in the cache of compiled programs, and when they were made."""
    return [(path.name, path.stat().st_mtime_ns) for path in user_cache_path("paddock").glob("programs/*/*")]


def make_environment(folder: Path) -> Path:
    venv.EnvBuilder(symlinks=True, with_pip=False).create(folder)
    [packages] = folder.glob("lib/python*/site-packages")
    (packages / "sitecustomize.py").write_text(POISON)
    return folder


def test_sessions_of_all_processes_share_one_compiled_driver(workspace: Path) -> None:
    assert open_sessions(workspace, 1) == [COMPILED]
    [kept] = list_kept()
    assert open_sessions(workspace, 2) == [COMPILED, COMPILED]
    assert list_kept() == [kept]


def test_without_the_cache_the_driver_is_not_compiled_each_time(workspace: Path) -> None:
    assert open_sessions(workspace, 3, cache_bytes=0) == [COMPILED, COMPILED, TEXT]
    assert list_kept() == []


def test_packages_cannot_change_the_compiled_driver(workspace: Path, tmp_path: Path) -> None:
    python = {"environment": str(make_environment(tmp_path / "environment"))}
    assert open_sessions(workspace, 2, python=python) == [COMPILED, COMPILED]


def test_an_environment_of_the_workspace_compiles_nothing(workspace: Path) -> None:
    make_environment(workspace / ".venv")
    assert open_sessions(workspace, 2, workspace_environment=True) == [TEXT, TEXT]
    assert list_kept() == []


def test_lines_of_programs_are_found_whenever_linecache_is_imported(workspace: Path) -> None:
    look = "import linecache; print(linecache.getline('In [1]', 1), linecache.getline('In [3]', 1), sep='|')"
    with BlockingPaddock(workspace) as p, p.session("python") as s:
        s.run("'first'; 1").check()
        s.run("import sys; assert 'linecache' not in sys.modules").check()
        assert s.run(f"{look}  # third").check().text == f"'first'; 1|{look}  # third\n"
