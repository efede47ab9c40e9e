"""One contract for objects that several processes share: in a file, and in a row of a database."""

import asyncio
import secrets
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.support.postgres import Postgres

from paddock.cluster.blocking import BlockingDatabase
from paddock.cluster.database import Database
from paddock.cluster.json_row import JsonRow
from paddock.cluster.migrate import migrate
from paddock.cluster.seals import Seals
from paddock.foundation.files import JsonFile, Kept
from paddock.model.errors import ConfigurationError

Open = Callable[[], Kept]
"""Returns the object, as another process has it."""


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    with Postgres() as server:
        yield server


def is_sound(held: dict[str, Any]) -> bool:
    return "bad" not in held


@pytest.fixture(params=["file", pytest.param("row", marks=pytest.mark.slow)])
def open_kept(request: pytest.FixtureRequest, tmp_path: Path) -> Open:
    if request.param == "file":
        return lambda: JsonFile(tmp_path / "kept.json", is_sound)
    url = request.getfixturevalue("postgres").make_database(f"d{secrets.token_hex(8)}")

    async def make_tables() -> None:
        async with Database(url) as database:
            await migrate(database)

    asyncio.run(make_tables())
    return lambda: JsonRow(BlockingDatabase(url), "kind", "name", Seals([b"k" * 32]), is_sound)


def test_another_process_sees_what_was_kept(open_kept: Open) -> None:
    one, two = open_kept(), open_kept()
    assert one.read() == {}
    value = {"a": [1, 2.5, None, "é\u202e\\"], "b": {"c": True}}
    assert one.update(lambda held: held.update(value)) is None
    assert one.look() == one.read() == two.read() == two.look() == value
    assert two.update(lambda held: held.pop("a")) == value["a"]
    assert one.read() == {"b": {"c": True}}


def test_what_was_seen_is_recalled(open_kept: Open) -> None:
    one, two = open_kept(), open_kept()
    assert one.recall() == {}
    one.update(lambda held: held.update({"n": 1}))
    assert one.recall() == {"n": 1}
    assert two.read() == two.recall() == {"n": 1}


def test_of_many_changes_at_a_time_none_is_lost(open_kept: Open) -> None:
    def count(_: int) -> None:
        kept = open_kept()
        for _ in range(4):
            kept.update(lambda held: held.__setitem__("n", held.get("n", 0) + 1))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(count, range(4)))
    assert open_kept().read() == {"n": 16}


def test_a_change_that_fails_changes_nothing(open_kept: Open) -> None:
    kept = open_kept()
    kept.update(lambda held: held.__setitem__("n", 1))

    def fail(held: dict[str, Any]) -> None:
        held["n"] = 2
        raise ConfigurationError("no")

    with pytest.raises(ConfigurationError, match=r"^no$"):
        kept.update(fail)
    assert kept.read() == open_kept().read() == {"n": 1}


def test_content_that_is_not_sound_is_refused(open_kept: Open) -> None:
    open_kept().update(lambda held: held.__setitem__("bad", 1))
    kept = open_kept()
    for use in (kept.look, kept.read, lambda: kept.update(lambda held: held.clear())):
        with pytest.raises(ConfigurationError, match=r"was damaged or changed; .* to start afresh$"):
            use()
