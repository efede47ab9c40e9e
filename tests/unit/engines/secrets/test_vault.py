"""The vault: what it keeps, who can read it, and what it says when it cannot."""

import os
from itertools import product

import keyring.backend
import pytest
from cryptography.fernet import Fernet

from paddock.engines.secrets.vault import FileVault, KeyringVault, open_vault
from paddock.model.errors import VaultError
from paddock.policy.settings.schema import VaultSettings

SECRET = "s3cr3t-v4lue-é"


class Keyring(keyring.backend.KeyringBackend):
    """A keyring in memory."""

    priority = 5

    def __init__(self):
        super().__init__()
        self.kept = {}

    def get_password(self, service, username):
        return self.kept.get((service, username))

    def set_password(self, service, username, password):
        self.kept[service, username] = password

    def delete_password(self, service, username):
        del self.kept[service, username]


class Locked(Keyring):
    def get_password(self, service, username):
        raise RuntimeError(f"locked: {SECRET}")


@pytest.fixture(params=["file", "keyring"])
def vault(request, tmp_path):
    directory = tmp_path / "vault"
    return FileVault(directory) if request.param == "file" else KeyringVault(Keyring(), directory)


def test_a_secret_is_kept_by_scope_and_name_replaced_and_deleted(vault):
    assert vault.get("global", "key") is None
    vault.set("global", "key", "old")
    vault.set("global", "key", SECRET)
    vault.set("other", "key", "b")
    assert (vault.get("global", "key"), vault.get("other", "key")) == (SECRET, "b")
    assert (vault.names("global"), vault.names("none")) == (["key"], [])
    assert (vault.delete("global", "key"), vault.delete("global", "key")) == (True, False)
    assert (vault.get("global", "key"), vault.names("global")) == (None, [])


def test_names_are_sorted(vault):
    for name in ("b", "a", "c.d-e_f"):
        vault.set("s", name, "x")
    assert vault.names("s") == ["a", "b", "c.d-e_f"]


@pytest.mark.parametrize("name", ["", "a/b", "../x", "-a", "a b", "x" * 129, "é", "a\n"])
def test_a_malformed_name_is_refused_everywhere(vault, name):
    expected = (
        f"{name[:40]!r} cannot name a secret or a scope; use 1 to 128 letters, digits, `_`, `.` and `-`"
    )
    for call in (
        lambda: vault.get("s", name),
        lambda: vault.set("s", name, "x"),
        lambda: vault.delete("s", name),
        lambda: vault.get(name, "n"),
        lambda: vault.names(name),
    ):
        with pytest.raises(VaultError) as caught:
            call()
        assert str(caught.value) == expected


def test_a_value_has_bounds(vault):
    vault.set("s", "n", "x" * 65536)
    for value, size in (("", 0), ("x" * 65537, 65537)):
        with pytest.raises(VaultError) as caught:
            vault.set("s", "n", value)
        assert str(caught.value) == f"a secret has 1 to 65536 bytes, not {size}"
    assert vault.get("s", "n") == "x" * 65536


def test_no_file_holds_the_secret_or_may_be_read_by_others(vault, tmp_path):
    vault.set("scope", "name", SECRET)
    files = list((tmp_path / "vault").iterdir())
    assert len(files) >= 2
    assert (tmp_path / "vault").stat().st_mode & 0o777 == 0o700
    for file in files:
        assert file.stat().st_mode & 0o077 == 0
        assert SECRET.encode() not in file.read_bytes()


def test_a_changed_file_a_lost_key_and_a_foreign_key_are_told_apart(tmp_path):
    vault = FileVault(tmp_path)
    vault.set("s", "n", SECRET)
    file, key = tmp_path / "secrets.fernet", tmp_path / "key"
    token, right = file.read_bytes(), key.read_bytes()
    file.write_bytes(token[:50] + (b"B" if token[50:51] == b"A" else b"A") + token[51:])
    unfit = f"{file} was not encrypted with the key beside it, or was changed; restore both, or delete both to start afresh"
    with pytest.raises(VaultError) as caught:
        vault.get("s", "n")
    assert str(caught.value) == unfit
    file.write_bytes(token)
    key.unlink()
    with pytest.raises(VaultError) as caught:
        vault.get("s", "n")
    assert str(caught.value) == f"the key {key} is missing; restore it, or delete {file} to start afresh"
    key.write_bytes(right)
    assert vault.get("s", "n") == SECRET


