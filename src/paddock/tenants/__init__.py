"""Who calls a server: tokens, and the session of each caller."""

import hmac
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from paddock.app.session import Session, open_session
from paddock.model.errors import PaddockError
from paddock.settings.schema import Settings

if TYPE_CHECKING:
    from paddock.javascript.launch import Launcher


class UnknownToken(PaddockError):
    """A token is not known."""


class RateExceeded(PaddockError):
    """A caller has reached a limit of its token."""

    def __init__(self, message: str, retry_after_s: float = 1) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


@dataclass(frozen=True)
class Tenant:
    """One caller."""

    actor: str
    settings: Settings
    session: Session
    may_approve: bool = False

    @asynccontextmanager
    async def admit(self) -> AsyncGenerator[None]:
        """Bound the jobs of the caller."""
        yield


class Tenants:
    """The callers of a server."""

    def __init__(
        self, settings: Settings, workspace: Path, *, launcher: "Launcher | None" = None, token: str
    ) -> None:
        self._settings = settings
        self._workspace = workspace
        self._launcher = launcher
        self._token = token.encode()
        self._open = AsyncExitStack()
        self._tenant: Tenant | None = None

    async def __aenter__(self) -> Self:
        session = open_session(self._settings, self._workspace, launcher=self._launcher)
        opened = await self._open.enter_async_context(session)
        self._tenant = Tenant("http", self._settings, opened)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._open.aclose()

    async def identify(self, token: str) -> Tenant:
        """Return the caller that has a token. Raises UnknownToken and RateExceeded."""
        assert self._tenant is not None
        if not hmac.compare_digest(token.encode("utf-8", "replace"), self._token):
            raise UnknownToken("this token is not known")
        return self._tenant
