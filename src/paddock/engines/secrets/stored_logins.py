"""Store logins for upstream servers in a part of the vault that no script can access.

A file beside the pins lists the servers with a login, and facts that are not secret. A call of a server without a login
therefore does not open the vault.
"""

import asyncio
import hashlib
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, cast

from paddock.engines.secrets.names import VALUE_BYTES
from paddock.engines.secrets.vault import Vault, open_vault
from paddock.engines.servers.auth.tokens import Login, parse_login
from paddock.engines.servers.config import HttpServer
from paddock.engines.servers.pins import memory_of
from paddock.foundation.files import JsonFile, hold_lock
from paddock.model.errors import ConfigurationError, VaultError
from paddock.policy.settings.schema import Settings

_PART = "logins"
_AGAIN_S = 0.02


class KeptLogins:
    """The logins of one servers file. `learn` is called with every secret that is read or written."""

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
        """Return the store of the login for a server."""
        return KeptLogin(self, server)

    def find_state(self, server: HttpServer) -> str:
        """Return the state of the login for a server: `logged in`, `ended` or "". Raises ConfigurationError."""
        found: object = self.index.look().get(_name_login(server))
        if not isinstance(found, dict):
            return ""
        facts = cast("dict[str, Any]", found)
        ends = facts.get("expires_at")
        live = facts.get("renewable") or not isinstance(ends, int | float) or ends > time.time()
        return "logged in" if live else "ended"


class KeptLogin:
    """The login for one server."""

    def __init__(self, logins: KeptLogins, server: HttpServer) -> None:
        self._logins = logins
        self._server = server
        self._name = _name_login(server)

    def read_login(self) -> Login | None:
        """Return the login, or None without one. Raises VaultError and ConfigurationError."""
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
        """Store a login and replace an older one. Raises VaultError and ConfigurationError."""
        for secret in login.secrets:
            self._logins.learn(secret)
        text = login.model_dump_json()
        if len(text.encode()) > VALUE_BYTES:
            raise VaultError(
                f"the login takes more than {VALUE_BYTES} bytes and cannot be stored; ask the operator of the "
                "authorization server for smaller tokens"
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
        """Remove the login; return whether there was one. Raises VaultError and ConfigurationError."""
        if self._name not in self._logins.index.look():
            return False
        self._logins.vault.delete(self._logins.scope, self._name)
        self._logins.index.update(lambda held: held.pop(self._name, None))
        return True

    @asynccontextmanager
    async def hold_lock(self) -> AsyncGenerator[None]:
        """Prevent other tasks and processes from changing the login within the context."""
        while True:
            try:
                with hold_lock(self._logins.directory / f"{self._name}.lock", wait=False) as mine:
                    if mine:
                        yield
                        return
            except OSError as error:
                raise ConfigurationError(f"{error.filename}: cannot be used: {error.strerror}") from None
            await asyncio.sleep(_AGAIN_S)  # the holder waits for one reply of an authorization server


def _ignore_secret(_secret: str) -> None:
    pass


def _name_login(server: HttpServer) -> str:
    """Return the name of a login, which depends on the name and the address of a server's entry."""
    return hashlib.sha256(f"{server.name}\0{server.url}".encode()).hexdigest()[:32]
