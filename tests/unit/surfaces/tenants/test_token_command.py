"""`paddock serve token`: what it prints, keeps and refuses."""

import json
import tomllib
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from paddock.surfaces.cli.root import command
from paddock.surfaces.tenants.tokens import hash_token


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("PADDOCK_SERVE_DIRECTORY", str(tmp_path / "serve"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "serve"


def tokens(*args: str) -> Result:
    return CliRunner().invoke(command, ["serve", "token", *args], prog_name="paddock")


def read_stored_tokens(directory: Path) -> list[dict[str, Any]]:
    return json.loads((directory / "tokens.json").read_bytes())["tokens"]


def test_the_token_is_the_last_word_and_only_its_hash_is_kept(directory: Path) -> None:
    made = tokens("new", "alice")
    assert made.exit_code == 0
    token = made.stdout.split()[-1]
    assert made.stdout == f"token of token:alice, shown only now: {token}\n"
    assert [(each["name"], each["sha256"]) for each in read_stored_tokens(directory)] == [
        ("alice", hash_token(token))
    ]
    assert token not in (directory / "tokens.json").read_text()
    for listed in (tokens("list"), tokens("list", "--json")):
        assert token not in listed.output
        assert hash_token(token) not in listed.output


def test_every_option_is_kept(directory: Path) -> None:
    options = [
        "--actor",
        "alice",
        "--policy",
        "runtimes.network=none",
        "--max-jobs",
        "2",
        "--max-sessions",
        "3",
    ]
    made = tokens("new", "ci", *options, "--rate", "60/min", "--approve", "--expires", "30d", "--json")
    assert made.exit_code == 0
    printed, (kept,) = json.loads(made.stdout), read_stored_tokens(directory)
    assert kept == {
        "name": "ci",
        "sha256": hash_token(printed["token"]),
        "actor": "alice",
        "policy": {"runtimes.network": "none"},
        "max_jobs": 2,
        "max_sessions": 3,
        "rate": 60,
        "approve": True,
        "expires": printed["expires"],
        "created": printed["created"],
    }
    age = datetime.fromisoformat(printed["expires"]) - datetime.fromisoformat(printed["created"])
    assert age.days == 30
    assert tokens("list").stdout == (
        f"ci\ttoken:alice\tvalid\tjobs 2, sessions 3, requests/min 60, may approve, policy\t{printed['expires']}\tstored\n"
    )


def test_a_revoked_token_is_gone(directory: Path) -> None:
    tokens("new", "alice")
    assert tokens("revoke", "alice").exit_code == 0
    assert read_stored_tokens(directory) == []
    again = tokens("revoke", "alice", "--json")
    assert (again.exit_code, json.loads(again.stdout)) == (1, {"name": "alice", "revoked": False})
    assert again.stderr == "there is no token 'alice'; paddock serve token list shows those that there are\n"


@pytest.mark.parametrize(
    ("args", "exit_code", "why"),
    [
        (
            ["a b"],
            2,
            "the name of a token is 1 to 64 of A-Z a-z 0-9 . _ @ -, and begins with a letter or a digit\n",
        ),
        (
            ["ok", "--actor", "../root"],
            2,
            "the actor of a token is 1 to 64 of A-Z a-z 0-9 . _ @ -, and begins with a letter or a digit\n",
        ),
        (["ok", "--rate", "0/min"], 2, "'0/min' is not N/min, with N from 1 to 100000\n"),
        (["ok", "--rate", "5/s"], 2, "'5/s' is not N/min, with N from 1 to 100000\n"),
        (["ok", "--expires", "5"], 2, "'5' is not a time such as 12h or 30d, of up to 36500 days\n"),
        (
            ["ok", "--expires", "99999d"],
            2,
            "'99999d' is not a time such as 12h or 30d, of up to 36500 days\n",
        ),
        (
            ["ok", "--policy", "runtimes.network=full"],
            1,
            'token ok: runtimes.network = "full" allows more than "loopback", which is what the server allows and a token '
            "may only narrow; change the policy instead\n",
        ),
        (["ok", "--policy", "serve.max_jobs=1"], 1, "token ok: a token may not set serve.max_jobs\n"),
    ],
)
def test_what_cannot_be_a_token_is_refused(
    directory: Path, args: list[str], exit_code: int, why: str
) -> None:
    refused = tokens("new", *args)
    assert refused.exit_code == exit_code
    assert refused.stderr.endswith(why)
    assert not (directory / "tokens.json").exists()


def test_tokens_of_the_settings_are_listed_and_revoked_there(directory: Path, tmp_path: Path) -> None:
    file = tmp_path / "paddock" / "paddock.toml"
    file.parent.mkdir()
    file.write_text(
        "[[serve.token]]\n"
        'name = "alice"\n'
        f'sha256 = "{"a" * 64}"\n'
        "rate = 60\n"
        "expires = 2020-01-31T00:00:00Z\n"
        "[[serve.token]]\n"
        'name = "bob"\n'
        f'sha256 = "{"b" * 64}"\n'
        'policy = { runtimes = { network = "full" } }\n'
    )
    assert len(tomllib.loads(file.read_text())["serve"]["token"]) == 2
    listed = {each["name"]: each for each in json.loads(tokens("list", "--json").stdout)}
    assert [(name, each["state"], each["from"]) for name, each in listed.items()] == [
        ("alice", "expired", "settings"),
        ("bob", "refused", "settings"),
    ]
    assert listed["bob"]["reason"].startswith('token bob: runtimes.network = "full" allows more than')
    revoked = tokens("revoke", "alice")
    assert (revoked.exit_code, revoked.stderr) == (
        1,
        "the token alice is in the settings; remove its [[serve.token]] from the file that `paddock config show` names, "
        "and restart the server\n",
    )
    assert tokens("new", "bob").stderr == "the settings have a token bob already; choose another name\n"


def test_a_damaged_file_is_an_error_of_every_command(directory: Path) -> None:
    tokens("new", "alice")
    (directory / "tokens.json").write_text("{")
    for args in (["list"], ["new", "bob"], ["revoke", "alice"]):
        refused = tokens(*args)
        assert refused.exit_code == 1
        assert f"{directory / 'tokens.json'}: cannot be read: " in refused.stderr
        assert refused.stderr.endswith("or remove it and make new tokens with `paddock serve token new`\n")
