"""An open Paddock with every language, which runs batches."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.command import OWN_PLACES

from paddock import BlockingPaddock, Case, Program, ProgramResult

PATIENT_MS = 120_000
"""Time for programs that are to end by themselves, however busy the machine is."""


class Batch:
    """Runs programs in a workspace, and judges them."""

    def __init__(self, paddock: BlockingPaddock, workspace: Path) -> None:
        self.paddock = paddock
        self.workspace = workspace

    def judge(
        self, code: str, *tests: tuple[str, str], language: str = "python", **fields: Any
    ) -> ProgramResult:
        """Return the result of a program with tests: pairs of input and expected output."""
        given = {
            "timeout_ms": PATIENT_MS,
            "tests": [Case(stdin=stdin, expect=expect) for stdin, expect in tests],
        }
        [result] = self.paddock.map([Program(language=language, code=code, **{**given, **fields})])
        return result

    def verdicts(self, code: str, *tests: tuple[str, str], **fields: Any) -> list[str]:
        """Return the verdict of each test."""
        return [case.verdict.value for case in self.judge(code, *tests, **fields).tests]


@pytest.fixture(scope="module")
def batch(tmp_path_factory: pytest.TempPathFactory, toolchain_path: str) -> Iterator[Batch]:
    folder = tmp_path_factory.mktemp("batch")
    (workspace := folder / "workspace").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        for name in OWN_PLACES:
            patch.setenv(name, str(folder / name))
        patch.setenv("PATH", toolchain_path)
        overrides = {"runtimes": {"timeout_ms": PATIENT_MS, "max_jobs": 2}}
        with BlockingPaddock(workspace, overrides=overrides) as paddock:
            yield Batch(paddock, workspace)
