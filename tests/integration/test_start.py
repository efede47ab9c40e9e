"""What a command loads and makes before it does anything, counted: a start that takes long is felt at every command."""

import json
import os
import subprocess
import sys
from pathlib import Path
from threading import Timer
from typing import NamedTuple

import pytest
from tests.support.golden import check_golden
from tests.support.processes import PATIENCE_S

_REPORT = """
import json, sys
sys.argv[1:] = {arguments!r}
from paddock.engines.javascript.launch import Launcher
early = []
def note_start(begin):
    def begun(self, *profile):
        early.append([begin.__name__, *profile, *(name for name in ("click", "pydantic") if name in sys.modules)])
        begin(self, *profile)
    return begun
Launcher.prestart_fork_server = note_start(Launcher.prestart_fork_server)
Launcher.prestart_parse_worker = note_start(Launcher.prestart_parse_worker)
from paddock.surfaces.cli import main
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
values = []
if "pydantic" in sys.modules:
    from paddock.model.base import Value
    waiting = [Value]
    while waiting:
        waiting += (kinds := waiting.pop().__subclasses__())
        values += [kind.__name__ for kind in kinds if kind.__module__.endswith((".settings.schema", ".settings.profiles"))
                   and kind.__pydantic_complete__]
json.dump([sorted(sys.modules), values, early], sys.stderr)
"""


class Start(NamedTuple):
    modules: set[str]
    """What is loaded at the end."""
    settings: list[str]
    """Settings for which a validator was made."""
    early: list[object]
    """What was begun early, and which heavy libraries were loaded by then."""


def started(home: Path, *arguments: str, stdin: str = "") -> Start:
    environment = {"PATH": os.environ["PATH"], "HOME": str(home)}
    done = subprocess.run(
        [sys.executable, "-c", _REPORT.format(arguments=list(arguments))],
        input=stdin,
        capture_output=True,
        text=True,
        check=True,
        cwd=home,
        env=environment,
        timeout=PATIENCE_S,
    )
    modules, settings, early = json.loads(done.stderr)
    return Start(set(modules), settings, early)


LIBRARIES = {
    *("anyio", "cryptography", "httpx", "jsonschema_rs", "keyring", "mcp", "obstore", "py_mini_racer", "re2"),
    *("rich", "yaml", "zstandard", "opentelemetry", "prometheus_client", "requests"),
    *("difflib", "numpy", "onnxruntime", "sqlite3", "tokenizers", "tomllib"),
}
"""Libraries that no program needs which calls nothing."""

ROOMS = {
    *(
        "paddock.confinement.sandbox.tiers",
        "paddock.confinement.sandbox.spec",
        "paddock.gate.sequences",
        "paddock.engines.servers.config",
        "paddock.engines.servers.catalog.semantic_choice",
        "paddock.engines.servers.calls.hub",
    ),
    *(
        "paddock.model.artifact",
        "paddock.record.output.digest.digest",
        "paddock.foundation.schema.check",
        "paddock.policy.redaction.values",
    ),
    *(
        "paddock.engines.programs.engine",
        "paddock.engines.programs.toolchain",
        "paddock.record.output.artifacts",
        "paddock.record.output.query",
    ),
    *(
        "paddock.engines.sdk.notes",
        "paddock.engines.secrets.vault",
        "paddock.surfaces.rendering.computation",
        "paddock.surfaces.client",
    ),
    *("paddock.surfaces.mcp_server", "paddock.record.telemetry", "paddock.engines.script_tools"),
}
"""Rooms of work that such a program does not ask for."""


