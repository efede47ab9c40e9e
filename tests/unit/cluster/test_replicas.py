"""The living replicas, as rows of the database name them."""

import asyncio
import logging
from typing import Any

import pytest

from paddock.cluster.node import PURPOSE, compute_mark
from paddock.cluster.replicas import Replica, Replicas
from paddock.cluster.seals import Seals
from paddock.model.errors import StoreUnavailable
from paddock.model.ids import mark_ids, mint_id, new_id

OWN = compute_mark("own")


class Rows:
    """Stands in for the database. Rows have id, address, boot, perhaps a seal, and whether their ids have marks."""

    def __init__(self, *rows: tuple[Any, ...]) -> None:
        self.rows: list[tuple[Any, ...]] | None = [*rows]
        self.looks = 0

    async def fetch(self, _query: str, _values: tuple[object, ...] = (), **_options: Any) -> list[Any]:
        self.looks += 1
        await asyncio.sleep(0)
        if self.rows is None:
            raise StoreUnavailable("away")
        return [(*row, None, True)[:5] if len(row) == 3 else (*row, True)[:5] for row in self.rows]


def make_replicas(rows: Rows) -> Replicas:
    return Replicas(rows, OWN, min_pause_s=0)  # pyright: ignore[reportArgumentType]


def test_a_mark_selects_a_row() -> None:
    async def find() -> list[Replica | None]:
        replicas = make_replicas(
            Rows(("b", "http://10.0.0.2:8700", "boot"), ("a", "http://10.0.0.1:8700", "own"))
        )
        await replicas.refresh()
        marks = [compute_mark("boot"), OWN, compute_mark("earlier boot"), "", "../../etc", "B" * 16]
        return [await replicas.find(mark) for mark in marks]

    found = Replica("b", "http://10.0.0.2:8700", compute_mark("boot"))
    assert asyncio.run(find()) == [found, None, None, None, None, None]


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd",
        "gopher://10.0.0.2:70",
        "unix:/run/docker.sock",
        "javascript:alert(1)",
        "//10.0.0.2:8700",
        "http://",
        "http://user:secret@10.0.0.2:8700",
        "http://10.0.0.2:8700@evil.test",
        "http://10.0.0.2:8700/latest/meta-data",
        "http://10.0.0.2:8700?x=",
        "http://10.0.0.2:8700#x",
        "http://10.0.0.2:8700#",
        "http://10.0.0.2:8700?",
        "http://10.0.0.2:0",
        "http://10.0.0.2:99999",
        "http://10.0.0.2\r\nHost: evil.test:80",
        "http://10.0.0.2 :8700",
        "http://[::1",
    ],
)
def test_the_address_of_a_row_must_be_that_of_a_server(url: str, caplog: pytest.LogCaptureFixture) -> None:
    async def find() -> Replica | None:
        replicas = make_replicas(Rows(("b", url, "boot")))
        await replicas.refresh()
        await replicas.refresh()
        return await replicas.find(compute_mark("boot"))

    with caplog.at_level(logging.ERROR, "paddock.cluster"):
        assert asyncio.run(find()) is None
    assert caplog.messages == ["the address of the replica 'b' is not used: it is not http://host:port"]


def test_an_address_needs_the_seal_of_its_replica(caplog: pytest.LogCaptureFixture) -> None:
    url, seals, others = "http://10.0.0.2:8700", Seals([b"k" * 32]), Seals([b"x" * 32])
    rows = [
        ("sealed", url, "b1", seals.seal(PURPOSE, "sealed", "b1", url)),
        ("bare", url, "b2", None),
        ("other key", url, "b3", others.seal(PURPOSE, "other key", "b3", url)),
        ("other id", url, "b4", seals.seal(PURPOSE, "sealed", "b4", url)),
        ("other boot", url, "b5", seals.seal(PURPOSE, "other boot", "b1", url)),
        ("other address", url, "b6", seals.seal(PURPOSE, "other address", "b6", "http://10.0.0.3:8700")),
        ("other purpose", url, "b7", seals.seal("token", "other purpose", "b7", url)),
    ]

    async def find() -> list[Replica]:
        replicas = Replicas(Rows(*rows), OWN, seals)  # pyright: ignore[reportArgumentType]
        await replicas.refresh()
        return await replicas.list_others()

    with caplog.at_level(logging.ERROR, "paddock.cluster"):
        assert asyncio.run(find()) == [Replica("sealed", url, compute_mark("b1"))]
    assert caplog.messages == [
        f"the address of the replica {name!r} is not used: no replica with a key of cluster.key_file has written it"
        for name, *_ in rows[1:]
    ]


