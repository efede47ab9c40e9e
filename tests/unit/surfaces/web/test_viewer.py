"""Whose token opens a page, and what a server keeps of tokens."""

import asyncio
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from paddock.policy.settings.schema import Settings
from paddock.policy.settings.serve import ServeToken
from paddock.surfaces.tenants import UnknownToken
from paddock.surfaces.tenants.tokens import hash_token
from paddock.surfaces.web import viewer as web_viewer
from paddock.surfaces.web.login import OWNER, Login
from paddock.surfaces.web.viewer import NoViewer, TenantViewers, Viewer


class Tenant:
    """What a page needs of a tenant."""

    def __init__(self, token: ServeToken) -> None:
        self.token = token
        self.actor = token.actor_name
        self.settings = Settings()
        self.opened: Any = None
        self.questions: Any = None
        self.questions_of_others: Any = None
        self.may_approve = token.approve
        self.revoked = asyncio.Event()

    def in_use(self) -> Any:
        return nullcontext()


class Tenants:
    """The tenants of some tokens."""

    def __init__(self, **scopes: str) -> None:
        self.known = {
            name: Tenant(
                ServeToken.model_validate({"name": name, "sha256": hash_token(name), "scope": scope})
            )
            for name, scope in scopes.items()
        }
        self.counted: list[str] = []

    async def identify(self, token: str, *, counts: bool = True) -> Tenant:
        if token not in self.known:
            raise UnknownToken
        if counts:
            self.counted.append(token)
        return self.known[token]


def make_viewers(tenants: Any, **options: Any) -> TenantViewers:
    given = {"owner_token": "owner", "all_questions": None, "owner": "olga", "sources": {}, **options}
    return TenantViewers(tenants, Settings(), Path("/ws"), **given)


async def look(viewers: TenantViewers, who: str) -> Viewer:
    async with viewers.view(Login(who, "cookie")) as viewer:
        return viewer


def test_a_token_is_seen_as_its_user_and_each_page_counts():
    async def check() -> None:
        tenants = Tenants(ann="all", owner="all")
        viewers = make_viewers(tenants)
        who = await viewers.accept_token("ann")
        assert who == hash_token("ann")
        seen = await look(viewers, who)
        assert (seen.name, seen.actor, seen.is_owner) == ("token:ann", "token:ann", False)
        owner = await look(viewers, OWNER)
        assert (owner.name, owner.actor, owner.is_owner) == ("olga", "", True)
        assert tenants.counted == ["ann", "ann", "owner"]

    asyncio.run(check())


def test_the_token_of_the_server_itself_is_a_user_and_not_its_owner():
    async def check() -> None:
        viewers = make_viewers(Tenants(owner="all"))
        seen = await look(viewers, await viewers.accept_token("owner"))
        assert not seen.is_owner

    asyncio.run(check())


def test_a_token_for_metrics_sees_nothing_not_even_after_it_became_one():
    async def check() -> None:
        tenants = Tenants(ann="all", meter="metrics")
        viewers = make_viewers(tenants)
        with pytest.raises(UnknownToken):
            await viewers.accept_token("meter")
        who = await viewers.accept_token("ann")
        tenants.known["ann"].token = Tenants(ann="metrics").known["ann"].token
        with pytest.raises(NoViewer):
            await look(viewers, who)

    asyncio.run(check())


@pytest.mark.parametrize("who", ["", "x", hash_token("ann"), hash_token("nobody")])
def test_a_hash_of_which_the_server_has_no_token_sees_nothing(who):
    async def check() -> None:
        with pytest.raises(NoViewer, match="this login has ended"):
            await look(make_viewers(Tenants(ann="all")), who)

    asyncio.run(check())


def test_a_revoked_token_is_forgotten_and_ends_what_is_being_sent():
    async def check() -> None:
        tenants = Tenants(ann="all")
        viewers = make_viewers(tenants)
        who = await viewers.accept_token("ann")
        seen = await look(viewers, who)
        assert not seen.has_ended
        tenants.known.pop("ann").revoked.set()
        assert seen.has_ended
        with pytest.raises(NoViewer):
            await look(viewers, who)
        tenants.known |= Tenants(ann="all").known
        with pytest.raises(NoViewer):  # its user logs in again
            await look(viewers, who)

    asyncio.run(check())


def test_the_number_of_tokens_in_memory_is_limited(monkeypatch):
    monkeypatch.setattr(web_viewer, "_MAX_TOKENS", 2)

    async def check() -> None:
        viewers = make_viewers(Tenants(ann="all", bob="all", carol="all"))
        ann, bob = [await viewers.accept_token(name) for name in ("ann", "bob")]
        await viewers.accept_token("ann")
        carol = await viewers.accept_token("carol")
        with pytest.raises(NoViewer):
            await look(viewers, bob)
        assert [(await look(viewers, who)).name for who in (ann, carol)] == ["token:ann", "token:carol"]

    asyncio.run(check())
