"""What an overlay of the workspace costs: against the access `read-only`, for large workspaces, and against bare tools."""

import shutil
import subprocess
import tempfile
from pathlib import Path
from statistics import median

from benchmarks.measure import Line, Scale, at_most, interleaved, milliseconds
from paddock import BlockingPaddock
from paddock.model.limits import MIB
from paddock.model.program import Access

TITLE = "Overlays of the workspace, against reading it"

_FILES = 200_000
_LARGE_FILES, _LARGE_FILE_BYTES = 8, 256 * MIB
"""2 GB. The files are sparse: an overlay reads none of them."""
_TRACKED_FILES = 5000
_PAUSE_PROGRAM = "sleep 0.2"
"""Runs between two measurements, outside of them: the next sandbox is prepared meanwhile."""
_IDENTITY = ("-c", "user.name=n", "-c", "user.email=e@example.org")
_TIMEOUT_MS = 120_000


def measure(scale: Scale) -> list[Line]:
    lines: list[Line] = []
    with tempfile.TemporaryDirectory() as folder:
        small, large, many = (Path(folder, name) for name in ("small", "large", "many"))
        small.mkdir()
        lines += _compare_warm(small, folder, scale.of(30, 3))
        _make_large(large)
        lines.append(_compare_opening("2 GB in 8 files", large, folder, scale.of(5, 2)))
        files = scale.of(_FILES, _FILES // 100)
        _make_many(many, files)
        lines.append(_compare_opening(f"{files:,} files", many, folder, scale.of(5, 2)))
        lines += _compare_tools(Path(folder), scale)
    return lines


def _open(workspace: Path, folder: str, directories: list[Path] | None = None) -> BlockingPaddock:
    overrides: dict[str, object] = {
        "runtimes.access": "overlay",
        "runtimes.timeout_ms": _TIMEOUT_MS,
        "overlay.directory": f"{folder}/changes",
        "workspace.directory": [{"path": str(path)} for path in directories or []],
    }
    return BlockingPaddock(workspace, overrides=overrides)


def _compare_warm(workspace: Path, folder: str, rounds: int) -> list[Line]:
    with _open(workspace, folder) as paddock:

        def run(code: str, access: Access) -> float:
            paddock.exec("shell", _PAUSE_PROGRAM).check()
            return milliseconds(lambda: paddock.exec("shell", code, access=access).check())

        figures = interleaved(
            {
                "read": lambda: run("true", "read-only"),
                "unchanged": lambda: run("true", "overlay"),
                "changed": lambda: run("echo x > made", "overlay"),
            },
            rounds,
        )
    spent = {who: median(values) for who, values in figures.items()}
    note = f"read-only {spent['read']:.1f} ms"
    return [
        Line(
            "a program that changes nothing, more",
            spent["unchanged"] - spent["read"],
            "ms",
            at_most(5),
            note=note,
        ),
        Line(
            "a program that changes a file, more",
            spent["changed"] - spent["read"],
            "ms",
            note=f"{note}; most of it waits for the disk, which has the change set then",
        ),
    ]


def _compare_opening(what: str, workspace: Path, folder: str, rounds: int) -> Line:
    def start(access: Access) -> float:
        with _open(workspace, folder) as paddock:
            paddock.exec("shell", "true", access="none").check()  # starts the sandbox
            return milliseconds(lambda: paddock.exec("shell", "true", access=access).check())

    figures = interleaved({"read": lambda: start("read-only"), "overlay": lambda: start("overlay")}, rounds)
    more = median(o - r for o, r in zip(figures["overlay"], figures["read"], strict=True))
    note = f"overlay {median(figures['overlay']):.0f} ms, read-only {median(figures['read']):.0f} ms"
    return Line(
        f"the first program in a workspace of {what}, more",
        more,
        "ms",
        at_most(20),
        note=note,
    )


def _compare_tools(folder: Path, scale: Scale) -> list[Line]:
    """Compare tools in an overlay, in a workspace that a program only reads, and without Paddock."""
    found: list[Line] = []
    tracked = folder / "tracked"
    files = scale.of(_TRACKED_FILES, _TRACKED_FILES // 50)
    _make_repository(tracked, files)
    rounds = scale.of(5, 2)
    found.append(_compare_tool(f"git status, {files:,} files", tracked, "git status --short", rounds))
    if shutil.which("npm"):
        package = folder / "package"
        _write(
            package,
            {
                "package.json": '{"name": "p", "scripts": {"test": "node test.js"}}',
                "test.js": "process.exit(0)\n",
            },
        )
        found.append(_compare_tool("npm test", package, "npm test --silent", rounds))
    if shutil.which("rustc"):
        crate = folder / "crate"
        manifest = '[package]\nname = "c"\nversion = "0.1.0"\nedition = "2021"\n'
        _write(crate, {"Cargo.toml": manifest, "src/main.rs": 'fn main() { println!("{}", 1); }\n'})
        sysroot = subprocess.check_output(["rustc", "--print", "sysroot"], text=True).strip()
        given = [Path(sysroot, "bin"), Path(sysroot, "lib")]
        command = f"PATH={given[0]}:$PATH CARGO_HOME=$TMPDIR/cargo cargo build -q --offline"
        found.append(_compare_tool("cargo build", crate, command, rounds, given))
    return found


def _compare_tool(
    what: str, workspace: Path, command: str, rounds: int, directories: list[Path] | None = None
) -> Line:
    folder = str(workspace.parent)
    with _open(workspace, folder, directories) as paddock:

        def run_in_overlay() -> None:
            paddock.exec("shell", command, access="overlay").check()

        def run_bare() -> float:
            with tempfile.TemporaryDirectory(dir=folder) as scratch:
                copy = Path(scratch, "copy")
                shutil.copytree(workspace, copy)
                variables = {"PATH": "/usr/local/bin:/usr/bin:/bin", "TMPDIR": scratch, "HOME": scratch}
                argv = ["/bin/sh", "-c", command]
                return milliseconds(
                    lambda: subprocess.run(argv, cwd=copy, env=variables, check=True, capture_output=True)
                )

        def run_warm() -> float:
            paddock.exec("shell", _PAUSE_PROGRAM).check()
            return milliseconds(run_in_overlay)

        figures = interleaved({"overlay": run_warm, "bare": run_bare}, rounds)
    ratio = median(o / b for o, b in zip(figures["overlay"], figures["bare"], strict=True))
    note = f"overlay {median(figures['overlay']):.0f} ms, bare {median(figures['bare']):.0f} ms"
    return Line(f"{what}, against bare", ratio, "x", note=note)


def _make_large(workspace: Path) -> None:
    workspace.mkdir()
    for number in range(_LARGE_FILES):
        with (workspace / str(number)).open("wb") as file:
            file.truncate(_LARGE_FILE_BYTES)


def _make_many(workspace: Path, files: int) -> None:
    for number in range(files):
        path = workspace / f"{number % 300}" / f"{number}.txt"
        if number < 300:
            path.parent.mkdir(parents=True)
        path.touch()


def _make_repository(workspace: Path, files: int) -> None:
    _make_many(workspace, files)
    for arguments in (("init", "-q"), ("add", "."), (*_IDENTITY, "commit", "-qm", "all")):
        subprocess.run(["git", *arguments], cwd=workspace, check=True)


def _write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
