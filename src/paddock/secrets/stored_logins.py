"""Logins at upstream servers, kept in a part of the vault that no script can name.

Which servers have one, with facts that are no secrets, stands in a file beside the pins, so that a call of a server
without a login opens no vault.
"""

import asyncio
import hashlib
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, cast

from paddock.files import JsonFile, hold_lock
from paddock.hub.auth.tokens import Login, parse_login
from paddock.hub.config import HttpServer
from paddock.hub.pins import memory_of
from paddock.model.errors import ConfigurationError, VaultError
from paddock.secrets.vault import VALUE_BYTES, Vault, open_vault
from paddock.settings.schema import Settings

_PART = "logins"
_AGAIN_S = 0.02


class KeptLogins:
    """The logins of one servers file. `learn` hears of every secret that is taken out."""

    def __init__(self, settings: Settings, file: Path, learn: Callable[[str], None] | None = None) -> None:
        self._settings = settings
        self.directory = memory_of(settings.servers.state, file)
        self.index = JsonFile(self.directory / "logins.json")
        self.learn = learn or _ignore_secret

    @cached_property
    def vault(self) -> Vault:
        """The part of the vault. Raises VaultError."""
        return open_vault(self._settings.vault, _PART)

    @property
    def scope(self) -> str:
        """The scope of this file's logins."""
        return self.directory.name

    def find_keeper(self, server: HttpServer) -> "KeptLogin":
        """Return where the login at a server is kept."""
        return KeptLogin(self, server)

    def find_state(self, server: HttpServer) -> str:
        """Return what the login at a server is: `logged in`, `ended`, or empty. Raises ConfigurationError."""
        found: object = self.index.look().get(_name_login(server))
        if not isinstance(found, dict):
            return ""
        facts = cast("dict[str, Any]", found)
        ends = facts.get("expires_at")
        live = facts.get("renewable") or not isinstance(ends, int | float) or ends > time.time()
        return "logged in" if live else "ended"


class KeptLogin:
    """The login at one server."""

    def __init__(self, logins: KeptLogins, server: HttpServer) -> None:
        self._logins = logins
        self._server = server
        self._name = _name_login(server)

    def read_login(self) -> Login | None:
        """Return the login, None when there is none. Raises VaultError and ConfigurationError."""
        if self._name not in self._logins.index.look():
            return None
        text = self._logins.vault.get(self._logins.scope, self._name)
        login = parse_login(text) if text else None
        if login is None or login.server != self._server.url:
            return None
        for secret in login.secrets:
            self._logins.learn(secret)
        return login

    def write_login(self, login: Login) -> None:
        """Keep a login in the place of an older one. Raises VaultError and ConfigurationError."""
        for secret in login.secrets:
            self._logins.learn(secret)
        text = login.model_dump_json()
        if len(text.encode()) > VALUE_BYTES:
            raise VaultError(
                "the login is too large to be kept; its authorization server gives tokens that are no such"
            )
        self._logins.vault.set(self._logins.scope, self._name, text)
        facts = {
            "server": self._server.name,
            "issuer": str(login.metadata.get("issuer", "")),
            "scope": login.scope,
        }
        facts |= {"expires_at": login.expires_at, "renewable": bool(login.refresh_token or not login.tokens)}
        self._logins.index.update(lambda held: held.__setitem__(self._name, facts))

    def delete_login(self) -> bool:
        """Remove the login; tell whether there was one. Raises VaultError and ConfigurationError."""
        if self._name not in self._logins.index.look():
            return False
        self._logins.vault.delete(self._logins.scope, self._name)
        self._logins.index.update(lambda held: held.pop(self._name, None))
        return True

    @asynccontextmanager
    async def hold_lock(self) -> AsyncGenerator[None]:
        """Keep others, in this process and in others, from changing the login meanwhile."""
        while True:
            try:
                with hold_lock(self._logins.directory / f"{self._name}.lock", wait=False) as mine:
                    if mine:
                        yield
                        return
            except OSError as error:
                raise ConfigurationError(f"{error.filename}: cannot be used: {error.strerror}") from None
            await asyncio.sleep(_AGAIN_S)  # who holds it waits for one answer of an authorization server


def _ignore_secret(_secret: str) -> None:
    pass


def _name_login(server: HttpServer) -> str:
    """Return the name of a login: of an entry with one name and one address."""
    return hashlib.sha256(f"{server.name}\0{server.url}".encode()).hexdigest()[:32]
