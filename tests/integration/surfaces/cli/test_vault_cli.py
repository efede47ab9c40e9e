"""`paddock vault`: a secret goes in by standard input and never comes out."""

import json
import os

import pytest
from tests.support.command import run_paddock


@pytest.fixture
def paddock(tmp_path):
    def call(*arguments, stdin=b""):
        flags = ["--set", f"vault.directory={tmp_path / 'vault'}", "--set", "vault.backend=file"]
        environment = {**os.environ, "XDG_STATE_HOME": str(tmp_path / "state")}
        return run_paddock(tmp_path, *arguments, *flags, stdin=stdin, environment=environment)

    return call


def test_set_list_read_in_a_script_and_delete(paddock, tmp_path):
    assert paddock("vault", "set", "token", stdin=b"tr0ub4dor\n") == (0, "", "")
    assert paddock("vault", "list") == (0, "token\n", "")
    script = tmp_path / "read.js"
    script.write_text("const token = paddock.vault.get('token'); console.log(token); return token.length")
    assert paddock("run", str(script)) == (0, "[REDACTED:vault]\n9\n", "")
    assert paddock("vault", "delete", "token") == (0, "", "")
    assert paddock("vault", "delete", "token") == (
        1,
        "",
        "there is no secret token in the scope global; paddock vault list shows the names\n",
    )


def test_json(paddock):
    code, out, _ = paddock("vault", "set", "a", "--scope", "s", "--json", stdin=b"1234")
    assert (code, json.loads(out)) == (0, {"scope": "s", "name": "a"})
    assert json.loads(paddock("vault", "list", "--scope", "s", "--json")[1]) == {"scope": "s", "names": ["a"]}
    assert json.loads(paddock("vault", "delete", "a", "--scope", "s", "--json")[1]) == {
        "scope": "s",
        "name": "a",
        "deleted": True,
    }


@pytest.mark.parametrize(
    ("name", "stdin", "message"),
    [
        ("a", b"", "a secret has 1 to 65536 bytes, not 0"),
        ("a", b"x" * 65537, "a secret has 1 to 65536 bytes, not 65537"),
        (
            "a",
            b"\xff\xfe",
            "the value on standard input is not UTF-8 text; encode it, for example with base64",
        ),
        (
            "a/b",
            b"x",
            "'a/b' cannot name a secret or a scope; use 1 to 128 letters, digits, `_`, `.` and `-`",
        ),
    ],
)
def test_what_cannot_be_a_secret_is_refused(paddock, name, stdin, message):
    assert paddock("vault", "set", name, stdin=stdin) == (1, "", f"{message}\n")


def test_a_key_that_others_could_read_is_closed_told_and_recorded(paddock, tmp_path):
    paddock("vault", "set", "token", stdin=b"tr0ub4dor\n")
    key = tmp_path / "vault" / "key"
    key.chmod(0o644)
    told = f"{key}: it can be read by others (mode 0644); its mode is 0600 now\n"
    assert paddock("vault", "list") == (0, "token\n", told)
    assert key.stat().st_mode & 0o777 == 0o600
    assert paddock("vault", "list") == (0, "token\n", "")
    [record] = json.loads(paddock("audit", "tail", "--event", "repaired", "--json")[1])
    assert record["fields"] == {"path": str(key), "mode_before": "0644", "mode_after": "0600"}
