"""What tests share: a guest to run programs in as the gate runs them, and real MCP servers."""

import atexit
import fcntl
import gc
import hashlib
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from tests.support import forked, proofs
from tests.support.processes import PATIENCE_S, running_workers
from tests.support.servers import make_entry, write_servers
from tests.support.session import SessionRunner

from paddock.confinement.sandbox import interpreter
from paddock.engines.javascript import parse_cache, worker_client
from paddock.engines.programs import outcome_mapping
from paddock.foundation.own_files import take_repairs
from paddock.model.base import Json
from paddock.model.limits import LimitOverrides
from paddock.model.outcome import Outcome
from paddock.model.request import ExecutionRequest, GuestRun
from paddock.policy.settings.schema import AuditSettings, GrantSettings, Settings

# A test must not depend on the machine's speed.
hypothesis.settings.register_profile("paddock", deadline=None)
hypothesis.settings.load_profile("paddock")

# `nohup`, `setsid` and shells in the background ignore or block signals, and children inherit both. They do not inherit a
# handler: exec(2) resets it. So a hangup ends no test run, and yet the processes that tests start hear it. Python itself
# ignores SIGPIPE and SIGXFSZ, and `subprocess` restores these.
for _number in signal.valid_signals() - {signal.SIGPIPE, signal.SIGXFSZ}:
    if signal.getsignal(_number) == signal.SIG_IGN:
        signal.signal(_number, signal.SIG_DFL if _number == signal.SIGCHLD else lambda *_: None)
signal.pthread_sigmask(signal.SIG_SETMASK, ())

ROOT = Path(__file__).resolve().parents[1]

# What Paddock remembers stays out of the state directory of whoever runs the tests.
_STATE = tempfile.TemporaryDirectory(prefix="paddock-tests-")
atexit.register(_STATE.cleanup)
os.environ["XDG_STATE_HOME"] = _STATE.name
parse_cache.find_directory = lambda: Path(_STATE.name) / "intake"

FORKED = ("docs/", "integration/")
"""Rooms whose tests are about what a command does once it runs."""
EXECUTED = (
    "integration/confinement/",
    "integration/test_core_installation.py",
    "integration/test_required_python.py",
    "integration/test_start.py",
)
"""Rooms among them whose tests are about how it starts. `golden/test_commands.py` executes every command too."""

# Whatever else runs on the machine decides no verdict: a test that wants a starved program says so.
outcome_mapping.count_processors = worker_client.count_processors = lambda: 0.0

# On a busy machine the kernel ends killed processes late. Here a supervisor reports none of them as a survivor that ends
# within `PATIENCE_S`.
assert interpreter.CHILD_PROGRAM.endswith("main()")
interpreter.CHILD_PROGRAM = interpreter.CHILD_PROGRAM.replace(
    "main()",
    "setattr(sys.modules.get('paddock.confinement.sandbox.child.supervisor', sys), 'REPORT_WITHIN_S', "
    f"{PATIENCE_S}); main()",
)


class Guest(SessionRunner):
    """Runs programs one after the other through one gate, with the servers `odd` and `even`."""

    def request(
        self,
        source: str,
        *,
        given: Json = None,
        variables: dict[str, str] | None = None,
        raw_results: bool = False,
        jit: bool = False,
        **limits: int,
    ) -> ExecutionRequest:
        """Return the request for a program; every program has a minute unless it asks for less."""
        work = GuestRun(source=source, input=given, vars=variables or {}, raw_results=raw_results)
        overrides = LimitOverrides(**{"timeout_ms": 60_000, **limits})
        return ExecutionRequest(workspace=self.workspace, work=work, limits=overrides, jit=jit)

    def run(self, source: str, **options: Any) -> Outcome:
        """Return what became of a program."""
        return self.execute(self.request(source, **options))

    def compute(self, source: str, given: str = "", **limits: int) -> Outcome:
        """Return what became of a computation."""
        work = GuestRun(source=source, input=given, profile="compute")
        overrides = LimitOverrides(**{"timeout_ms": 60_000, **limits})
        request = ExecutionRequest(workspace=self.workspace, work=work, limits=overrides)
        return self.execute(request)

    def value(self, source: str, **options: Any) -> Json:
        """Return the value of a program that must end well."""
        outcome = self.run(source, **options)
        assert (outcome.status, outcome.error) == ("ok", None)
        return outcome.value

    def failure(self, source: str, **options: Any) -> tuple[str, str, str]:
        """Return status, name and message of the error of a program that must not end well."""
        outcome = self.run(source, **options)
        assert outcome.error is not None, outcome.value
        return outcome.status.value, outcome.error.name, outcome.error.message

    def running_worker(self) -> int:
        """Return the process that runs a program: alone among the workers it has a limit on its data.

        Call it while one runs. A worker before it may still be dying, for the kernel takes its time.
        """
        deadline = time.monotonic() + 60
        while True:
            found = running_workers(os.getpid())
            if len(found) == 1:
                return found[0]
            assert time.monotonic() < deadline, found


