"""All tenants of one server: finds the tenant of a token, and ends what runs under tokens that are no longer valid."""

import asyncio
import logging
import math
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from paddock.engines.javascript.launch import Launcher
from paddock.foundation.cancellation import cancel_all, run_shielded
from paddock.foundation.fair_slots import Bound, FairSlots
from paddock.foundation.files import make_private
from paddock.gate.approvals import Asker
from paddock.gate.open_paddock import OpenPaddock, Server, open_audit, open_paddock
from paddock.gate.questions import QuestionStore
from paddock.gate.replay.recordings import open_store
from paddock.gate.stored_output import open_artifacts
from paddock.model.errors import ConfigurationError, DatabaseRestored, PaddockError, StoreUnavailable
from paddock.model.ids import new_id
from paddock.policy.settings.schema import Settings
from paddock.policy.settings.serve import ServeToken
from paddock.record.ledger.record_watch import RecordWatch
from paddock.record.ledger.sink import REVOKED, Field
from paddock.surfaces.tenants.errors import RateExceeded, UnknownToken
from paddock.surfaces.tenants.narrowing import USERS_DIRECTORY, narrow_settings
from paddock.surfaces.tenants.question_directories import QuestionDirectories
from paddock.surfaces.tenants.rate import RateLimit
from paddock.surfaces.tenants.refusals import Refusals
from paddock.surfaces.tenants.tenant import FlowMemories, Tenant
from paddock.surfaces.tenants.token_file import TokenFile
from paddock.surfaces.tenants.token_store import FileTokens, TokenStore, open_shared_tokens
from paddock.surfaces.tenants.tokens import find_token, hash_token

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from paddock.gate.cluster import Cluster
    from paddock.record.telemetry.metrics import Metrics
    from paddock.surfaces.tenants.shared_rates import SharedRates
    from paddock.surfaces.tenants.token_file import StoredToken

_WATCH_S = 1.0
"""Time between two looks at changed and expired tokens and at idle sessions, in seconds."""
_SWEEP_S = 3600.0
_log = logging.getLogger("paddock.surfaces.tenants")


class Stores(NamedTuple):
    """The stores of one server."""

    tokens: TokenStore
    questions: QuestionStore
    rates: "SharedRates | None" = None


class _OwnToken(ServeToken):
    """The token that whoever starts a server gives it. No other token can have its actor."""

    @property
    def actor_name(self) -> str:
        return "http"


