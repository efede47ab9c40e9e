"""Secrets in the database: what is kept, what a stranger with access to the database can do, and new keys."""

import json
import os
import subprocess
from functools import partial
from pathlib import Path

import pytest
from cryptography.fernet import Fernet
from tests.support.command import PADDOCK
from tests.support.leases import execute
from tests.support.postgres import Postgres, find_free_port

from paddock.cluster.blocking import BlockingDatabase
from paddock.engines.secrets.cluster_vault import ClusterVault
from paddock.engines.secrets.names import VALUE_BYTES
from paddock.model.errors import NotASecret, VaultError

SECRET = "s3cr3t-v4lue-é"


def write_keys(file: Path, *keys: bytes) -> Path:
    file.write_bytes(b"\n".join(keys) + b"\n")
    file.chmod(0o600)
    return file


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    return write_keys(tmp_path / "keys", Fernet.generate_key())


@pytest.fixture
def vault(tables_url: str, keys: Path) -> ClusterVault:
    return ClusterVault(partial(BlockingDatabase, tables_url), keys)


def run_paddock(
    *arguments: str, url: str, given: str = "", **variables: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [PADDOCK, *arguments],
        env={**os.environ, "PADDOCK_CLUSTER_URL": url, **variables},
        input=given,
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_secret_is_kept_by_scope_and_name_replaced_and_deleted(vault: ClusterVault) -> None:
    assert vault.get("global", "key") is None
    vault.set("global", "key", "old")
    vault.set("global", "key", SECRET)
    vault.set("other", "key", "b")
    assert (vault.get("global", "key"), vault.get("other", "key")) == (SECRET, "b")
    assert (vault.names("global"), vault.names("none")) == (["key"], [])
    assert (vault.delete("global", "key"), vault.delete("global", "key")) == (True, False)
    assert (vault.get("global", "key"), vault.names("global")) == (None, [])


def test_a_secret_and_its_key_are_not_in_the_database(
    vault: ClusterVault, keys: Path, tables_url: str
) -> None:
    vault.set("global", "key", SECRET)
    vault.set("global", "large", "x" * VALUE_BYTES)
    assert vault.get("global", "large") == "x" * VALUE_BYTES
    [(row,)] = execute(
        tables_url, "select secret::text || encode(sealed, 'escape') from secret where name = 'key'"
    )
    assert SECRET not in str(row)
    assert keys.read_text().strip() not in str(row)


def test_what_is_no_name_and_no_secret_is_refused(vault: ClusterVault) -> None:
    for refused in (
        lambda: vault.get("s", "a/b"),
        lambda: vault.set("s", "", "x"),
        lambda: vault.set("s", "n", ""),
        lambda: vault.set("s", "n", "x" * (VALUE_BYTES + 1)),
        lambda: vault.names("' or true --"),
    ):
        with pytest.raises(NotASecret):
            refused()


@pytest.mark.parametrize(
    "change",
    [
        "update secret set sealed = (select sealed from secret where scope = 'admin') where scope = 'global'",
        "update secret set sealed = overlay(sealed placing "
        "(case substring(sealed, 30, 1) when 'A' then 'B' else 'A' end)::bytea from 30) where scope = 'global'",
        "update secret set sealed = '' where scope = 'global'",
        "update secret set sealed = decode(repeat('41', 5000000), 'hex') where scope = 'global'",
    ],
    ids=["moved from another scope", "another byte", "empty", "huge"],
)
def test_a_changed_row_is_no_secret(vault: ClusterVault, tables_url: str, change: str) -> None:
    vault.set("admin", "key", SECRET)
    vault.set("global", "key", "harmless")
    execute(tables_url, change)
    with pytest.raises(VaultError) as refused:
        vault.get("global", "key")
    assert str(refused.value) == (
        "the secret key of the scope global was not encrypted with a key of vault.key_file, or was changed; add its key "
        "to that file, or store the secret again"
    )


def test_a_forged_row_has_no_name_in_the_list(vault: ClusterVault, tables_url: str) -> None:
    vault.set("global", "key", SECRET)
    execute(
        tables_url,
        "insert into secret (scope, name, sealed, key_id) values ('global', %s, '', '')",
        "a\x1b[2J/../b",
    )
    assert vault.names("global") == ["key"]


def test_a_new_key_replaces_the_old_one(vault: ClusterVault, keys: Path, tables_url: str) -> None:
    old, new = keys.read_bytes().strip(), Fernet.generate_key()
    for name in ("a", "b", "c"):
        vault.set("global", name, f"{SECRET} {name}")
    write_keys(keys, new, old)
    assert vault.get("global", "a") == f"{SECRET} a"
    vault.set("global", "c", "replaced")
    execute(
        tables_url, "insert into secret (scope, name, sealed, key_id) values ('global', 'forged', 'x', 'y')"
    )
    with pytest.raises(VaultError, match="the secret forged of the scope global was not encrypted"):
        vault.rotate()
    vault.delete("global", "forged")
    assert vault.rotate() == 0
    write_keys(keys, new)
    assert [vault.get("global", name) for name in ("a", "b", "c")] == [
        f"{SECRET} a",
        f"{SECRET} b",
        "replaced",
    ]
    write_keys(keys, old)
    with pytest.raises(VaultError, match="was not encrypted with a key"):
        vault.get("global", "a")


@pytest.mark.parametrize("content", [b"", b"\n\n", b"not a key\n", b"\xff\xfe", b"x" * 100_000])
def test_a_file_without_keys_is_refused(vault: ClusterVault, keys: Path, content: bytes) -> None:
    keys.write_bytes(content)
    with pytest.raises(VaultError, match=r"^vault\.key_file: "):
        vault.set("global", "key", SECRET)


def test_the_error_for_a_missing_file_has_a_command_that_makes_a_key(vault: ClusterVault, keys: Path) -> None:
    keys.unlink()
    with pytest.raises(VaultError) as refused:
        vault.set("global", "key", SECRET)
    text, _, command = str(refused.value).partition("; ")
    assert text == f"vault.key_file: {keys} does not exist"
    _, _, command = command.partition("make the first key with: ")
    keys.write_bytes(subprocess.run(["sh", "-c", command], stdout=subprocess.PIPE, check=True).stdout)
    keys.chmod(0o600)
    vault.set("global", "key", SECRET)
    assert vault.get("global", "key") == SECRET


def test_keys_that_everybody_can_read_are_refused(vault: ClusterVault, keys: Path) -> None:
    keys.chmod(0o604)
    with pytest.raises(VaultError) as refused:
        vault.set("global", "key", SECRET)
    assert str(refused.value) == f"vault.key_file: every user can read {keys}; run: chmod 600 {keys}"


def test_without_the_database_there_is_no_secret(keys: Path) -> None:
    port = find_free_port()
    absent = ClusterVault(partial(BlockingDatabase, f"postgresql://somebody@127.0.0.1:{port}/x"), keys)
    with pytest.raises(VaultError) as refused:
        absent.set("global", "key", SECRET)
    assert str(refused.value).startswith(
        "the vault cannot be used: The database of cluster.url cannot be used: "
    )
    assert SECRET not in str(refused.value)


def test_the_commands_use_it(tables_url: str, keys: Path, postgres: Postgres) -> None:
    given = {"PADDOCK_VAULT_BACKEND": "cluster", "PADDOCK_VAULT_KEY_FILE": str(keys)}
    assert run_paddock("vault", "set", "token", url=tables_url, given=SECRET, **given).stderr == ""
    assert json.loads(run_paddock("vault", "list", "--json", url=tables_url, **given).stdout) == {
        "scope": "global",
        "names": ["token"],
    }
    write_keys(keys, Fernet.generate_key(), keys.read_bytes().strip())
    assert run_paddock("vault", "rotate", url=tables_url, **given).stdout == "1 secret encrypted anew\n"
    assert run_paddock("vault", "rotate", "--json", url=tables_url, **given).stdout == '{"rotated": 0}\n'
    local = run_paddock("vault", "rotate", url=tables_url)
    assert (local.returncode, local.stderr) == (
        1,
        'the vault is not in a database; set `backend = "cluster"` under [vault]\n',
    )
    unset = run_paddock("vault", "list", url=tables_url, PADDOCK_VAULT_BACKEND="cluster")
    assert (unset.returncode, unset.stderr) == (
        1,
        '`backend = "cluster"` under [vault] requires the setting vault.key_file\n',
    )
