"""Claims between real processes: whoever minted an id, and whoever claims it, it is claimed once."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paddock.record.ledger.read import read
from paddock.record.ledger.verify import verify

WORKER = """
import os, sys
from pathlib import Path
from paddock.model.errors import LedgerError
from paddock.model.ids import mint_id
from paddock.record.ledger.writer import Ledger

def answer(command, argument):
    global ledger, directory
    if command == "open":
        if ledger is not None:
            ledger.close()
        directory = argument or directory
        ledger = Ledger(Path(directory))
    elif command == "mint":
        return mint_id()
    elif command == "write":
        ledger.append("decided", "r", {"name": "x" * int(argument)})
    elif command == "claim":
        try:
            ledger.claim(argument, {})
        except LedgerError as error:
            assert "was claimed before" in str(error), error
            return "refused"
        return "claimed"
    elif command == "fork":
        reader, writer = os.pipe()
        if (child := os.fork()) == 0:
            with Ledger(Path(directory)) as ledger:
                os.write(writer, answer("claim", argument).encode())
                os._exit(0)
        os.waitpid(child, 0)
        os.close(writer)
        with open(reader) as pipe:
            return pipe.read()
    return "done"

ledger, directory = None, ""
for line in sys.stdin:
    command, _, argument = line.rstrip("\\n").partition(" ")
    print(answer(command, argument), flush=True)
"""


class Worker:
    """A process with a ledger of its own."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", WORKER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __call__(self, command: str, argument: object = "") -> str:
        assert self._process.stdin
        assert self._process.stdout
        print(command, argument, file=self._process.stdin, flush=True)
        return self._process.stdout.readline().strip()

    def end(self) -> None:
        self._process.communicate()
        assert self._process.returncode == 0


@pytest.fixture(scope="module")
def workers() -> Iterator[list[Worker]]:
    with ExitStack() as stack:
        made = [Worker() for _ in range(3)]
        for worker in made:
            stack.callback(worker.end)
        yield made


_who = st.integers(0, 2)
_steps = st.lists(
    st.one_of(
        st.tuples(st.just("mint"), _who, st.just(0)),
        st.tuples(st.just("claim"), _who, st.integers(0, 5)),
        st.tuples(st.just("fork"), _who, st.integers(0, 5)),
        st.tuples(st.just("write"), _who, st.integers(0, 300)),
        st.tuples(st.just("open"), _who, st.just(0)),
        st.tuples(st.just("forget"), _who, st.sampled_from(["brought", "head"])),
    ),
    max_size=40,
)


@settings(max_examples=60)
@given(_steps)
def test_any_interleaving_of_processes_claims_each_id_once(
    workers: list[Worker], steps: list[tuple[str, int, int | str]]
) -> None:
    """Ids pass between processes, also of a process and its forks; ledgers are opened anew, files beside them go."""
    with TemporaryDirectory() as made:
        directory = Path(made) / "ledger"
        for worker in workers:
            worker("open", directory)
        minted = [worker("mint") for worker in workers]
        claimed: set[str] = set()
        for command, who, argument in steps:
            worker = workers[who]
            if command == "mint":
                minted.append(worker("mint"))
            elif command in ("claim", "fork"):
                request = minted[-1 - int(argument) % len(minted)]
                assert worker(command, request) == ("refused" if request in claimed else "claimed")
                claimed.add(request)
            elif command == "forget":
                (directory / str(argument)).unlink(missing_ok=True)
            else:
                worker(command, argument if command == "write" else "")
        assert sorted(record.request for record in read(directory, event="started")) == sorted(claimed)
        if ("forget", "head") not in {(command, argument) for command, _, argument in steps}:
            assert verify(directory).ok


def test_an_id_that_another_process_claimed_first_is_not_trusted_by_its_maker(
    workers: list[Worker], tmp_path: Path
) -> None:
    maker, other, _ = workers
    for worker in workers:
        worker("open", tmp_path / "ledger")
    requests = [maker("mint") for _ in range(3)]
    assert other("claim", requests[0]) == "claimed"
    assert [maker("claim", request) for request in requests] == ["refused", "claimed", "claimed"]
    assert [other("claim", request) for request in requests] == ["refused"] * 3


def test_a_fork_claims_as_a_process_of_its_own(workers: list[Worker], tmp_path: Path) -> None:
    maker, *_ = workers
    maker("open", tmp_path / "ledger")
    first, second = maker("mint"), maker("mint")
    assert [maker("fork", first), maker("fork", first), maker("claim", first)] == [
        "claimed",
        "refused",
        "refused",
    ]
    assert [maker("claim", second), maker("fork", second)] == ["claimed", "refused"]
