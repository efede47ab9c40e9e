"""What supervised system calls cost: one chmod, `tar x` of 5,000 files, and `npm ci` of a local package set."""

import asyncio
import io
import json
import subprocess
import tarfile
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from benchmarks.measure import Line, Scale, at_most, interleaved, milliseconds, ratio
from paddock.confinement.sandbox.sandbox import KernelSandbox
from paddock.model.outcome import SandboxFacts, Status
from paddock.model.process import ProcessGrants, ProcessLimits

TITLE = "Supervised system calls (tier landlock, programs that keep Paddock's user)"

NOTE = """`tar` as root sets owner, mode and times of each file: three supervised calls. `npm ci` installs 20 packages of 50
files each from archives beside it."""

_CALLS = 2000
_CHMOD = f"""import os, time
open("mode", "w").close()
started = time.perf_counter()
for n in range({_CALLS}): os.chmod("mode", 0o600 + n % 8)
print((time.perf_counter() - started) / {_CALLS} * 1e6)"""
_PYTHON = ["/usr/bin/python3", "-I", "-S", "-c"]
_TAR = 'rm -rf "$TMPDIR/x" && mkdir "$TMPDIR/x" && tar xf files.tar -C "$TMPDIR/x"'
_NPM = (
    'rm -rf "$TMPDIR/n" && mkdir "$TMPDIR/n" && cp -r npm/. "$TMPDIR/n" && cd "$TMPDIR/n" '
    "&& npm ci --offline --ignore-scripts --no-audit --no-fund"
)
_LIMITS = ProcessLimits(timeout_ms=120_000, cpu_ms=120_000, memory_bytes=2**31, scratch_bytes=2**30)
_FILES, _PACKAGES, _FILES_OF_PACKAGE = 5000, 20, 50


def measure(scale: Scale) -> list[Line]:
    with tempfile.TemporaryDirectory() as folder, asyncio.Runner() as runner, _sandboxes(runner) as sandboxes:
        workspace = Path(folder)
        _pack(workspace / "files.tar", {f"d{n % 100}/f{n}": b"x" * 1000 for n in range(scale.of(_FILES, 50))})
        _make_package_set(workspace / "npm")
        grants = ProcessGrants(workspace=workspace, access="workspace-write")
        lines = _measure_chmod(runner, sandboxes, grants, scale)
        for what, script in ((f"tar x of {scale.of(_FILES, 50)} files", _TAR), ("npm ci", _NPM)):
            contenders = {
                name: lambda s=sandbox, c=["/bin/sh", "-c", script]: milliseconds(
                    lambda: _run(runner, s, grants, c)
                )
                for name, sandbox in sandboxes.items()
            }
            lines += _compare(what, interleaved(contenders, scale.of(9, 2)))
    return lines


@contextmanager
def _sandboxes(runner: asyncio.Runner) -> Generator[dict[str, KernelSandbox]]:
    facts = SandboxFacts(tier="landlock")
    made = {
        "supervised": KernelSandbox(facts, "landlock", 0),
        "not supervised": KernelSandbox(facts, "landlock", 0, supervised=False),
    }
    try:
        yield made
    finally:
        for sandbox in made.values():
            runner.run(sandbox.close())


def _run(runner: asyncio.Runner, sandbox: KernelSandbox, grants: ProcessGrants, argv: list[str]) -> str:
    result = runner.run(sandbox.run(argv, grants, _LIMITS))
    assert result.status is Status.OK, result
    return result.stdout.head


def _measure_chmod(
    runner: asyncio.Runner, sandboxes: dict[str, KernelSandbox], grants: ProcessGrants, scale: Scale
) -> list[Line]:
    argv = [*_PYTHON, _CHMOD]
    assert grants.workspace is not None
    workspace = grants.workspace

    def run_bare() -> float:
        return float(subprocess.run(argv, cwd=workspace, capture_output=True, check=True).stdout)

    contenders = {"bare": run_bare}
    for name, sandbox in sandboxes.items():
        contenders[name] = lambda s=sandbox: float(_run(runner, s, grants, argv))
    figures = interleaved(contenders, scale.of(21, 2))
    return [
        Line(f"chmod, {name}: p50", median(values), "us", at_most(150) if name == "supervised" else None)
        for name, values in figures.items()
    ]


def _compare(what: str, figures: dict[str, list[float]]) -> list[Line]:
    lines = [Line(f"{what}, {name}: p50", median(values), "ms") for name, values in figures.items()]
    over = ratio(figures["supervised"], figures["not supervised"])
    return [*lines, Line(f"{what}, supervised over not", over, "times")]


def _pack(path: Path, files: dict[str, bytes]) -> None:
    """Write an archive of these files."""
    with tarfile.open(path, "w:gz" if path.suffix == ".tgz" else "w") as archive:
        for name, data in files.items():
            facts = tarfile.TarInfo(name)
            facts.size, facts.mode = len(data), 0o640
            archive.addfile(facts, io.BytesIO(data))


def _make_package_set(folder: Path) -> None:
    folder.mkdir()
    for number in range(_PACKAGES):
        files = {f"package/lib/f{n}.js": b"module.exports = 1;\n" * 50 for n in range(_FILES_OF_PACKAGE)}
        files["package/package.json"] = json.dumps({"name": f"p{number}", "version": "1.0.0"}).encode()
        _pack(folder / f"p{number}.tgz", files)
    needed = {f"p{number}": f"file:p{number}.tgz" for number in range(_PACKAGES)}
    (folder / "package.json").write_text(
        json.dumps({"name": "all", "version": "1.0.0", "dependencies": needed})
    )
    command = ["npm", "install", "--package-lock-only", "--offline", "--no-audit", "--no-fund"]
    subprocess.run(command, cwd=folder, capture_output=True, check=True)
