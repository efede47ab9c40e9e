"""Claims in constant memory: ids of this process are not looked up, all others are."""

import errno
import gc
import os
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from paddock.model import ids
from paddock.model.errors import LedgerError
from paddock.model.ids import mint_id, new_id, spend_id
from paddock.record.ledger.claims import BROUGHT, ClaimSearch
from paddock.record.ledger.line_format import read_published_head
from paddock.record.ledger.read import read
from paddock.record.ledger.verify import verify
from paddock.record.ledger.writer import Ledger


def is_claimed(ledger: Ledger, request: str) -> bool:
    """Claim a request, or tell that it was claimed before."""
    try:
        ledger.claim(request, {})
    except LedgerError as error:
        if "was claimed before" not in str(error):
            raise
        return True
    return False


@pytest.fixture
def searches(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the requests whose claims are searched for from now on."""
    found: list[str] = []
    begin = ClaimSearch.__init__

    def noting(self: ClaimSearch, directory: Path, request: str, minted: float) -> None:
        found.append(request)
        begin(self, directory, request, minted)

    monkeypatch.setattr(ClaimSearch, "__init__", noting)
    return found


def test_ids_that_this_process_minted_are_not_searched_for(directory: Path, searches: list[str]) -> None:
    with Ledger(directory) as ledger:
        for _ in range(100):
            ledger.claim(mint_id(), {})
    assert searches == []
    assert (directory / BROUGHT).stat().st_size == 1
    assert len(list(read(directory, event="started"))) == 100


def test_an_id_is_searched_for_once_it_was_claimed(directory: Path, searches: list[str]) -> None:
    request = mint_id()
    with Ledger(directory) as ledger:
        request = mint_id()
        assert not is_claimed(ledger, request)
        assert searches == []
        assert is_claimed(ledger, request)
    assert searches == [request]


@pytest.mark.parametrize("where", ["same", "other"])
def test_an_id_is_claimed_in_a_ledger_once_whichever_object_claims_it(directory: Path, where: str) -> None:
    with Ledger(directory) as one, Ledger(directory) as two:
        request = mint_id()
        assert not is_claimed(one, request)
        assert is_claimed(one if where == "same" else two, request)


def test_an_id_from_before_the_ledger_was_opened_is_searched_for(
    directory: Path, searches: list[str]
) -> None:
    request = mint_id()
    with Ledger(directory) as ledger:
        assert not is_claimed(ledger, request)
    assert searches == [request]


def test_an_id_that_was_forgotten_is_searched_for(
    directory: Path, searches: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ids, "MAX_UNSPENT", ids.count_unspent() + 3)
    with Ledger(directory) as ledger:
        request = mint_id()
        while ids.is_unspent(request, 0):
            mint_id()
        assert not is_claimed(ledger, request)
        assert is_claimed(ledger, request)
    assert searches == [request, request]


def test_an_id_that_was_spent_without_a_claim_is_searched_for(directory: Path, searches: list[str]) -> None:
    with Ledger(directory) as ledger:
        request = mint_id()
        spend_id(request)
        assert not is_claimed(ledger, request)
    assert searches == [request]


def test_a_claim_that_could_not_be_written_is_searched_for_and_can_be_made(
    directory: Path, searches: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write, full = os.write, [True]

    def failing(fd: int, data: bytes) -> int:
        if full.pop():
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(fd, data)

    with Ledger(directory) as ledger:
        request = mint_id()
        monkeypatch.setattr(os, "write", failing)
        with pytest.raises(LedgerError, match="No space left"):
            ledger.claim(request, {})
        monkeypatch.setattr(os, "write", write)
        assert not is_claimed(ledger, request)
        assert is_claimed(ledger, request)
    assert searches == [request, request]


@pytest.mark.slow
def test_memory_does_not_grow_with_claims(directory: Path) -> None:
    with Ledger(directory) as ledger:

        def claim() -> None:
            for _ in range(1000):
                ledger.claim(request := mint_id(), {})
                ledger.append("finished", request, {})

        def measure_growth() -> int:
            brought = [new_id() for _ in range(20)]
            gc.collect()  # objects of other tests, which the collector may free or move meanwhile
            before, _ = tracemalloc.get_traced_memory()
            for _ in range(8):
                claim()
            for request in brought:
                assert not is_claimed(ledger, request)
            gc.collect()
            return tracemalloc.get_traced_memory()[0] - before

        claim()
        tracemalloc.start()
        try:
            claim()
            # What the other thread holds at the moment counts too, but a claim that stays would be in each measurement.
            # A byte for each claim would be 8,000.
            assert any(measure_growth() < 8000 for _ in range(3))
        finally:
            tracemalloc.stop()


def test_the_start_reads_the_tail_of_the_ledger_alone(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Ledger(directory) as ledger:
        for _ in range(1000):
            ledger.append("decided", "r", {"name": "x" * 500})
    taken, pread = [0], os.pread

    def counting(fd: int, size: int, offset: int) -> bytes:
        data = pread(fd, size, offset)
        taken[0] += len(data)
        return data

    monkeypatch.setattr(os, "pread", counting)
    with Ledger(directory) as ledger:
        ledger.claim(mint_id(), {})
    assert taken[0] < 80_000 < max(directory.glob("*.ndjson")).stat().st_size


def _link(mark: Path, aside: Path) -> None:
    mark.symlink_to(aside)


def _other_name(mark: Path, aside: Path) -> None:
    mark.hardlink_to(aside)


def _pipe(mark: Path, aside: Path) -> None:
    os.mkfifo(mark)


def _huge(mark: Path, aside: Path) -> None:
    mark.touch()
    os.truncate(mark, 2**43)


REMOVED: dict[Callable[[Path, Path], None], list[str]] = {
    _link: ["is a link, not a regular file"],
    _other_name: ["has another name beside it, or cannot grow"],
    _pipe: ["is a pipe, not a regular file"],
    _huge: [],
}
"""What is told of what was planted, where it had to go."""


@pytest.mark.parametrize("plant", [*REMOVED])
def test_what_is_planted_as_the_mark_is_not_followed(
    directory: Path, tmp_path: Path, plant: Callable[[Path, Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    aside = tmp_path / "aside"
    aside.write_text("kept")
    request = new_id()
    with Ledger(directory) as ledger:
        (directory / BROUGHT).unlink()
        plant(directory / BROUGHT, aside)
        assert not is_claimed(ledger, request)
        assert is_claimed(ledger, request)
        assert not is_claimed(ledger, mint_id())
    assert aside.read_text() == "kept"
    assert verify(directory).ok
    told = [record.message for record in caplog.records]
    assert told == [f"{directory / BROUGHT}: it {why}; Paddock replaced it" for why in REMOVED[plant]]


def test_a_directory_as_the_mark_lets_no_brought_id_run(directory: Path) -> None:
    with Ledger(directory) as ledger:
        (directory / BROUGHT).unlink()
        (directory / BROUGHT).mkdir()
        with pytest.raises(LedgerError) as told:
            ledger.claim(new_id(), {})
        assert str(told.value) == (
            f"The audit ledger {directory} cannot be written: {directory / BROUGHT}: it is a directory, not a regular file. "
            f"Nothing runs without its record. To go on, move {directory / BROUGHT} away."
        )
        ledger.claim(mint_id(), {})
    assert len(list(read(directory))) == 1


def test_a_search_goes_on_where_the_chain_ended(directory: Path) -> None:
    """Bytes behind the end may be removed by the writer that could not finish them, and others written there."""
    request = new_id()
    with Ledger(directory) as ledger:
        ledger.append("decided", "r", {})
        search = ClaimSearch(directory, request, ids.find_mint_time(request) or 0.0)
        end = read_published_head(directory)
        with (directory / end.file).open("ab") as file:
            file.write(b"x" * 1000)
        search.go_on(read_published_head(directory))
        os.truncate(directory / end.file, end.size)
        ledger.claim(request, {})
        assert not search.found
        search.go_on(read_published_head(directory))
        assert search.found


@pytest.mark.parametrize(
    "damage", [Path.unlink, lambda head: head.write_bytes(b"{}"), lambda head: head.write_bytes(b"")]
)
def test_a_claim_is_found_whatever_became_of_the_head(
    directory: Path, damage: Callable[[Path], object]
) -> None:
    requests = [new_id() for _ in range(3)]
    with Ledger(directory) as ledger:
        for request in requests:
            ledger.claim(request, {})
    damage(directory / "head")
    with Ledger(directory) as ledger:
        assert [is_claimed(ledger, request) for request in requests] == [True] * 3
        assert not is_claimed(ledger, new_id())


def test_a_clock_that_goes_back_lets_no_claim_through(directory: Path) -> None:
    """An id from the hour that is now in the future is refused, and found again once that hour has come."""
    now = [1_772_409_599.0]  # a second before midnight
    with Ledger(directory, clock=lambda: now[0]) as ledger:
        early = new_id(now[0])
        assert not is_claimed(ledger, early)
        now[0] += 3600
        late = new_id(now[0])
        assert not is_claimed(ledger, late)
        now[0] -= 3600
        assert is_claimed(ledger, early)
        between = new_id(now[0])
        assert not is_claimed(ledger, between)
        with pytest.raises(LedgerError, match="in the future"):
            ledger.claim(late, {})
    with Ledger(directory, clock=lambda: now[0] + 3600) as ledger:
        assert [is_claimed(ledger, request) for request in (early, between, late)] == [True] * 3
