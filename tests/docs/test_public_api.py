"""What `paddock` exports: everything that its docstrings name, and nothing that is not described."""

import builtins
import inspect
import pickle
import re

import pytest

import paddock
from paddock import CapturedStream, ErrorInfo, Outcome, OutcomeError, PaddockError, Status
from paddock.model import errors

PUBLIC = [getattr(paddock, name) for name in paddock.__all__ if not name.startswith("__")]
RAISED = re.compile(r"\bRaises ((?:[A-Z]\w+(?:,| and| or|, for)?\s)*[A-Z]\w+)")


def docstrings() -> list[str]:
    members = [
        member
        for kind in PUBLIC
        for name, member in inspect.getmembers(kind)
        if not name.startswith("_") or name in ("__init__", "__aenter__", "__enter__")
    ]
    return [inspect.getdoc(each) or "" for each in [*PUBLIC, *members] if callable(each)]


def test_dir_shows_the_public_names() -> None:
    assert dir(paddock) == paddock.__all__


def test_every_exception_that_a_public_docstring_names_can_be_imported() -> None:
    named = {
        name
        for text in docstrings()
        for found in RAISED.findall(text)
        for name in re.findall(r"[A-Z]\w+", found)
    }
    assert {"ScriptNotFound", "LedgerError", "ValueError"} <= named
    assert {name for name in named if not hasattr(paddock, name)} == {
        name for name in named if name in vars(builtins)
    }


def test_every_exception_of_paddock_is_exported_under_the_name_that_a_traceback_shows() -> None:
    kinds = [
        each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, PaddockError)
    ]
    assert [kind.__name__ for kind in kinds if getattr(paddock, kind.__name__, None) is not kind] == []
    assert {kind.__module__ for kind in kinds} == {"paddock"}


def test_every_public_method_is_described() -> None:
    methods = [
        f"{kind.__name__}.{name}"
        for kind in PUBLIC
        if isinstance(kind, type)
        for name, member in inspect.getmembers(kind)
        if not name.startswith("_") and (getattr(member, "__module__", None) or "").startswith("paddock")
        if callable(member) and not inspect.getdoc(member)
    ]
    assert methods == []


def test_check_returns_an_outcome_that_is_ok() -> None:
    outcome = Outcome(id="x", status=Status.OK, value=1, has_value=True)
    assert outcome.check() is outcome


@pytest.mark.parametrize(
    ("outcome", "text"),
    [
        (
            Outcome(
                id="x",
                status=Status.FAILED,
                error=ErrorInfo(name="TypeError", message="x is not a function", line=3),
            ),
            "failed: TypeError: x is not a function (line 3)",
        ),
        (
            Outcome(id="x", status=Status.TIMEOUT, error=ErrorInfo(name="Timeout", message="after 100 ms")),
            "timeout: Timeout: after 100 ms",
        ),
        (Outcome(id="x", status=Status.CANCELLED), "cancelled"),
    ],
)
def test_check_raises_what_an_outcome_is(outcome: Outcome, text: str) -> None:
    with pytest.raises(OutcomeError) as raised:
        outcome.check()
    again = pickle.loads(pickle.dumps(raised.value))
    assert (str(raised.value), raised.value.outcome, str(again), again.outcome) == (
        text,
        outcome,
        text,
        outcome,
    )


def test_the_text_of_a_stream_says_what_is_missing() -> None:
    assert CapturedStream(head="all\n", total_bytes=4).text == "all\n"
    cut = CapturedStream(head="start", tail="end\n", total_bytes=1009, omitted_bytes=1000)
    assert cut.text == "start\n[... 1000 bytes omitted ...]\nend\n"
