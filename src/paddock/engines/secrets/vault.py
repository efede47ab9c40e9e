"""Secrets by scope and name, in the keyring of the operating system, in an encrypted file, or in a shared database.

The file is one Fernet token (AES-128-CBC with HMAC-SHA256, https://github.com/fernet/spec) over all secrets. Its key is
another file, made at the first use and readable only by its owner. A copy of one file without the other reveals
nothing; a process of the same user can read both, and so all secrets. A keyring cannot list its entries, so that their
names (never values) are stored beside it.
"""

import json
from collections.abc import Generator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

from paddock.engines.secrets.names import check_names, check_value
from paddock.foundation.files import hold_lock, replace_file
from paddock.foundation.own_files import NotOursError, check_directory, read_own
from paddock.model.errors import VaultError
from paddock.policy.settings.schema import VaultSettings

if TYPE_CHECKING:
    from paddock.engines.secrets.cluster_vault import ClusterVault

FILE_BYTES = 16 * 1024 * 1024
_KEY_BYTES = 1024

_KEYRING_SERVICE = "paddock"

Secrets = dict[str, dict[str, str]]
"""Values by scope and name."""


class Vault(Protocol):
    """A store of secrets. Names and scopes are 1 to 128 letters, digits, `_`, `.` and `-`.

    Every method raises VaultError for a malformed name, and if the store cannot be read or written.
    """

    def get(self, scope: str, name: str) -> str | None:
        """Return a secret, or None without one."""
        ...

    def set(self, scope: str, name: str, value: str) -> None:
        """Store a secret of 1 byte to 64 KiB, and replace an older one."""
        ...

    def delete(self, scope: str, name: str) -> bool:
        """Remove a secret; return whether there was one."""
        ...

    def names(self, scope: str) -> list[str]:
        """Return the names in a scope, sorted."""
        ...


def open_vault(settings: VaultSettings, part: str = "", *, url: str | None = None) -> Vault:
    """Return the vault that the settings name; `url` is `cluster.url`.

    A named part is a separate vault on this machine, which scripts cannot access. Raises VaultError if the settings
    require a keyring and there is none, or a database and it is not configured.
    """
    directory = settings.directory / part
    if settings.backend == "cluster" and not part:
        return open_cluster_vault(settings, url)
    if settings.backend != "file":
        import keyring

        backend = keyring.get_keyring()
        if backend.priority >= 1:
            return KeyringVault(
                cast("Backend", backend),
                directory,
                f"{_KEYRING_SERVICE}-{part}" if part else _KEYRING_SERVICE,
            )
        if settings.backend == "keyring":
            raise VaultError(
                'this system has no keyring that Paddock can use; unlock one, or set `backend = "file"` under [vault]'
            )
    return FileVault(directory)


def open_cluster_vault(settings: VaultSettings, url: str | None) -> "ClusterVault":
    """Return the vault in the database at `url`. Raises VaultError unless it is configured."""
    from paddock.cluster.blocking import BlockingDatabase
    from paddock.engines.secrets.cluster_vault import ClusterVault

    if settings.backend != "cluster":
        raise VaultError('the vault is not in a database; set `backend = "cluster"` under [vault]')
    if url is None or settings.key_file is None:
        missing = "cluster.url" if url is None else "vault.key_file"
        raise VaultError(f'`backend = "cluster"` under [vault] requires the setting {missing}')
    return ClusterVault(partial(BlockingDatabase, url, name="paddock vault"), settings.key_file)


class FileVault:
    """Secrets in one encrypted file below a directory."""

    def __init__(self, directory: Path) -> None:
        self._box = _EncryptedFile(directory, "secrets")

    def get(self, scope: str, name: str) -> str | None:
        check_names(scope, name)
        return self._box.read_secrets().get(scope, {}).get(name)

    def set(self, scope: str, name: str, value: str) -> None:
        check_names(scope, name)
        check_value(value)
        with self._box.change_secrets() as secrets:
            secrets.setdefault(scope, {})[name] = value

    def delete(self, scope: str, name: str) -> bool:
        check_names(scope, name)
        with self._box.change_secrets() as secrets:
            return secrets.get(scope, {}).pop(name, None) is not None

    def names(self, scope: str) -> list[str]:
        check_names(scope)
        return sorted(self._box.read_secrets().get(scope, {}))


class Backend(Protocol):
    """The used part of `keyring.backend.KeyringBackend`."""

    def get_password(self, service: str, username: str, /) -> str | None:
        """Return a secret, or None."""
        ...

    def set_password(self, service: str, username: str, password: str, /) -> None:
        """Store a secret."""
        ...

    def delete_password(self, service: str, username: str, /) -> None:
        """Remove a secret."""
        ...


