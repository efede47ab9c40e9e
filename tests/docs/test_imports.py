"""What is loaded when: the import budget, the processes without site-packages, and the installed package."""

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import paddock

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = Path(paddock.__file__).parent
HEAVY = {
    "pydantic",
    "mcp",
    "rich",
    "asyncio",
    "anyio",
    "platformdirs",
    "ulid_transform",
    "py_mini_racer",
    "obstore",
    "re2",
}
CONFINED = [
    "paddock.engines.javascript.child.fork_server",
    "paddock.engines.javascript.child.worker",
    "paddock.engines.javascript.child.parse_worker",
    "paddock.confinement.sandbox.child.lockdown",
]


def loaded(code, *flags):
    """Return the top-level names of the modules that are loaded after `code` ran in a fresh interpreter."""
    report = "\nimport json, sys\nprint(json.dumps(sorted({name.partition('.')[0] for name in sys.modules})))"
    done = subprocess.run(
        [sys.executable, *flags, "-c", code + report], capture_output=True, text=True, check=True, timeout=60
    )
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_importing_the_package_loads_nothing_heavy():
    assert loaded("import paddock") & HEAVY == set()


@pytest.mark.parametrize("platform", ["darwin", "win32"])
@pytest.mark.parametrize("module", ["paddock", "paddock.surfaces.cli", "paddock.policy.settings.schema"])
def test_another_platform_than_linux_is_refused_at_the_door(platform, module):
    code = f"import sys; sys.platform = {platform!r}; import {module}"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stderr.splitlines()[-1]) == (
        1,
        f"ImportError: Paddock runs on Linux, and this is {platform}. On Windows, install it in WSL 2. On macOS, and on "
        "Windows without WSL, run it in a container: docs/docker.md.",
    )


@pytest.mark.parametrize("module", CONFINED)
def test_confined_processes_load_the_standard_library_alone(module):
    code = f"import sys; sys.path.insert(0, {str(PACKAGE.parent)!r}); import {module}"
    assert loaded(code, "-I", "-S") <= sys.stdlib_module_names | {"paddock", "__main__"}


@pytest.mark.parametrize(
    ("folder", "allowed"),
    [
        ("confinement/sandbox/child", {"paddock.confinement.sandbox.child"}),
        (
            "engines/javascript/child",
            {"paddock.engines.javascript.child", "paddock.confinement.sandbox.child"},
        ),
    ],
)
def test_child_processes_import_the_standard_library_and_their_own_folder(folder, allowed):
    files = sorted((PACKAGE / folder).glob("*.py"))
    assert len(files) > 5
    foreign = {
        f"{path.name}: {name}"
        for path in files
        for name in imported(path)
        if name.partition(".")[0] not in sys.stdlib_module_names
        and not any(f"{name}.".startswith(f"{room}.") for room in allowed)
    }
    assert foreign == set()


def imported(path):
    """Return the names of modules that a file imports, those inside of functions too."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0
            yield node.module


def test_public_names_are_listed_in_order():
    public = getattr(paddock, "__all__", [])
    assert list(public) == sorted(public)
    assert [name for name in public if getattr(paddock, name).__doc__ is None] == []


def test_the_package_under_test_is_the_one_that_is_meant():
    place = ROOT / "src" / "paddock"
    assert (
        (PACKAGE.parent.name == "site-packages") if os.environ.get("TEST_INSTALLED") else (place == PACKAGE)
    )


def test_the_package_holds_its_data():
    source = ROOT / "src" / "paddock"
    files = {
        path.relative_to(source) for path in source.rglob("*") if path.is_file() and path.suffix != ".pyc"
    }
    assert {path.suffix for path in files} >= {".bpf", ".js", ".json", ".typed", ".wasm", ".LICENSE"}
    assert {path.as_posix() for path in files if not (PACKAGE / path).is_file()} == set()