class Tenants:
    """The tenants of one server, an async context manager. At its end everything that they run has ended."""

    def __init__(
        self,
        settings: Settings,
        workspace: Path,
        launcher: Launcher | None = None,
        *,
        token: str | None = None,
        metrics: "Metrics | None" = None,
        cluster: "Cluster | None" = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Serve the tokens of the settings, those of `paddock serve token new`, and one `token` of the caller's own.

        The actor of that one is `http`, without limits. The caller closes `launcher` and `cluster`. `metrics` count all
        requests. With a `cluster`, all of its servers have the same tokens and questions. `clock` returns seconds since
        the epoch, for `expires` of tokens. Raises ConfigurationError for tokens of the settings that cannot be used.
        """
        self._settings = settings
        self._workspace = workspace
        self._launcher = launcher or Launcher()
        self._metrics = metrics
        self._cluster = cluster
        self._clock = clock
        own = () if token is None else (_OwnToken(name="http", sha256=hash_token(token)),)
        self._fixed = (*settings.serve.token, *own)
        self._tokens, self._questions, self._shared_rates = open_stores(settings, cluster)
        self._stored: tuple[StoredToken, ...] = ()
        """The tokens of the store when it was last read."""
        self._slots = FairSlots()
        self._bound = Bound(settings.serve.max_jobs)
        self._tenants: dict[str, Tenant] = {}
        """By the hash of the token."""
        self._flow_memories = FlowMemories()
        self._rates: dict[str, RateLimit] = {}
        self._refused: set[str] = set()
        """Hashes of tokens whose policy cannot be used, which the log has been told."""
        self._ending: set[asyncio.Task[None]] = set()
        self._stack = AsyncExitStack()
        self._problem = ""
        check_tokens(self._fixed)
        for each in self._fixed:
            narrow_settings(settings, each)

    async def __aenter__(self) -> Self:
        """Open the ledger and begin to watch the tokens. Raises LedgerError."""
        audit = self._stack.enter_context(open_audit(self._settings.audit))
        self._audit = audit
        self.record = RecordWatch(audit, self._settings.audit)
        self.refusals = Refusals(audit, self._metrics)
        self._stack.callback(self.refusals.close)
        self._flush = partial(audit.query, limit=0)
        await self._questions.remove_abandoned()
        watching = asyncio.create_task(self._watch())
        self._stack.push_async_callback(self._end, watching)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End all sessions, and close the ledger."""
        await self._stack.aclose()

    @property
    def running(self) -> int:
        """Number of requests of all tenants that have a slot."""
        return self._bound.active

    @property
    def waiting(self) -> int:
        """Number of requests of all tenants that wait for a slot."""
        return self._bound.waiting

    async def identify(self, token: str, *, counts: bool = True, opens: bool = True) -> Tenant:
        """Return the tenant of a token, with an open session, and count the request.

        Without `counts`, another replica has counted it; without `opens`, the session is not needed.
        Raises UnknownToken, RateExceeded, and ConfigurationError if the file of tokens is damaged or the session cannot
        be opened; StoreUnavailable if the token may be one of a database that is away; LedgerError without a ledger.
        """
        entry = await self._find_entry(token)
        if entry.rate is not None and counts:
            if (limit := self._rates.get(entry.sha256)) is None or limit.requests != entry.rate:
                limit = self._rates[entry.sha256] = RateLimit(entry.rate)
            shared = self._shared_rates
            try:
                limit.count_request(shared.find_elsewhere(entry.sha256) if shared else ())
            except RateExceeded:
                self.refusals.note("too-many-requests", entry.actor_name)
                raise
        tenant = self._tenants.get(entry.sha256)
        if tenant is None or tenant.token != entry:
            tenant = self._make_tenant(entry)
        if opens and entry.scope != "metrics":
            await tenant.open()
        return tenant

    async def refresh(self) -> None:
        """Read the tokens again, and begin to end what runs under those no longer valid.

        Raises ConfigurationError if their file is damaged. Then nothing is ended, and no token is accepted. Raises
        StoreUnavailable if their database is away. Then nothing is ended except what runs under expired tokens.
        """
        await self._update(self._tokens.refresh)

    async def _update(self, read: Callable[[], Awaitable[tuple["StoredToken", ...]]]) -> None:
        problem: StoreUnavailable | None = None
        try:
            self._stored = await read()
        except StoreUnavailable as error:
            problem = error
        for name, entry in self._tokens.take_removed():
            facts: dict[str, Field] = {"kind": "token", "name": name, "token_sha256": entry}
            self._audit.append_soon(REVOKED, new_id(), facts)
        self._end_invalid({entry.sha256: entry for entry in self._select_valid(self._stored)})
        if problem is not None:
            raise problem

    def _end_invalid(self, valid: Mapping[str, ServeToken]) -> None:
        for sha256, tenant in [*self._tenants.items()]:
            if valid.get(sha256) != tenant.token:
                del self._tenants[sha256]
                self._end_soon(tenant.revoke())
        for sha256 in self._rates.keys() - valid.keys():
            del self._rates[sha256]

    async def close_idle(self) -> None:
        """Close the sessions that were not used for `serve.idle_ms`."""
        limit_s = self._settings.serve.idle_ms / 1000
        await asyncio.gather(
            *(each.close() for each in self._tenants.values() if each.is_open and each.idle_s > limit_s)
        )

    async def _find_entry(self, token: str) -> ServeToken:
        """Return the entry of a token. Raises UnknownToken, ConfigurationError and StoreUnavailable."""
        fixed = find_token(self._select_valid(()), token)
        if (
            fixed is not None and self._cluster is not None
        ):  # without a wait for a database that does not answer
            return fixed
        entry = find_token(self._select_valid(await self._tokens.read()), token)
        # It may have been made just now.
        entry = entry or find_token(self._select_valid(await self._tokens.refresh()), token)
        if entry is None:
            raise UnknownToken
        return entry

    def _select_valid(self, stored: Iterable[ServeToken]) -> list[ServeToken]:
        """Return the tokens of the settings and of the store that may be used now."""
        now = self._clock()
        return [
            each for each in (*self._fixed, *stored) if each.expires is None or each.expires.timestamp() > now
        ]

    def _make_tenant(self, entry: ServeToken) -> Tenant:
        try:
            settings = narrow_settings(self._settings, entry)
        except ConfigurationError as problem:
            if entry.sha256 not in self._refused:
                self._refused.add(entry.sha256)
                _log.error("the token %s is refused: %s", entry.name, problem)
            raise UnknownToken from None
        _make_directories(self._settings, settings)
        tenant = Tenant(
            entry,
            settings,
            self._slots,
            self._bound,
            self._questions,
            self._open_paddock,
            self._flush,
            self.refusals,
            self._flow_memories,
        )
        before = self._tenants.get(entry.sha256)
        if before is not None:  # its limits were changed
            self._end_soon(before.revoke())
        self._tenants[entry.sha256] = tenant
        return tenant

    def _open_paddock(
        self, settings: Settings, user: str, asker: Asker
    ) -> "AbstractAsyncContextManager[OpenPaddock]":
        return open_paddock(
            settings,
            self._workspace,
            launcher=self._launcher,
            asker=asker,
            metrics=self._metrics,
            server=Server(self._settings, self._audit, user, self._slots),
            cluster=self._cluster,
        )

    def _end_soon(self, ending: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(ending)
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    async def _watch(self) -> None:
        swept_at = -math.inf
        while True:
            self.record.can_run()  # it logs a change
            try:
                await self._update(self._tokens.update)
                await self.close_idle()
                if self._shared_rates is not None:
                    await self._shared_rates.exchange(
                        {sha256: limit.count_by_age() for sha256, limit in self._rates.items()}
                    )
                if time.monotonic() - swept_at >= _SWEEP_S:
                    swept_at = time.monotonic()
                    await asyncio.to_thread(sweep_artifacts, self._settings)
                    await asyncio.to_thread(purge_recordings, self._settings)
                    await self._questions.remove_abandoned()
                self._problem = ""
            except DatabaseRestored:
                self._problem = ""  # the cause of the safe mode is logged by the cluster
            except Exception as problem:  # noqa: BLE001 - whatever it was, revoked tokens must end also after it
                # The texts of one outage differ.
                text = type(problem).__name__ if isinstance(problem, StoreUnavailable) else str(problem)
                if text != self._problem:
                    self._problem = text
                    _log.error("the tokens cannot be watched: %s", problem)
            await asyncio.sleep(_WATCH_S)

    async def _end(self, watching: "asyncio.Task[None]") -> None:
        await run_shielded(cancel_all([watching]))
        for tenant in self._tenants.values():
            self._end_soon(tenant.close())
        if self._ending:
            await run_shielded(asyncio.wait({*self._ending}))


def open_stores(settings: Settings, cluster: "Cluster | None") -> Stores:
    """Return the stores that the servers of a cluster share; or those of one server, files below `serve.directory`.

    Raises ConfigurationError if `cluster.key_file` cannot be used.
    """
    if cluster is None:
        directory = settings.serve.directory
        return Stores(FileTokens(TokenFile(directory)), QuestionDirectories(directory))
    from paddock.cluster.listener import TOKENS
    from paddock.cluster.questions import open_questions
    from paddock.surfaces.tenants.shared_rates import SharedRates

    return Stores(
        open_shared_tokens(
            cluster.database, settings.cluster, cluster.listener.follow(TOKENS), cluster.generation
        ),
        open_questions(settings.cluster, cluster.database, cluster.node, cluster.listener),
        SharedRates(cluster.database, cluster.node.id),
    )


def check_tokens(tokens: Sequence[ServeToken]) -> None:
    """Raise ConfigurationError if two tokens have the same name or the same hash."""
    for key in ("name", "sha256"):
        values = [getattr(each, key) for each in tokens]
        if twice := next((each for number, each in enumerate(values) if each in values[:number]), None):
            what = f'name = "{twice}"' if key == "name" else "one sha256"
            raise ConfigurationError(f"two tokens have {what}; change one of them")


def _make_directories(server: Settings, settings: Settings) -> None:
    """Make the directories of a user, for the owner of the server alone. Raises ConfigurationError."""
    stores = (
        [server.serve.directory]
        if server.artifacts.url
        else [server.serve.directory, server.artifacts.directory]
    )
    if settings.record.payloads != "off":
        stores.append(server.record.directory)
    key = settings.approvals.directory.parent.name
    try:
        for store in stores:
            for directory in (store, store / USERS_DIRECTORY, store / USERS_DIRECTORY / key):
                make_private(directory)
    except OSError as error:
        raise ConfigurationError(f"{error.filename}: cannot be made: {error.strerror}") from None


def sweep_artifacts(settings: Settings) -> None:
    """Delete expired stored output of all users, also of absent ones. Buckets expire objects themselves."""
    if settings.artifacts.url is not None:
        return
    users = settings.artifacts.directory / USERS_DIRECTORY
    for directory in users.iterdir() if users.is_dir() else ():
        own = settings.artifacts.model_copy(update={"directory": directory})
        try:
            open_artifacts(settings.model_copy(update={"artifacts": own})).sweep()
        except PaddockError as problem:
            _log.warning("stored output of a user cannot be deleted: %s", problem)


def purge_recordings(settings: Settings) -> None:
    """Delete expired recordings of all users, also of absent ones."""
    users = settings.record.directory / USERS_DIRECTORY
    for directory in users.iterdir() if users.is_dir() else ():
        own = settings.record.model_copy(update={"directory": directory})
        try:
            open_store(settings.model_copy(update={"record": own})).purge()
        except PaddockError as problem:
            _log.warning("recordings of a user cannot be deleted: %s", problem)