class KeyringVault:
    """Secrets in the keyring of the operating system."""

    def __init__(self, backend: Backend, directory: Path, service: str = _KEYRING_SERVICE) -> None:
        self._backend = backend
        self._service = service
        self._index = _EncryptedFile(directory, "names")

    def get(self, scope: str, name: str) -> str | None:
        check_names(scope, name)
        with _translate_errors():
            return self._backend.get_password(self._service, f"{scope}/{name}")

    def set(self, scope: str, name: str, value: str) -> None:
        check_names(scope, name)
        check_value(value)
        with self._index.change_secrets() as names, _translate_errors():
            self._backend.set_password(self._service, f"{scope}/{name}", value)
            names.setdefault(scope, {})[name] = ""

    def delete(self, scope: str, name: str) -> bool:
        check_names(scope, name)
        with self._index.change_secrets() as names, _translate_errors():
            if self._backend.get_password(self._service, f"{scope}/{name}") is None:
                return False
            self._backend.delete_password(self._service, f"{scope}/{name}")
            names.get(scope, {}).pop(name, None)
            return True

    def names(self, scope: str) -> list[str]:
        check_names(scope)
        return sorted(self._index.read_secrets().get(scope, {}))


class _EncryptedFile:
    """An encrypted file, with its key in a file beside it."""

    def __init__(self, directory: Path, name: str) -> None:
        self._directory = directory
        self._file = directory / f"{name}.fernet"
        self._key = directory / "key"

    def read_secrets(self) -> Secrets:
        with _translate_errors():
            return self._decrypt_file()

    @contextmanager
    def change_secrets(self) -> Generator[Secrets]:
        """Yield the content under a lock, and replace the file if it was changed."""
        with _translate_errors(), suppress(FileNotFoundError):
            check_directory(self._directory)  # so that no lock file is made behind a link
        with _translate_errors(), hold_lock(self._directory / "lock"):
            secrets = self._decrypt_file()
            before = json.dumps(secrets)
            yield secrets
            if json.dumps(secrets) != before:
                self._encrypt_file(secrets)

    def _decrypt_file(self) -> Secrets:
        from cryptography.fernet import Fernet, InvalidToken  # takes 30 ms

        try:
            check_directory(self._directory)
            token = read_own(self._file, FILE_BYTES)
        except FileNotFoundError:
            return {}
        try:
            return _parse_secrets(json.loads(Fernet(read_own(self._key, _KEY_BYTES)).decrypt(token)))
        except FileNotFoundError:
            text = f"the key {self._key} is missing; restore it, or delete {self._file} to start afresh"
        except (InvalidToken, ValueError, RecursionError):
            text = (
                f"{self._file} was not encrypted with the key beside it, or was changed; "
                "restore both, or delete both to start afresh"
            )
        raise VaultError(text)

    def _encrypt_file(self, secrets: Secrets) -> None:
        from cryptography.fernet import Fernet

        check_directory(self._directory)
        if not self._key.exists():
            replace_file(self._key, Fernet.generate_key())
        token = Fernet(read_own(self._key, _KEY_BYTES)).encrypt(json.dumps(secrets).encode())
        if len(token) > FILE_BYTES:
            raise VaultError("the vault is full; delete what is no longer needed")
        replace_file(self._file, token)


def _parse_secrets(document: object) -> Secrets:
    """Return a document if it has strings by scope and name. Raises ValueError."""
    scopes = list(cast("dict[str, object]", document).values()) if isinstance(document, dict) else [document]
    for scope in scopes:
        if not isinstance(scope, dict):
            raise ValueError("no names")  # noqa: TRY004 - the content of a file, not an argument
        if not all(isinstance(value, str) for value in cast("dict[str, object]", scope).values()):
            raise ValueError("no texts")
    return cast("Secrets", document)


@contextmanager
def _translate_errors() -> Generator[None]:
    """Raise VaultError instead of errors of files and keyrings, whose texts may contain a secret."""
    try:
        yield
    except VaultError:
        raise
    except NotOursError as error:
        raise VaultError(f"the vault cannot be used: {error.filename}: {error.strerror}") from None
    except OSError as error:
        place = f" ({error.filename})" if error.filename else ""
        raise VaultError(f"the vault cannot be used: {error.strerror}{place}") from None
    except Exception as error:  # noqa: BLE001 - keyrings have errors of many kinds
        raise VaultError(f"the keyring refused ({type(error).__name__}); unlock it and try again") from None
