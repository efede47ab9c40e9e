"""One contract for the tokens of `paddock serve token new`: in a file, and in rows of a database."""

import asyncio
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.support.postgres import Postgres

from paddock.cluster.database import Database
from paddock.cluster.kept import KeptRows
from paddock.cluster.migrate import migrate
from paddock.cluster.seals import Seals
from paddock.model.errors import ConfigurationError
from paddock.surfaces.tenants.token_file import StoredToken, TokenFile
from paddock.surfaces.tenants.token_store import KIND, FileTokens, SharedTokens, TokenStore
from paddock.surfaces.tenants.tokens import hash_token, make_token


class Ends(NamedTuple):
    """The same tokens, as two processes have them."""

    one: TokenStore
    two: TokenStore


OpenEnds = Callable[[], Any]


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    with Postgres() as server:
        yield server


@pytest.fixture(
    params=[
        "file",
        pytest.param("rows", marks=pytest.mark.slow),
        pytest.param("sealed rows", marks=pytest.mark.slow),
    ]
)
def open_ends(request: pytest.FixtureRequest, tmp_path: Path) -> OpenEnds:
    if request.param == "file":

        @asynccontextmanager
        async def open_files() -> AsyncGenerator[Ends]:
            yield Ends(*(FileTokens(TokenFile(tmp_path / "serve")) for _ in range(2)))

        return open_files
    url = request.getfixturevalue("postgres").make_database(f"d{secrets.token_hex(8)}")
    # A new key signs, and the old one is accepted.
    keys = [[b"n" * 32, b"o" * 32], [b"o" * 32, b"n" * 32]] if request.param == "sealed rows" else [[], []]

    @asynccontextmanager
    async def open_rows() -> AsyncGenerator[Ends]:
        async with Database(url) as one, Database(url) as two:
            await migrate(one)
            yield Ends(
                *(
                    SharedTokens(KeptRows(database, KIND), Seals(each), min_pause_s=0)
                    for database, each in zip((one, two), keys, strict=True)
                )
            )

    return open_rows


def make_entry(name: str, number: int = 0, **fields: Any) -> StoredToken:
    created = datetime.fromtimestamp(1_800_000_000 + number, UTC)
    return StoredToken(name=name, sha256=hash_token(make_token()), created=created, **fields)


def run(open_ends: OpenEnds, work: Callable[[Ends], Awaitable[None]]) -> None:
    async def main() -> None:
        async with open_ends() as ends:
            await work(ends)

    asyncio.run(main())


def test_another_process_sees_what_was_added_and_removed(open_ends: OpenEnds) -> None:
    async def work(ends: Ends) -> None:
        assert await ends.two.read() == ()
        first = make_entry("zoe", policy={"runtimes": {"network": "none"}}, rate=5, max_jobs=2)
        second = make_entry("bob", 1, actor="alice", approve=True, expires=datetime(2030, 1, 1, tzinfo=UTC))
        await ends.one.add(first)
        await ends.one.add(second)
        assert await ends.two.refresh() == await ends.two.read() == (first, second)
        assert await ends.two.remove("zoe")
        assert not await ends.one.remove("zoe")
        assert await ends.one.refresh() == await ends.two.refresh() == (second,)

    run(open_ends, work)


def test_a_name_is_given_once(open_ends: OpenEnds) -> None:
    async def work(ends: Ends) -> None:
        await ends.one.add(make_entry("alice"))
        with pytest.raises(ConfigurationError) as refused:
            await ends.two.add(make_entry("alice"))
        assert str(refused.value) == (
            "there is a token alice already; choose another name, or run: paddock serve token revoke alice"
        )

    run(open_ends, work)


def test_tokens_made_at_the_same_time_are_all_kept(open_ends: OpenEnds) -> None:
    async def work(ends: Ends) -> None:
        names = [f"user-{number:02}" for number in range(12)]
        await asyncio.gather(*(ends[number % 2].add(make_entry(name)) for number, name in enumerate(names)))
        assert sorted(each.name for each in await ends.one.refresh()) == names

    run(open_ends, work)
