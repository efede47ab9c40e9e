"""Computations through the library, on the session that tests share."""

from functools import partial

import pytest

from .library import compute


@pytest.fixture(scope="session")
def answer(guest):
    """Return the answer to a program, its input and its limits."""

    def ask(source, given="", **limits):
        body = {"source": source, "input": given, "limits": {"wall_ms": 60_000, **limits}}
        return guest.runner.run(compute(guest.session, body, workspace=guest.workspace))

    return ask


@pytest.fixture(scope="session")
def lines(answer):
    """Return what goes to standard output and to standard error."""
    return partial(_lines, answer)


def _lines(answer, source, given="", **limits):
    envelope = answer(source, given, **limits)
    return envelope.stdout, envelope.stderr
