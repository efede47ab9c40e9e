"""Programs that name the versions of Python that they run with (`requires-python`, PEP 723)."""

import sys
from pathlib import Path

import pytest

from paddock import BlockingPaddock, Status

OVERRIDES = {"runtimes": {"timeout_ms": 120_000, "python": {"environment": sys.prefix}}}
PROGRAM = '# /// script\n# requires-python = "{}"\n# dependencies = [{}]\n# ///\nprint("ran")\n'
HAVE = ".".join(map(str, sys.version_info[:3]))


@pytest.mark.parametrize("dependencies", ["", '"nothing-of-this-name"'])
@pytest.mark.parametrize("session", [None, "new"])
def test_another_python_is_refused_before_anything_is_installed(
    workspace: Path, dependencies: str, session: str | None
) -> None:
    with BlockingPaddock(workspace, overrides=OVERRIDES) as p:
        outcome = p.exec("python", PROGRAM.format(">=3.99", dependencies), session=session)
    assert outcome.error is not None
    assert (outcome.status, outcome.error.message, outcome.error.hint) == (
        Status.UNAVAILABLE,
        f"the program requires Python >=3.99 (requires-python), and python3 is {HAVE}",
        "name an interpreter that it can run with: --executable python3.13, or `executable` of a call",
    )


@pytest.mark.parametrize("versions", [">=3.8", f"=={HAVE}", "", "<4"])
def test_the_right_python_runs_it(workspace: Path, versions: str) -> None:
    with BlockingPaddock(workspace, overrides=OVERRIDES) as p:
        assert [p.exec("python", PROGRAM.format(versions, "")).text for _ in range(2)] == ["ran\n"] * 2
