"""Secrets in the database that several machines share, each encrypted on its own.

A row is one Fernet token (https://github.com/fernet/spec) over scope, name and value: a user of the database
can neither read a secret nor move it to a scope whose readers should not have it. The keys are in a file, such as a
mounted secret, and never in the database. The first key encrypts, all of them decrypt: a key is replaced by a new line
above it, `paddock vault rotate`, and the removal of the old line.
"""

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from paddock.engines.secrets.names import NAME_PATTERN, VALUE_BYTES, check_names, check_value
from paddock.foundation.own_files import read_trusted
from paddock.model.errors import PaddockError, VaultError

if TYPE_CHECKING:
    from collections.abc import Callable

    from cryptography.fernet import MultiFernet

    from paddock.cluster.blocking import BlockingDatabase

MAX_NAMES = 10_000
"""Maximum number of listed names."""
_MAX_SEALED_BYTES = 4 * VALUE_BYTES
_MAX_KEYS = 16
_MAX_FILE_BYTES = 64 * 1024
_NEW_KEY = "openssl rand -base64 32 | tr '+/' '-_'"


class VaultKeys(NamedTuple):
    """The keys of a file. `current` is a hash that names the one that encrypts."""

    box: "MultiFernet"
    current: str


class ClusterVault:
    """Secrets in rows of a database; see `paddock.engines.secrets.vault.Vault`. The keys are read at each use."""

    def __init__(self, open_database: "Callable[[], BlockingDatabase]", key_file: Path) -> None:
        self._open_database = open_database
        self._key_file = key_file

    def get(self, scope: str, name: str) -> str | None:
        """Return a secret, or None without one."""
        check_names(scope, name)
        rows = self._fetch(
            "select substring(sealed, 1, %s) from secret where scope = %s and name = %s",
            _MAX_SEALED_BYTES,
            scope,
            name,
        )
        return _unseal(read_vault_keys(self._key_file), rows[0][0], scope, name) if rows else None

    def set(self, scope: str, name: str, value: str) -> None:
        """Store a secret, and replace an older one."""
        check_names(scope, name)
        check_value(value)
        keys = read_vault_keys(self._key_file)
        self._fetch(
            "insert into secret (scope, name, sealed, key_id) values (%s, %s, %s, %s) "
            "on conflict (scope, name) do update set sealed = excluded.sealed, key_id = excluded.key_id",
            *(scope, name, _seal(keys, scope, name, value), keys.current),
        )

    def delete(self, scope: str, name: str) -> bool:
        """Remove a secret; return whether there was one."""
        check_names(scope, name)
        return bool(self._fetch("delete from secret where scope = %s and name = %s returning 1", scope, name))

    def names(self, scope: str) -> list[str]:
        """Return the names in a scope, sorted."""
        check_names(scope)
        rows = self._fetch("select name from secret where scope = %s limit %s", scope, MAX_NAMES)
        return sorted(name for (name,) in rows if NAME_PATTERN.fullmatch(name))

    def rotate(self) -> int:
        """Encrypt everything with the first key that was encrypted with another one; return how many secrets.

        Other machines may use the vault meanwhile: a secret that one of them replaces is left as it is. Raises
        VaultError after the others are done, if one cannot be decrypted.
        """
        keys = read_vault_keys(self._key_file)
        done, problem = 0, None
        rows = self._fetch(
            "select scope, name, substring(sealed, 1, %s) from secret where key_id <> %s",
            _MAX_SEALED_BYTES,
            keys.current,
        )
        for scope, name, sealed in rows:
            try:
                value = _unseal(keys, sealed, scope, name)
            except VaultError as error:
                problem = problem or error
                continue
            done += len(
                self._fetch(
                    "update secret set sealed = %s, key_id = %s where scope = %s and name = %s and sealed = %s "
                    "returning 1",
                    *(_seal(keys, scope, name, value), keys.current, scope, name, sealed),
                )
            )
        if problem is not None:
            raise problem
        return done

    def _fetch(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        try:
            return self._open_database().fetch(query, values)
        except PaddockError as error:
            raise VaultError(f"the vault cannot be used: {error}") from None


def read_vault_keys(file: Path) -> VaultKeys:
    """Return the keys in a file, one per line. Raises VaultError, whose text has no key in it."""
    from cryptography.fernet import Fernet, MultiFernet

    try:
        lines = read_trusted(file, _MAX_FILE_BYTES).split()
        others_read = file.stat().st_mode & 0o007
    except FileNotFoundError:
        raise VaultError(
            f"vault.key_file: {file} does not exist; copy it from another machine, or make the first key with: "
            f"{_NEW_KEY}"
        ) from None
    except OSError as error:  # NotOursError is one
        raise VaultError(f"vault.key_file: cannot read {file}: {error.strerror}") from None
    if others_read:
        raise VaultError(f"vault.key_file: every user can read {file}; run: chmod 600 {file}")
    try:
        keys = [Fernet(line) for line in lines]
    except ValueError:
        keys = []
    if not 0 < len(keys) <= _MAX_KEYS:
        raise VaultError(
            f"vault.key_file: {file} must have 1 to {_MAX_KEYS} Fernet keys, one per line; make one with: {_NEW_KEY}"
        )
    return VaultKeys(MultiFernet(keys), hashlib.sha256(lines[0]).hexdigest()[:16])


def _seal(keys: VaultKeys, scope: str, name: str, value: str) -> bytes:
    return keys.box.encrypt(json.dumps([scope, name, value]).encode())


def _unseal(keys: VaultKeys, sealed: bytes, scope: str, name: str) -> str:
    """Return the secret in a row. Raises VaultError unless it was sealed for this scope and name."""
    from cryptography.fernet import InvalidToken

    try:
        found: object = json.loads(keys.box.decrypt(bytes(sealed)))
    except (InvalidToken, ValueError, RecursionError):
        found = None
    match found:
        case [str() as of_scope, str() as of_name, str() as value] if (of_scope, of_name) == (scope, name):
            return value
        case _:
            raise VaultError(
                f"the secret {name} of the scope {scope} was not encrypted with a key of vault.key_file, or was "
                "changed; add its key to that file, or store the secret again"
            )