def test_callers_share_a_look_at_the_leases() -> None:
    async def find() -> int:
        rows = Rows(("b", "http://10.0.0.2:8700", "boot"))
        replicas = make_replicas(rows)
        found = await asyncio.gather(*(replicas.find(compute_mark("boot")) for _ in range(10)))
        assert {each.id for each in found if each is not None} == {"b"}
        return rows.looks

    assert asyncio.run(find()) == 1


def test_replicas_stay_known_while_the_database_is_away() -> None:
    async def find() -> Replica | None:
        rows = Rows(("b", "http://10.0.0.2:8700", "boot"))
        replicas = make_replicas(rows)
        await replicas.refresh()
        rows.rows = None
        with pytest.raises(StoreUnavailable, match="away"):
            await replicas.refresh()
        with pytest.raises(StoreUnavailable, match="away"):
            await replicas.find(compute_mark("unknown"))
        assert await replicas.find("no mark") is None
        return await replicas.find(compute_mark("boot"))

    found = asyncio.run(find())
    assert found is not None
    assert found.id == "b"


class Clock:
    """Goes on by three seconds at each look."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 3
        return self.now


def test_leases_that_are_old_after_an_outage_are_not_taken_for_ended() -> None:
    async def find() -> list[int]:
        rows = Rows(("b", "http://10.0.0.2:8700", "boot"))
        replicas = Replicas(rows, OWN, clock=Clock())  # pyright: ignore[reportArgumentType]
        await replicas.refresh()
        rows.rows = None
        with pytest.raises(StoreUnavailable):
            await replicas.refresh()
        rows.rows = []
        found: list[int] = []
        for _ in range(3):
            await replicas.refresh()
            found.append(len(await replicas.list_others()))
        return found

    assert asyncio.run(find()) == [1, 1, 0]


def make_id(boot: str) -> str:
    """Return the id of an execution of a replica."""
    try:
        mark_ids(compute_mark(boot))
        return mint_id()
    finally:
        mark_ids("")


def test_an_id_is_asked_of_its_replica_and_of_those_that_do_not_mark_ids() -> None:
    url = "http://10.0.0.2:8700"
    rows = Rows(("b", url, "b"), ("c", url, "c"), ("old", url, "old", None, False))

    async def find() -> list[set[str]]:
        replicas = make_replicas(rows)
        await replicas.refresh()
        ids = [make_id("b"), make_id("own"), make_id("ended"), new_id()]
        found = [{each.id for each in await replicas.find_holders(id_)} for id_ in ids]
        assert rows.looks == 3  # two of the marks were not known
        return found

    assert asyncio.run(find()) == [{"b", "old"}, set(), {"old"}, {"old"}]


def test_an_id_of_an_unknown_replica_is_not_lost_while_the_database_is_away() -> None:
    async def find() -> None:
        rows = Rows(("b", "http://10.0.0.2:8700", "b"))
        replicas = make_replicas(rows)
        await replicas.refresh()
        rows.rows = None
        assert [each.id for each in await replicas.find_holders(make_id("b"))] == ["b"]
        with pytest.raises(StoreUnavailable, match="away"):
            await replicas.find_holders(make_id("c"))

    asyncio.run(find())


def test_waiting_for_the_end_of_a_replica() -> None:
    async def wait() -> None:
        rows = Rows(("b", "http://10.0.0.2:8700", "boot"), ("c", "http://10.0.0.3:8700", "other"))
        replicas = Replicas(rows, OWN, clock=Clock())  # pyright: ignore[reportArgumentType]
        await replicas.refresh()
        waiting = asyncio.create_task(replicas.wait_for_end(compute_mark("boot")))
        rows.rows = [("b", "http://10.0.0.2:8700", "boot")]
        for _ in range(3):
            await replicas.refresh()
            await asyncio.sleep(0)
        assert not waiting.done()
        rows.rows = [("b", "http://10.0.0.2:8700", "a new start")]
        await replicas.refresh()
        await waiting

    asyncio.run(wait())
