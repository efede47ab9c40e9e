"""Who is logged in to the page: files named by the hash of a cookie, beside those of the codes of printed links.

    paddock ui prints /login?code=CODE     CODE_S, one use: the first POST removes its file
    POST /login                            a cookie for LOGIN_S; also the next server at the same port knows it
    paddock ui --revoke                    removes all files, and with them every login

A file contains when it expires and who is logged in: the owner, or the hash of a token. The token itself is only in
the memory of the server that got it; after a restart its user logs in again.
"""

import hashlib
import hmac
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from paddock.foundation.files import make_private, replace_file
from paddock.foundation.own_files import check_directory, read_own
from paddock.model.errors import ConfigurationError

CODE_S = 60
"""Time in which the code of a printed link can be used, in seconds."""
LOGIN_S = 12 * 3600
"""Time for which a login holds, in seconds."""
OWNER = "owner"
"""Who is logged in by a printed link."""
_CODE, _LOGIN = ".code", ".login"
_MAX_BYTES = 200
_MAX_SECRET_CHARS = 100
_MAX_EACH = 20
"""Maximum number of logins, and of codes, of one person. A further one ends the oldest."""


class Login(NamedTuple):
    """A valid login."""

    who: str
    """`OWNER`, or the SHA-256 of a token, in hex."""
    cookie: str

    @property
    def csrf_token(self) -> str:
        """What every form of this login contains. It cannot be computed without the cookie."""
        return hmac.digest(self.cookie.encode(), b"csrf", "sha256").hex()


class _Entry(NamedTuple):
    """The content of a file: when it expires, in seconds since the epoch, and who is logged in."""

    expires: int
    who: str


class Logins:
    """The logins and codes in one directory."""

    def __init__(
        self, directory: Path, clock: Callable[[], float] = time.time, port: int | None = None
    ) -> None:
        """`clock` returns seconds since the epoch; `port` is that of the server, whose links and logins these are."""
        self._directory = directory
        self._clock = clock
        self._port = port

    def at_port(self, port: int | None) -> "Logins":
        """Return the logins of the server at a port. Browsers send its cookies to other ports, too."""
        return Logins(self._directory, self._clock, port)

    def make_code(self) -> str:
        """Return a new code for a link of the owner. Raises ConfigurationError."""
        return self._add(_CODE, CODE_S, OWNER)

    def use_code(self, code: str) -> str | None:
        """Use a code up and return the cookie of a new login; None for a code that is unknown, used or expired.

        Raises ConfigurationError.
        """
        who = self._find(code, _CODE)
        if who is None:
            return None
        try:
            self._locate(code, _CODE).unlink()  # of two requests with one code, one succeeds
        except FileNotFoundError:
            return None
        return self.log_in(who)

    def log_in(self, who: str) -> str:
        """Return the cookie of a new login. Raises ConfigurationError."""
        return self._add(_LOGIN, LOGIN_S, who)

    def find(self, cookie: str) -> Login | None:
        """Return the login of a cookie; None if there is none, or it was revoked or has expired."""
        who = self._find(cookie, _LOGIN)
        return None if who is None else Login(who, cookie)

    def log_out(self, cookie: str) -> None:
        """End a login."""
        self._locate(cookie, _LOGIN).unlink(missing_ok=True)

    def revoke_all(self) -> int:
        """End all logins, and make all printed links useless; return the number of logins that were ended.

        Raises ConfigurationError if a file cannot be removed, after it has removed the others.
        """
        ended, failed = 0, None
        for path in self._list_files():
            try:
                path.unlink(missing_ok=True)
            except OSError as error:
                failed = ConfigurationError(
                    f"{path}: this login cannot be ended: {error.strerror} (ui.directory)"
                )
            else:
                ended += path.suffix == _LOGIN
        if failed is not None:
            raise failed
        return ended

    def _add(self, suffix: str, seconds: int, who: str) -> str:
        secret = secrets.token_urlsafe(32)
        now = self._clock()
        try:
            make_private(self._directory)
            check_directory(self._directory)
            self._make_room(suffix, who, now)
            replace_file(self._locate(secret, suffix), f"{now + seconds:.0f} {who}".encode())
        except OSError as error:
            where = error.filename or self._directory
            raise ConfigurationError(
                f"{where}: logins to the page cannot be kept here: {error.strerror} (ui.directory)"
            ) from error
        return secret

    def _make_room(self, suffix: str, who: str, now: float) -> None:
        """Remove what has expired, and the oldest of one kind and person beyond the maximum. Raises OSError."""
        own: list[tuple[int, Path]] = []
        for path in self._list_files():
            found = self._read(path, now)
            if found is None:
                path.unlink(missing_ok=True)
            elif found.who == who and path.suffix == suffix:
                own.append((found.expires, path))
        for _, path in sorted(own)[: max(0, len(own) + 1 - _MAX_EACH)]:
            path.unlink(missing_ok=True)

    def _find(self, secret: str, suffix: str) -> str | None:
        if not 0 < len(secret) <= _MAX_SECRET_CHARS:
            return None
        with suppress(OSError):
            check_directory(self._directory)  # a user who can rename files in it could log in
            found = self._read(self._locate(secret, suffix), self._clock())
            return None if found is None else found.who
        return None

    @staticmethod
    def _read(path: Path, now: float) -> "_Entry | None":
        """Return what a file says; None if it is missing, damaged or has expired."""
        with suppress(OSError, ValueError):
            expires, _, who = read_own(path, _MAX_BYTES).decode("ascii").partition(" ")
            if who and int(expires) > now:
                return _Entry(int(expires), who)
        return None

    def _locate(self, secret: str, suffix: str) -> Path:
        name = hashlib.sha256(f"{self._port} {secret}".encode("utf-8", "replace")).hexdigest()
        return self._directory / (name + suffix)

    def _list_files(self) -> Iterator[Path]:
        for suffix in (_CODE, _LOGIN):
            yield from self._directory.glob(f"*{suffix}")
