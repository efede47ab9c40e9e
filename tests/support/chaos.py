"""Many requests with effects, sent to replicas that die, and the truth about how often each of them started."""

import asyncio
import os
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import httpx2
from tests.support.http_api import ApiPlace
from tests.support.processes import PATIENCE_S

MAX_AT_ONCE = 12
"""Number of requests in flight."""
_AGAIN_S = 0.05
_REFUSED_S = 2.0


class Answer(NamedTuple):
    """The last answer to a request."""

    number: int
    status: str
    """Status of the outcome, or name of the problem."""
    text: str
    """What the program printed."""
    sent: int
    """How many times it was sent."""


class Load:
    """Requests with keys. Each program appends a line to a file of its own, and prints its number."""

    def __init__(self, url: str, token: str, count: int, *, pause_s: float = 0.03) -> None:
        self._url = url
        self._headers = {"Authorization": f"Bearer {token}"}
        self._count = count
        self._pause_s = pause_s
        self.answers: dict[int, Answer] = {}
        self.sent: set[int] = set()
        self._steps: list[tuple[int, Callable[[], Awaitable[None]]]] = []
        self._answered = asyncio.Condition()

    def after(self, answered: int, step: Callable[[], Awaitable[None]]) -> None:
        """Do a step when so many requests are answered."""
        self._steps.append((answered, step))

    async def run(self) -> None:
        """Send all requests, until each has an answer: those whose connection breaks again, with the same key."""
        waiting = iter(range(self._count))
        limits = httpx2.Limits(max_connections=MAX_AT_ONCE)
        async with httpx2.AsyncClient(
            base_url=self._url, headers=self._headers, timeout=PATIENCE_S, limits=limits
        ) as http:

            async def work() -> None:
                for number in waiting:
                    answer = await self._send(http, number)
                    async with self._answered:
                        self.answers[number] = answer
                        self._answered.notify_all()

            await asyncio.gather(*(work() for _ in range(MAX_AT_ONCE)), self._step())

    async def _step(self) -> None:
        for answered, step in sorted(self._steps, key=lambda each: each[0]):
            await self.wait_for(answered)
            await step()

    async def wait_for(self, answered: int) -> None:
        """Wait until so many requests are answered, or all."""
        async with self._answered:
            await self._answered.wait_for(lambda: len(self.answers) >= min(answered, self._count))

    async def wait_for_more(self, status: str, more: int) -> None:
        """Wait until so many further requests have an answer with this status, or all are answered."""
        wanted = self._count_status(status) + more
        async with self._answered:
            await self._answered.wait_for(
                lambda: self._count_status(status) >= wanted or len(self.answers) == self._count
            )

    def _count_status(self, status: str) -> int:
        return sum(each.status == status for each in self.answers.values())

    async def _send(self, http: httpx2.AsyncClient, number: int) -> Answer:
        code = f"echo x >> starts-{number}; sleep {self._pause_s}; echo {number}"
        program = {"language": "shell", "code": code, "access": "workspace-write"}
        sent = 0
        self.sent.add(number)
        while True:
            sent += 1
            try:
                answer = await http.post(
                    "/v1/executions", json=program, headers={"Idempotency-Key": f"chaos-{number}"}
                )
            except httpx2.TransportError:
                await asyncio.sleep(_AGAIN_S)
                continue
            if answer.status_code in {502, 503, 504}:  # the balancer lost its server, or has none
                await asyncio.sleep(_AGAIN_S)
                continue
            document = answer.json()
            if answer.status_code != 200:
                return Answer(number, document["type"].rpartition(":")[2], document["detail"], sent)
            if (
                document["status"] == "unavailable"
            ):  # otherwise all would be refused before the database is back
                await asyncio.sleep(_REFUSED_S)
            program_end = document["program"]
            return Answer(
                number, document["status"], program_end["stdout"]["head"] if program_end else "", sent
            )


def report(what: str, value: object) -> None:
    """Append a measurement to the file that the variable PADDOCK_CLUSTER_REPORT names."""
    if name := os.environ.get("PADDOCK_CLUSTER_REPORT"):
        with Path(name).open("a") as file:
            file.write(f"{what}: {value}\n")


def list_started(places: Sequence[ApiPlace]) -> set[int]:
    """Return the numbers of all programs that have started."""
    files = [file for place in places for file in place.workspace.glob("starts-*")]
    return {int(file.name.rpartition("-")[2]) for file in files}


def count_starts(places: Sequence[ApiPlace], number: int) -> int:
    """Return how many times a program started, on all replicas."""
    files = [Path(place.workspace, f"starts-{number}") for place in places]
    return sum(len(file.read_text().splitlines()) for file in files if file.exists())


class Truth(NamedTuple):
    """What became of all requests."""

    statuses: Counter[str]
    most_starts: int
    lost_without_start: int
    unavailable_with_start: int
    wrong: list[Answer]
    """Answers `ok` that are not those of exactly one start."""


def judge(load: Load, places: Sequence[ApiPlace]) -> Truth:
    """Compare the answers with what happened."""
    starts = {number: count_starts(places, number) for number in load.answers}
    answers = [*load.answers.values()]
    return Truth(
        Counter(each.status for each in answers),
        max(starts.values()),
        sum(each.status == "lost" and starts[each.number] == 0 for each in answers),
        sum(each.status == "unavailable" and starts[each.number] > 0 for each in answers),
        [
            each
            for each in answers
            if each.status == "ok" and (each.text, starts[each.number]) != (f"{each.number}\n", 1)
        ],
    )


def choose(seed: int, count: int) -> Callable[[], int]:
    """Return what chooses one of `count` replicas, in an order that depends on the seed alone."""
    dice = random.Random(seed)
    return lambda: dice.randrange(count)