@pytest.fixture(autouse=True)
def _forget_repairs() -> None:
    """Have no ledger of this test tell of what was repaired in another."""
    take_repairs()


@pytest.fixture(scope="module", autouse=True)
def _start_of_commands(request: pytest.FixtureRequest) -> Iterator[None]:
    """Start commands by fork in some rooms, on a machine that was proved once, and with exec elsewhere."""
    room = request.path.relative_to(ROOT / "tests").as_posix()
    with ExitStack() as stack:
        if room.startswith(FORKED) and not room.startswith(EXECUTED):
            stack.enter_context(forked.forking())
            stack.enter_context(proofs.remember_proofs())
        yield


@pytest.fixture(scope="session")
def guest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guest]:
    directory = tmp_path_factory.mktemp("guest")
    workspace = directory / "workspace"
    workspace.mkdir()
    # Its time runs on between tests, when nobody hears what it answers.
    entry = make_entry("odd")
    write_servers(workspace, {"odd": entry, "even": entry})
    settings = Settings(audit=AuditSettings(directory=directory / "audit"), grants=GrantSettings(jit=True))
    with Guest(workspace) as guest:
        guest.start(settings)
        yield guest


@pytest.fixture(scope="session")
def as_root():
    """Root's powers. Without them a test fails and says so: one that is skipped would seem to have proved something."""
    if os.geteuid() != 0:
        pytest.fail(
            "this test becomes other users or makes namespaces as root does: run it as root, "
            'or leave out all such tests: pytest -m "not root"',
            pytrace=False,
        )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what wants root, directly or by another fixture."""
    for item in items:
        if "as_root" in getattr(item, "fixturenames", ()):
            item.add_marker("root")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect no garbage among the collected tests and their modules, which stay until the end."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture(scope="session")
def real_servers():
    """Commands of the real MCP servers, installed once into the user's cache."""
    return script("install_servers").install()


@pytest.fixture(scope="session")
def client_python():
    """What gives the Python of an environment with client libraries, installed once into the user's cache."""
    return script("install_clients").install


@pytest.fixture(scope="session")
def kubernetes_tools():
    """The directory of `kubectl` and `kubernetes-validate`, installed once into the user's cache."""
    return script("install_clients").install("kubernetes-tools", ROOT / "tests" / "kubernetes").parent


@pytest.fixture(scope="session")
def toolchain_path():
    """A PATH with the toolchain of every recipe that is tested, installed once into a cache."""
    return script("install_toolchains").install()


@pytest.fixture(scope="session")
def data_environment():
    """An environment of Python with packages for data analysis and a kernel of Jupyter, installed once into a cache."""
    return script("install_toolchains").install_data_environment()


@pytest.fixture(scope="session")
def npm_modules():
    """What gives the `node_modules` of a lock file, below tests or elsewhere: installed once, whoever else asks at the
    time."""

    def install_modules(name, folder=ROOT / "tests"):
        pins = folder / name
        files = [pins / file for file in ("package.json", "package-lock.json")]
        digest = hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        place = cache / "paddock-tests" / f"{name}-{digest[:16]}"
        place.mkdir(parents=True, exist_ok=True)
        with (place / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not (place / "complete").exists():
                for path in files:
                    shutil.copy(path, place)
                command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
                subprocess.run(command, cwd=place, check=True)
                (place / "complete").touch()
        return place / "node_modules"

    return install_modules


def script(name):
    """Return a script of the project as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
