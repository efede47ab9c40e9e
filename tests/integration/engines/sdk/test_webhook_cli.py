"""`paddock webhook`: what scripts may do with webhooks, a person may too."""

import json
import os

import pytest
from tests.support.command import run_paddock

SECRET = "a-secret-of-some-length"


@pytest.fixture
def paddock(tmp_path):
    (tmp_path / "ws").mkdir()

    def call(*arguments, stdin="", networks="127.0.0.0/8,::1/128"):
        flags = ["--set", "vault.backend=file", "--set", f"sdk.webhook_networks={networks}"]
        places = {
            "XDG_STATE_HOME": str(tmp_path / "state"),
            "PADDOCK_AUDIT_DIRECTORY": str(tmp_path / "audit"),
        }
        environment = {**os.environ, **places}
        return run_paddock(tmp_path / "ws", *arguments, *flags, stdin=stdin, environment=environment)

    return call


def test_register_list_test_and_delete(paddock, receiver, tmp_path):
    code, printed, errors = paddock("webhook", "register", "notification", receiver.url, stdin=f"{SECRET}\n")
    assert (code, errors) == (0, "")
    name = printed.strip()
    assert paddock("webhook", "list") == (0, f"{name}\tnotification\t{receiver.url}\n", "")
    assert paddock("webhook", "test", name) == (0, "answered 204\n", "")
    assert json.loads(receiver.seen[0][2])["type"] == "webhook.test"
    code, printed, _ = paddock("webhook", "test", name, "--json")
    assert (code, json.loads(printed)) == (0, {"id": name, "status": 204, "tries": 1})
    assert paddock("webhook", "delete", name) == (0, "", "")
    assert paddock("webhook", "delete", name) == (
        1,
        "",
        f"there is no webhook {name}; paddock webhook list shows them\n",
    )
    assert paddock("webhook", "list", "--json") == (0, "[]\n", "")
    kept = b"".join(file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())
    assert b"webhook.register" in kept
    assert SECRET.encode() not in kept


def test_a_secret_of_the_vault_is_named(paddock, receiver):
    made = paddock("webhook", "register", "notification", receiver.url, "--vault", "hook", "--json")
    told = "there is no secret hook; store it with: paddock vault set hook"
    assert made == (1, f'{{"error": {{"message": "{told}"}}}}\n', f"{told}\n")
    paddock("vault", "set", "hook", stdin=SECRET)
    code, printed, _ = paddock(
        "webhook", "register", "notification", receiver.url, "--vault", "hook", "--json"
    )
    assert (code, list(json.loads(printed))) == (0, ["id"])


def test_what_cannot_be_is_said_why(paddock, receiver):
    assert paddock("webhook", "register", "notification", "http://a.example", stdin=SECRET) == (
        1,
        "",
        "the url must be https://host/path without a user, of at most 2000 characters\n",
    )
    code, _, errors = paddock("webhook", "register", "never", receiver.url, stdin=SECRET)
    assert (code, "'never' is not one of 'script.finished'" in errors) == (2, True)
    code, _, errors = paddock("webhook", "list", networks="10.0.0.0/99")
    why = "'10.0.0.0/99' does not appear to be an IPv4 or IPv6 network"
    assert (code, errors) == (2, f"--set sdk.webhook_networks: sdk.webhook_networks: {why}\n")
