"""The same work by other means: one process of node or deno for each program, neither of them confined."""

import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

PINS = Path(__file__).with_name("peers.txt")

_NODE_VM = """
const vm = require("vm");
const program = `'use strict'; (async () => { return 1 + 1; })()`;
const running = new vm.Script(program).runInContext(vm.createContext({ console }));
running.then((value) => console.log(JSON.stringify(value)));
"""
_DENO = "console.log(JSON.stringify(await (async () => { 'use strict'; return 1 + 1; })()));"


def bare_environment() -> dict[str, str]:
    """Return what any program needs; variables such as NODE_OPTIONS or NODE_EXTRA_CA_CERTS double a start."""
    return {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}


@cache
def node() -> str:
    """Return node's path. Raises FileNotFoundError."""
    if (found := shutil.which("node")) is None:
        raise FileNotFoundError("node is not on the PATH: install Node.js 20 or later")
    return found


def deno_release() -> str:
    """Return the pinned release."""
    release = re.search(r"^deno==(\S+)", PINS.read_text(), re.MULTILINE)
    assert release is not None
    return release[1]


@cache
def _install() -> Path:
    """Return the directory of the pinned releases; installs them into the user's cache when it is not there yet."""
    cache_home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    target = cache_home / "paddock-bench" / f"peers-{hashlib.sha256(PINS.read_bytes()).hexdigest()[:12]}"
    target.mkdir(parents=True, exist_ok=True)
    with target.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (target / "installed").exists():
            options = [
                "--quiet",
                "--target",
                str(target),
                "--require-hashes",
                "--no-deps",
                "--only-binary",
                ":all:",
            ]
            python = ["--python", sys.executable]
            subprocess.run([*_uv(), "pip", "install", *options, *python, "-r", str(PINS)], check=True)
            (target / "installed").touch()
    return target


def deno() -> str:
    """Return deno's path."""
    return str(_install() / "bin" / "deno")


_LLM_SANDBOX = """
import json, time
from llm_sandbox import SandboxSession
from llm_sandbox.const import SandboxBackend
started = time.perf_counter()
with SandboxSession(lang="python", backend=SandboxBackend.BUBBLEWRAP) as session:
    session.run("print(1)")
    spent = [time.perf_counter() - started]
    for _ in range(TIMES):
        started = time.perf_counter()
        assert session.run("x = 1").exit_code == 0
        spent.append(time.perf_counter() - started)
print(json.dumps([1000 * each for each in spent]))
"""


def run_llm_sandbox(times: int) -> list[float]:
    """Return what the first program in a new session of llm-sandbox takes (bubblewrap), and then further ones, in ms."""
    done = subprocess.run(
        [sys.executable, "-c", _LLM_SANDBOX.replace("TIMES", str(times))],
        env={**bare_environment(), "PYTHONPATH": str(_install())},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        check=True,
    )
    return json.loads(done.stdout)


def _uv() -> list[str]:
    beside = Path(sys.executable).with_name("uv")
    found = shutil.which("uv") or (str(beside) if beside.exists() else None)
    return [found] if found else [sys.executable, "-m", "uv"]


@cache
def version(program: str) -> str:
    """Return the first line of `--version`."""
    return subprocess.run(
        [program, "--version"], capture_output=True, text=True, check=True
    ).stdout.partition("\n")[0]


def spawn_node() -> None:
    """Run `return 1 + 1` in a new context of a new node process."""
    _expect_two([node(), "-e", _NODE_VM])


def spawn_deno(directory: Path) -> None:
    """Run `return 1 + 1` in a new deno process; its script is kept in `directory`."""
    script = directory / "two.js"
    if not script.exists():
        script.write_text(_DENO)
    _expect_two([deno(), "run", "--quiet", "--no-prompt", "--no-config", str(script)])


def in_node(program: str, directory: Path) -> object:
    """Return what an async function with this body returns in plain node."""
    script = directory / "program.js"
    script.write_text(
        f"(async () => {{ 'use strict';\n{program}\n}})().then((v) => console.log(JSON.stringify(v)));"
    )
    return json.loads(_output([node(), str(script)]))


def _expect_two(command: list[str]) -> None:
    output = _output(command)
    assert output == b"2\n", output


def _output(command: list[str]) -> bytes:
    environment = bare_environment()
    done = subprocess.run(command, env=environment, capture_output=True, check=True, stdin=subprocess.DEVNULL)
    return done.stdout