@pytest.mark.parametrize("name", ["hello.js", "hello.ts"])
def test_a_script_loads_what_it_needs(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("console.log(1)")
    start = started(tmp_path, "run", f"./{name}")
    assert start.modules & (LIBRARIES | ROOMS) == set()
    assert start.settings == []
    assert start.early == [["prestart_fork_server", "guest"], ["prestart_parse_worker"]]


STARTS = {
    "version": ("--version",),
    "run": ("run", "./hello.js"),
    "exec": ("exec", "shell", "-c", ":"),
}


def test_what_each_start_loads_is_listed(tmp_path: Path) -> None:
    """A module that comes to a start costs every run of it: add it to the list knowingly, or import it later."""
    (tmp_path / "hello.js").write_text("console.log(1)")
    shown = [sys.executable, "-c", "import json, sys, paddock; print(json.dumps(sorted(sys.modules)))"]
    done = subprocess.run(shown, capture_output=True, text=True, check=True, env={}, timeout=PATIENCE_S)
    loaded = {"import paddock": set(json.loads(done.stdout))}
    loaded |= {name: started(tmp_path, *arguments).modules for name, arguments in STARTS.items()}
    check_golden("starts", {name: list_modules(modules) for name, modules in loaded.items()})


def list_modules(modules: set[str]) -> list[str]:
    """Return modules of Paddock, and the names of other packages: the standard library is not the same everywhere."""
    own = {name for name in modules if name.partition(".")[0] == "paddock"}
    found = {name.partition(".")[0] for name in modules - own} - sys.stdlib_module_names
    return sorted(own | {name for name in found if not name.startswith("_")})


def test_a_script_that_was_read_before_needs_no_reader(tmp_path: Path) -> None:
    folder = tmp_path / ".paddock" / "scripts"
    folder.mkdir(parents=True)
    (folder / "hello.ts").write_text("const a: number = 1; console.log(a)")
    assert started(tmp_path, "run", "hello").early == [
        ["prestart_fork_server", "guest"],
        ["prestart_parse_worker"],
    ]
    assert started(tmp_path, "run", "hello").early == [["prestart_fork_server", "guest"]]
    (folder / "hello.ts").write_text("const a: number = 2; console.log(a)")
    assert started(tmp_path, "run", "hello").early == [
        ["prestart_fork_server", "guest"],
        ["prestart_parse_worker"],
    ]


def test_a_computation_loads_what_it_needs(tmp_path: Path) -> None:
    start = started(tmp_path, "compute", stdin='{"source": "emit(read_input())", "input": "1"}')
    assert start.modules & (LIBRARIES | ROOMS) == {"paddock.surfaces.rendering.computation"}
    assert start.settings == []
    assert start.early == [["prestart_fork_server", "guest"]]


def test_a_granted_jit_is_begun_early_too(tmp_path: Path) -> None:
    (tmp_path / "hello.js").write_text("console.log(1)")
    assert started(tmp_path, "run", "--jit", "./hello.js").early == [
        ["prestart_fork_server", "guest-jit"],
        ["prestart_parse_worker"],
    ]


def test_a_setting_makes_the_validators_of_settings(tmp_path: Path) -> None:
    (tmp_path / "hello.js").write_text("console.log(1)")
    start = started(tmp_path, "run", "./hello.js", "--set", "limits.script.sleep_ms=50")
    assert "Settings" in start.settings


@pytest.mark.parametrize("arguments", [["--version"], ["--help"], ["completion", "bash"]])
def test_a_question_starts_nothing(tmp_path: Path, arguments: list[str]) -> None:
    start = started(tmp_path, *arguments)
    assert start.modules & {"asyncio", "pydantic", "platformdirs"} == set()
    assert start.early == []


def test_help_of_a_command_starts_nothing(tmp_path: Path) -> None:
    assert started(tmp_path, "run", "--help").early == []


def test_a_command_loads_nothing_that_other_packages_would_have_validation_load(tmp_path):
    """A plugin of pydantic sees every value; the command line is no place for somebody else's code."""
    folder = tmp_path / "plugin-1.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: plugin\nVersion: 1\n")
    (folder / "entry_points.txt").write_text("[pydantic]\nplugin = plugin:it\n")
    (tmp_path / "plugin.py").write_text("import sys; sys.stderr.write('loaded'); it = None\n")
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONPATH": str(tmp_path)}
    plain = "from pydantic import BaseModel\nclass A(BaseModel): pass"
    start = "import sys; sys.argv[1:] = ['doctor', '--json']; from paddock.surfaces.cli import main; main()"
    told = {}
    for name, code in (("plain", plain), ("start", start)):
        done = subprocess.run(
            [sys.executable, "-c", code],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            cwd=tmp_path,
            env=environment,
            timeout=PATIENCE_S,
        )
        told[name] = "loaded" in done.stderr
    assert told == {"plain": True, "start": False}


@pytest.mark.parametrize("arguments", [("serve", "mcp"), ("temporal", "serve")])
def test_what_lives_long_looks_for_garbage_as_often_as_other_processes(tmp_path, arguments):
    code = (
        "import gc, sys; sys.argv[1:] = {!r}; usual = gc.get_threshold(); given = gc.set_threshold; "
        "gc.set_threshold = lambda *to: (given(*to), print(to == usual, flush=True)); "
        "from paddock.surfaces.cli import main; main()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code.format(list(arguments))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
    ) as serving:
        assert serving.stdout is not None
        patience = Timer(PATIENCE_S, serving.kill)
        patience.start()
        told = [serving.stdout.readline() for _ in range(2)]
        patience.cancel()
        serving.terminate()
    assert told == ["False\n", "True\n"]
