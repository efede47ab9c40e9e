"""Libraries that programs bring along: bundled as users bundle them, or as their UMD file, they run like anywhere else."""

import subprocess
import tomllib

import pytest
from tests.conftest import ROOT, Guest
from tests.support.processes import PATIENCE_S

from paddock.engines.javascript import parse
from paddock.model.limits import MIB
from paddock.policy.settings.profiles import ExecuteLimits, LimitSettings
from paddock.policy.settings.schema import AuditSettings, Settings

PROGRAMS = tomllib.loads((ROOT / "tests/bundles/programs.toml").read_text())
FLAGS = ("--bundle", "--format=esm", "--platform=browser", "--log-level=error")


@pytest.fixture(scope="module")
def bundles(npm_modules, tmp_path_factory):
    """The text of each program with what it imports, by name."""
    modules = npm_modules("bundles")
    folder = tmp_path_factory.mktemp("bundles")
    imported = {name: program for name, program in PROGRAMS.items() if "file" not in program}
    for name, program in imported.items():
        (folder / f"{name}.entry.js").write_text(program["source"])
    command = [modules / ".bin/esbuild", *FLAGS, f"--outdir={folder}/out", *folder.glob("*.entry.js")]
    subprocess.run(command, check=True, env={"NODE_PATH": str(modules), "PATH": "/usr/bin:/bin"}, timeout=300)
    built = {name: (folder / f"out/{name}.entry.js").read_text() for name in imported}
    return built | {
        name: f"{(modules / program['file']).read_text()}\n;{program['source']}"
        for name, program in PROGRAMS.items()
        if "file" in program
    }


@pytest.fixture(scope="module")
def roomy(tmp_path_factory):
    """A guest that takes programs of two megabytes, and parses them on a busy machine too."""
    folder = tmp_path_factory.mktemp("roomy")
    limits = LimitSettings(execute=ExecuteLimits(code_bytes=2 * MIB))
    settings = Settings(audit=AuditSettings(directory=folder / "audit"), limits=limits)
    with pytest.MonkeyPatch.context() as patch, Guest(folder) as guest:
        patch.setattr(parse, "_PARSE_TIMEOUT_S", PATIENCE_S)
        guest.start(settings)
        yield guest


@pytest.mark.parametrize("name", [name for name, program in PROGRAMS.items() if "value" in program])
def test_a_bundled_library_runs(bundles, roomy, name):
    assert roomy.value(bundles[name]) == PROGRAMS[name]["value"]


@pytest.mark.parametrize("name", [name for name, program in PROGRAMS.items() if "refused" in program])
def test_a_library_that_makes_code_or_needs_sloppy_mode_is_refused(bundles, roomy, name):
    outcome = roomy.run(bundles[name])
    assert outcome.status == "failed"
    assert f"{outcome.error.name}: {outcome.error.message}" == PROGRAMS[name]["refused"]
