"""Ids that a process mints: unique across forks, and remembered until they are spent."""

import os

from paddock.model import ids
from paddock.model.ids import (
    find_id_mark,
    find_mint_time,
    is_id,
    is_unspent,
    mark_ids,
    mint_id,
    new_id,
    next_serial,
    sort_key,
    spend_id,
)


def test_a_minted_id_is_remembered_until_it_is_spent() -> None:
    before = next_serial()
    one, two = mint_id(), mint_id()
    between = next_serial()
    three = mint_id()
    assert [is_unspent(each, before) for each in (one, two, three)] == [True] * 3
    assert [is_unspent(each, between) for each in (one, two, three)] == [False, False, True]
    spend_id(two)
    spend_id("never minted")
    assert [is_unspent(each, before) for each in (one, two, three)] == [True, False, True]
    assert not is_unspent(new_id(), 0)
    for each in (one, three):
        spend_id(each)


def test_no_more_ids_are_remembered_than_the_limit(monkeypatch) -> None:
    monkeypatch.setattr(ids, "MAX_UNSPENT", ids.count_unspent() + 2)
    minted = [mint_id() for _ in range(ids.count_unspent() + 10)]
    assert ids.count_unspent() == ids.MAX_UNSPENT
    assert is_unspent(minted[-1], 0)
    assert not is_unspent(minted[0], 0)


def test_processes_after_a_fork_mint_different_ids() -> None:
    mint_id()
    reader, writer = os.pipe()
    for _ in range(2):
        if (child := os.fork()) == 0:
            os.write(writer, "".join(f"{mint_id()}\n" for _ in range(50)).encode())
            os._exit(0)
        os.waitpid(child, 0)
    os.close(writer)
    with open(reader) as pipe:  # noqa: PTH123 - a descriptor
        minted = pipe.read().split()
    # The first ten characters are the moment: what comes after them differs even within one millisecond.
    assert len({each[10:] for each in minted}) == len(minted) == 100


def test_ids_sort_by_their_moment() -> None:
    keys = [sort_key(new_id(second)) for second in range(1, 100)]
    assert keys == sorted(keys)
    assert all(isinstance(key, int) and 0 <= key < 2**63 for key in keys)
    assert find_mint_time(new_id(7)) == 7
    assert [sort_key(text) for text in ("", "r1", "81ARZ3NDEKTSV4RRFFQ69G5FAV", "é" * 26)] == [None] * 4


def test_ids_end_with_the_mark_of_their_replica() -> None:
    mark = "0123456789abcdef"
    try:
        mark_ids(mark)
        minted = [mint_id() for _ in range(100)]
    finally:
        mark_ids("")
    assert {find_id_mark(each) for each in minted} == {mark[:10]}
    assert all(map(is_id, minted))
    assert len({*minted}) == 100
    assert len({find_id_mark(mint_id()) for _ in range(100)}) == 100
