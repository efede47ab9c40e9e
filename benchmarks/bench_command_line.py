"""The command line from a cold process, next to interpreters that do nothing."""

import itertools
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

from benchmarks import peers
from benchmarks.measure import Line, Scale, at_most, interleaved, milliseconds

TITLE = "Command line, cold process"
_TYPESCRIPT = "const name: string = paddock.vars.NAME; console.log(`Hello, ${name}!`)"


def measure(scale: Scale) -> list[Line]:
    program = str(Path(sys.executable).with_name("paddock"))
    with tempfile.TemporaryDirectory(prefix="paddock-bench-") as made:
        home = Path(made)
        (home / "hello.js").write_text("console.log(`Hello, ${paddock.vars.NAME}!`)")
        (home / "hello.ts").write_text(_TYPESCRIPT)
        hello = b"Hello, world!\n"
        commands: dict[str, tuple[list[str], bytes | None]] = {
            "version": ([program, "--version"], None),
            "js": ([program, "run", "./hello.js", "--var", "NAME=world"], hello),
            "ts": ([program, "run", "./hello.ts", "--var", "NAME=world"], hello),
            "new ts": ([program, "run", "./new.ts", "--var", "NAME=world"], hello),
            "exec": ([program, "exec", "python", "-c", "pass"], b""),
            "python": ([sys.executable, "-I", "-S", "-c", "pass"], b""),
            "node": ([peers.node(), "-e", "0"], b""),
        }

        numbers = itertools.count()

        def once(name: str) -> float:
            command, expected = commands[name]
            if name == "new ts":
                (home / "new.ts").write_text(_TYPESCRIPT + f"// {next(numbers)}")
            return milliseconds(lambda: _run(command, home, expected))

        for name in commands:  # warm up the caches of files
            once(name)
        figures = interleaved({name: lambda name=name: once(name) for name in commands}, scale.of(25, 3))
    p50 = {name: median(values) for name, values in figures.items()}
    return [
        Line("paddock run hello.js, p50", p50["js"], "ms", at_most(300)),
        Line("paddock run hello.ts, p50", p50["ts"], "ms", at_most(300)),
        Line("the same, a text never seen before, p50", p50["new ts"], "ms"),
        Line("paddock --version, p50", p50["version"], "ms", at_most(120)),
        Line("paddock exec python -c pass, p50", p50["exec"], "ms", at_most(200)),
        Line("floor: python -I -S -c pass", p50["python"], "ms"),
        Line("floor: node -e 0", p50["node"], "ms"),
    ]


def _run(command: list[str], home: Path, expected: bytes | None) -> None:
    environment = {**peers.bare_environment(), "HOME": str(home)}
    done = subprocess.run(
        command, cwd=home, env=environment, capture_output=True, check=True, stdin=subprocess.DEVNULL
    )
    assert expected in (None, done.stdout), done
