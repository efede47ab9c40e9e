"""What an overlay of the workspace costs, against the access `read-only`: in a warm process, and for a large workspace."""

import tempfile
from pathlib import Path
from statistics import median

from benchmarks.measure import Line, Scale, at_most, interleaved, milliseconds
from paddock import BlockingPaddock
from paddock.model.limits import KIB
from paddock.model.program import Access

TITLE = "Overlays of the workspace, against reading it"

_FILES, _FILE_BYTES = 200_000, 10 * KIB
"""A repository of 2 GB. The quick form has a hundredth of the files."""
_PAUSE_PROGRAM = "sleep 0.2"
"""Runs between two measurements, outside of them: the next sandbox is prepared meanwhile."""


def measure(scale: Scale) -> list[Line]:
    lines: list[Line] = []
    with tempfile.TemporaryDirectory() as folder:
        small, large = Path(folder, "small"), Path(folder, "large")
        small.mkdir()
        lines += _compare_warm(small, folder, scale.of(30, 3))
        _fill(large, scale.of(_FILES, _FILES // 100))
        lines.append(_compare_opening(large, folder, scale.of(10, 2)))
    return lines


def _open(workspace: Path, folder: str) -> BlockingPaddock:
    overrides = {"runtimes.access": "overlay", "overlay.directory": f"{folder}/changes"}
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


def _compare_opening(workspace: Path, folder: str, rounds: int) -> Line:
    def start(access: Access) -> float:
        with _open(workspace, folder) as paddock:
            paddock.exec("shell", "true", access="none").check()  # starts the sandbox
            return milliseconds(lambda: paddock.exec("shell", "true", access=access).check())

    figures = interleaved({"read": lambda: start("read-only"), "overlay": lambda: start("overlay")}, rounds)
    spent = {who: median(values) for who, values in figures.items()}
    note = f"overlay {spent['overlay']:.0f} ms, read-only {spent['read']:.0f} ms"
    return Line(
        "the first program in a large repository, more",
        spent["overlay"] - spent["read"],
        "ms",
        at_most(20),
        note=note,
    )


def _fill(workspace: Path, files: int) -> None:
    content = b"x" * _FILE_BYTES
    for number in range(files):
        path = workspace / f"{number % 300}" / f"{number}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