@pytest.mark.parametrize(
    "content", [b"no JSON", b"[" * 100_000, b'["s"]', b'{"s": ["n"]}', b'{"s": {"n": 1}}', b"null"]
)
def test_what_holds_no_secrets_is_not_taken_for_a_vault(tmp_path, content):
    vault = FileVault(tmp_path)
    vault.set("s", "n", SECRET)
    file = tmp_path / "secrets.fernet"
    file.write_bytes(Fernet((tmp_path / "key").read_bytes()).encrypt(content))
    for call in (lambda: vault.get("s", "n"), lambda: vault.names("s"), lambda: vault.set("s", "n", "x")):
        with pytest.raises(VaultError) as caught:
            call()
        assert str(caught.value) == (
            f"{file} was not encrypted with the key beside it, or was changed; restore both, or delete both to start afresh"
        )


def test_a_file_that_is_too_large_is_not_read(tmp_path):
    vault = FileVault(tmp_path)
    vault.set("s", "n", SECRET)
    os.truncate(tmp_path / "secrets.fernet", 16 * 1024 * 1024 + 1)
    with pytest.raises(VaultError) as caught:
        vault.get("s", "n")
    file = tmp_path / "secrets.fernet"
    assert str(caught.value) == (
        f"the vault cannot be used: {file}: it is larger than 16777216 bytes; move {file} away"
    )


def test_a_vault_that_is_full_keeps_what_it_has(tmp_path, monkeypatch):
    vault = FileVault(tmp_path)
    vault.set("s", "n", SECRET)
    monkeypatch.setattr("paddock.engines.secrets.vault.FILE_BYTES", 1000)
    with pytest.raises(VaultError) as caught:
        vault.set("s", "m", "x" * 1000)
    assert str(caught.value) == "the vault is full; delete what is no longer needed"
    assert (vault.names("s"), vault.get("s", "n")) == (["n"], SECRET)


def test_a_place_that_cannot_be_used_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(VaultError) as caught:
        FileVault(tmp_path / "file").get("s", "n")
    file = tmp_path / "file"
    assert (
        str(caught.value)
        == f"the vault cannot be used: {file}: it is a file, not a directory; move {file} away"
    )


@pytest.mark.parametrize("backend", ["file", "keyring"])
def test_a_part_is_a_vault_of_its_own(tmp_path, monkeypatch, backend):
    ring = Keyring()
    monkeypatch.setattr("keyring.get_keyring", lambda: ring)
    whole, part = (
        open_vault(VaultSettings(backend=backend, directory=tmp_path), name) for name in ("", "logins")
    )
    part.set("s", "n", SECRET)
    assert (whole.get("s", "n"), whole.names("s"), whole.delete("s", "n")) == (None, [], False)
    whole.set("s", "n", "other")
    assert (whole.get("s", "n"), part.get("s", "n")) == ("other", SECRET)
    kept = {} if backend == "file" else {("paddock", "s/n"): "other", ("paddock-logins", "s/n"): SECRET}
    assert ring.kept == kept


def test_what_a_keyring_says_is_not_repeated(tmp_path):
    vault = KeyringVault(Locked(), tmp_path)
    with pytest.raises(VaultError) as caught:
        vault.get("s", "n")
    assert str(caught.value) == "the keyring refused (RuntimeError); unlock it and try again"
    assert caught.value.__cause__ is None


def test_auto_takes_the_keyring_where_there_is_one(tmp_path, monkeypatch):
    made = {}
    for usable, backend in product((True, False), ("auto", "keyring", "file")):
        ring = Keyring()
        monkeypatch.setattr(Keyring, "priority", 1 if usable else 0.9)
        monkeypatch.setattr("keyring.get_keyring", lambda ring=ring: ring)
        try:
            made[usable, backend] = type(
                open_vault(VaultSettings(backend=backend, directory=tmp_path))
            ).__name__
        except VaultError as error:
            made[usable, backend] = str(error)
    assert made == {
        (True, "auto"): "KeyringVault",
        (True, "keyring"): "KeyringVault",
        (True, "file"): "FileVault",
        (False, "auto"): "FileVault",
        (False, "keyring"): "this system has no keyring that Paddock can use; unlock one, or set"
        ' `backend = "file"` under [vault]',
        (False, "file"): "FileVault",
    }


def test_a_link_in_the_place_of_the_vault_is_not_followed(tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    (tmp_path / "vault").symlink_to(elsewhere)
    with pytest.raises(VaultError):
        FileVault(tmp_path / "vault").set("s", "n", SECRET)
    assert list(elsewhere.iterdir()) == []
