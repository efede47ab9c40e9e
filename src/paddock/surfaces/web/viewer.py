"""Who looks at the page, and what they may see: the owner everything, a user of the server only their own."""

from collections import OrderedDict
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, Protocol

from paddock.model.errors import PaddockError
from paddock.surfaces.client.attached import AttachedPaddock
from paddock.surfaces.client.requests import LibraryCaller
from paddock.surfaces.tenants import UnknownToken
from paddock.surfaces.web.login import OWNER, Login

if TYPE_CHECKING:
    import asyncio

    from paddock.gate.approvals import Asker
    from paddock.gate.open_paddock import OpenPaddock
    from paddock.gate.questions import AnswerableQuestions
    from paddock.policy.settings.schema import Settings
    from paddock.surfaces.tenants import Tenant, Tenants

_MAX_TOKENS = 10_000
"""Maximum number of tokens that are kept for logins. Beyond it, the person who logged in first logs in again."""
SURFACE = "web"
"""Surface of the requests that a person makes on the page, in the record."""


class Viewer(NamedTuple):
    """A person who is logged in."""

    name: str
    """Who they are: stands in the record for what they do here."""
    actor: str
    """The only actor whose runs they see; empty for the owner, who sees those of all."""
    settings: "Settings"
    """Where their stores are, and what policy allows them."""
    workspace: Path
    opened: "OpenPaddock"
    """Carries out their requests."""
    questions: "AnswerableQuestions | None"
    """The questions that they may answer; None for a token without that right."""
    own_questions: "AnswerableQuestions | None" = None
    """The questions of their own runs, which another person answers; None for the owner."""
    revoked: "asyncio.Event | None" = None
    """Set when their token is not valid any more; None for a person without one."""
    sources: Mapping[str, str] = MappingProxyType({})
    """Where each setting and rule comes from, as in `Merged`; empty for those who may not know paths of the server."""

    @property
    def has_ended(self) -> bool:
        """Whether they may see nothing any more."""
        return self.revoked is not None and self.revoked.is_set()

    @property
    def is_owner(self) -> bool:
        """Whether they see the runs of all actors, and the server itself."""
        return not self.actor

    def find_recorded_actor(self) -> str | None:
        """Return the actor whose records they may see, as the ledger names it; None for all."""
        from paddock.gate.work.kind import shorten_name

        if self.is_owner:
            return None
        return str(self.opened.outgoing.facts({"actor": shorten_name(self.actor)})["actor"])

    def attach(self, asker: "Asker | None" = None) -> AttachedPaddock:
        """Return what sends their requests through the gate. `asker` answers for them where a rule asks.

        A token may be an agent's. Requests of its user are therefore those of the API, for all rules.
        """
        caller = LibraryCaller(self.name, SURFACE if self.is_owner else "http", asker)
        return AttachedPaddock(self.opened, self.settings, self.workspace, caller)

    async def count_waiting(self) -> int:
        """Return how many questions wait for an answer of theirs; 0 if they cannot be read."""
        try:
            return 0 if self.questions is None else len(await self.questions.list_waiting())
        except PaddockError:
            return 0


class Viewers(Protocol):
    """Finds what a login may see."""

    takes_tokens: bool
    """Whether users log in with tokens."""

    def view(self, login: Login) -> "AbstractViewer":
        """Return a context that keeps the viewer's Paddock open. Entering raises NoViewer."""
        ...

    async def accept_token(self, token: str) -> str:
        """Return who logs in with a token: its SHA-256. Raises UnknownToken, and NoViewer where tokens do not count."""
        ...


class NoViewer(PaddockError):
    """A login whose person cannot be found any more: they log in again."""


if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    AbstractViewer = AbstractAsyncContextManager[Viewer]


class LocalViewers:
    """The owner of a state directory, for `paddock ui`."""

    takes_tokens = False

    def __init__(self, viewer: Viewer) -> None:
        self._viewer = viewer

    @asynccontextmanager
    async def view(self, login: Login) -> AsyncGenerator[Viewer]:
        """Yield the owner."""
        if login.who != OWNER:
            raise NoViewer("this page knows no tokens: run `paddock ui --link` on its machine")
        yield self._viewer

    async def accept_token(self, token: str) -> str:
        """Raise NoViewer."""
        del token
        raise NoViewer("this page knows no tokens: run `paddock ui --link` on its machine")


class TenantViewers:
    """The owner and the users of a server, for `paddock serve http --ui`."""

    takes_tokens = True

    def __init__(
        self,
        tenants: "Tenants",
        settings: "Settings",
        workspace: Path,
        *,
        owner_token: str,
        all_questions: "AnswerableQuestions",
        owner: str,
        sources: Mapping[str, str],
    ) -> None:
        """`owner_token` runs what the owner does, whose name is `owner`; `all_questions` are those of all users.

        `sources` are those of the settings, as in `Merged`.
        """
        self._sources = sources
        self._tenants = tenants
        self._settings = settings
        self._workspace = workspace
        self._owner_token = owner_token
        self._all_questions = all_questions
        self._owner = owner
        self._tokens: OrderedDict[str, str] = OrderedDict()
        """The tokens of users that are logged in, by their hash."""

    async def accept_token(self, token: str) -> str:
        """Return the hash of a valid token. Raises UnknownToken and RateExceeded."""
        tenant = await self._identify(token)
        self._tokens[tenant.token.sha256] = token
        self._tokens.move_to_end(tenant.token.sha256)
        if len(self._tokens) > _MAX_TOKENS:
            self._tokens.popitem(last=False)
        return tenant.token.sha256

    @asynccontextmanager
    async def view(self, login: Login) -> AsyncGenerator[Viewer]:
        """Yield who is logged in. Raises NoViewer for a token that was revoked, or given to an earlier server.

        Each page counts as a request of the token. Raises RateExceeded.
        """
        token = self._owner_token if login.who == OWNER else self._tokens.get(login.who)
        try:
            tenant = await self._identify(token or "")
            viewer = self._describe_owner(tenant) if login.who == OWNER else self._describe_user(tenant)
        except UnknownToken:
            self._tokens.pop(login.who, None)
            raise NoViewer(
                "this login has ended: its token is not valid any more, or the server was restarted"
            ) from None
        with tenant.in_use():
            yield viewer

    async def _identify(self, token: str) -> "Tenant":
        """Return the tenant of a token that may see pages. Raises UnknownToken and RateExceeded."""
        tenant = await self._tenants.identify(token)
        if tenant.token.scope == "metrics":
            raise UnknownToken
        return tenant

    def _describe_owner(self, tenant: "Tenant") -> Viewer:
        own = self._settings, self._workspace, tenant.opened
        return Viewer(
            self._owner, "", *own, self._all_questions, revoked=tenant.revoked, sources=self._sources
        )

    def _describe_user(self, tenant: "Tenant") -> Viewer:
        own = tenant.settings, self._workspace, tenant.opened
        others = tenant.questions_of_others if tenant.may_approve else None
        return Viewer(tenant.actor, tenant.actor, *own, others, tenant.questions, tenant.revoked)
