"""Rules that ask, from Python: the `asker` of a `Paddock` decides."""

import asyncio
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.processes import PATIENCE_S

from paddock import Answer, BlockingPaddock, Paddock, Question, Settings
from paddock.policy.settings.rules import ApprovalSettings, PolicySettings, Rule
from paddock.policy.settings.schema import AuditSettings, GrantSettings

YES = Answer(verdict="once", by="ada")


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(
        audit=AuditSettings(directory=tmp_path / "audit"),
        grants=GrantSettings(jit=True),
        policy=PolicySettings(rule=(Rule(effect="ask", jit=True, reason="it compiles"),)),
    )


class Asks:
    """An object that is called and awaited."""

    async def __call__(self, _question: Question) -> Answer:
        return YES


async def awaited(_question: Question) -> Answer:
    await asyncio.sleep(0)
    return YES


def plain(question: Question) -> Answer:
    assert threading.current_thread() is not threading.main_thread()
    assert question.what == "run the JavaScript program program, with just-in-time compilation"
    return YES


@pytest.mark.parametrize("asker", [plain, awaited, Asks(), Asks().__call__])
def test_an_asker_allows(tmp_path: Path, settings: Settings, asker: Any) -> None:
    with BlockingPaddock(tmp_path, settings=settings, asker=asker) as p:
        assert p.execute("return 1", jit=True).value == 1

    async def main() -> Any:
        async with Paddock(tmp_path, settings=settings, asker=asker) as p:
            return (await p.execute("return 2", jit=True)).value

    assert asyncio.run(main()) == 2


def broken(_question: Question) -> Answer:
    raise ValueError("no")


@pytest.mark.parametrize(
    ("asker", "name", "why"),
    [
        (lambda _: Answer(verdict="denied", by="ada"), "ApprovalDenied", "denied by ada"),
        (lambda _: True, "ApprovalUnavailable", "asking failed (TypeError)"),
        (lambda _: "once", "ApprovalUnavailable", "asking failed (TypeError)"),
        (broken, "ApprovalUnavailable", "asking failed (ValueError)"),
        (lambda _: sys.exit(1), "ApprovalUnavailable", "asking failed (AskerExited)"),
    ],
)
def test_whatever_is_no_yes_is_a_no(
    tmp_path: Path, settings: Settings, asker: Callable[[Question], Any], name: str, why: str
) -> None:
    with BlockingPaddock(tmp_path, settings=settings, asker=asker) as p:
        outcome = p.execute("return 1", jit=True)
    assert outcome.error is not None
    assert (outcome.status, outcome.error.name, outcome.error.message) == (
        "denied",
        name,
        f"it compiles: {why}",
    )


def test_without_an_asker_the_answer_is_no(tmp_path: Path, settings: Settings) -> None:
    with BlockingPaddock(tmp_path, settings=settings) as p:
        error = p.execute("return 1", jit=True).error
    assert error is not None
    assert error.name == "ApprovalUnavailable"


def test_one_who_never_answers_holds_nothing_up(tmp_path: Path, settings: Settings) -> None:
    asked, end = threading.Event(), threading.Event()

    def thinks(_question: Question) -> Answer:
        asked.set()
        end.wait()
        return YES

    quick = settings.model_copy(update={"approvals": ApprovalSettings(wait_ms=50)})
    with BlockingPaddock(tmp_path, settings=quick, asker=thinks) as p:
        error = p.execute("return 1", jit=True).error
    assert asked.wait(PATIENCE_S)
    assert error is not None
    assert error.name == "ApprovalExpired"
    end.set()
