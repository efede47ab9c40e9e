"""Webhooks and notifications, over TLS to a real server on this machine."""

import base64
import hashlib
import hmac
import json

import pytest

from paddock.engines.sdk import events, webhooks
from paddock.policy.settings.commands import SdkCommand
from paddock.policy.settings.flow import FlowLabel, FlowRule, FlowSettings
from paddock.policy.settings.rules import Rule

SECRET = "a-secret-of-some-length"
KEY = SECRET.encode()
NETWORKS = ("127.0.0.0/8", "::1/128")


def granted(desk, **sdk):
    return desk.open(sdk={"webhook_networks": NETWORKS, **sdk})


def register(desk, url, event="signal.captured", secret=f"'{SECRET}'"):
    return desk.run(f"return paddock.webhook.register('{event}', '{url}', {secret}).id").value


def probed(desk, name):
    source = f"try {{ return paddock.webhook.test('{name}') }} catch (e) {{ return [e.name, e.status, e.message] }}"
    return desk.run(source).value


def is_signed(headers, body, secret=KEY):
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    return (
        headers["webhook-signature"]
        == "v1," + base64.b64encode(hmac.digest(secret, signed, hashlib.sha256)).decode()
    )


def test_a_webhook_is_registered_tested_listed_and_deleted(desk, receiver):
    granted(desk)
    name = register(desk, receiver.url)
    assert probed(desk, name) == {"id": name, "status": 204, "tries": 1}
    [(path, headers, body)] = receiver.seen
    told = json.loads(body)
    assert (path, told["type"], told["data"], headers["host"]) == (
        "/hook",
        "webhook.test",
        {},
        f"localhost:{receiver.port}",
    )
    assert is_signed(headers, body)
    listed = [{"id": name, "event": "signal.captured", "url": receiver.url}]
    source = f"return [paddock.webhook.list(), paddock.webhook.delete('{name}'), paddock.webhook.list(), paddock.webhook.delete('{name}')]"
    assert desk.run(source).value == [listed, True, [], False]
    assert desk.vault.names(webhooks.SCOPE) == []


def test_the_secret_is_in_the_vault_alone(desk, receiver):
    granted(desk)
    name = register(desk, receiver.url)
    assert desk.vault.get(webhooks.SCOPE, name) == SECRET
    plain = b"".join(file.read_bytes() for file in desk.place.rglob("*") if file.is_file())
    assert SECRET.encode() not in plain
    assert SECRET not in desk.run(f"return ['{SECRET}', paddock.webhook.list()]").model_dump_json()


def test_a_secret_of_the_vault_is_referred_to(desk, receiver):
    granted(desk).vault.set("team", "hook", "whsec_" + base64.b64encode(b"k" * 24).decode())
    name = register(desk, receiver.url, secret="{vault: 'hook', scope: 'team'}")
    assert probed(desk, name)["status"] == 204
    assert is_signed(*receiver.seen[0][1:], secret=b"k" * 24)
    desk.run(f"paddock.webhook.delete('{name}')")
    assert desk.vault.names("team") == ["hook"]


def test_a_secret_that_a_delivery_used_does_not_show_up(desk, receiver):
    desk.vault.set("global", "hook", SECRET)
    name = register(granted(desk), receiver.url, secret="{vault: 'hook'}")
    desk.close()
    source = f"paddock.webhook.test('{name}'); return '{SECRET}'"
    assert granted(desk).run(source).value == "[REDACTED:vault]"


def test_what_was_not_sent_is_told_when_the_session_ends(desk, receiver, monkeypatch):
    monkeypatch.setattr(events, "MAX_WAITING", 0)
    granted(desk)
    register(desk, receiver.url)
    desk.run("for (let n = 0; n < 3; n++) paddock.cir.capture('news', {type: 'fact'})")
    desk.close()
    assert desk.session.warnings == (
        "3 messages to webhooks were not sent; paddock audit tail shows those that were",
    )
    assert receiver.seen == []


def test_signals_and_ended_scripts_are_told_each_on_the_record(desk, receiver):
    granted(desk)
    signal, script = register(desk, receiver.url), register(desk, receiver.url, event="script.finished")
    outcome = desk.run("paddock.cir.capture('a key sk-' + 'a'.repeat(24), {type: 'fact'})")
    desk.close()
    told = sorted((json.loads(body) for _, _, body in receiver.seen), key=lambda each: each["type"])
    assert [each["type"] for each in told] == ["script.finished"] * (len(told) - 1) + ["signal.captured"]
    assert told[-2]["data"]["status"] == "ok"
    data = told[-1]["data"]
    assert (data["type"], data["body"]) == ("fact", "a key [REDACTED:api-key]")
    mine = [record for record in desk.records() if record.fields.get("name") == "webhook.deliver"]
    assert outcome.id in {record.parent for record in mine}
    assert {signal, script} & {record.request for record in mine} == set()


def test_policy_may_refuse_deliveries(desk, receiver):
    rule = Rule(effect="deny", method="webhook.deliver", reason="nothing leaves")
    desk.open(sdk={"webhook_networks": NETWORKS}, rules=[rule])
    register(desk, receiver.url)
    desk.run("paddock.cir.capture('a')")
    desk.close()
    assert receiver.seen == []
    assert [
        record.fields["status"] for record in desk.records() if record.fields.get("name") == "webhook.deliver"
    ] == ["denied"]


def test_addresses_that_are_not_public_are_refused(desk, receiver):
    desk.open()
    name = register(desk, f"https://127.0.0.1:{receiver.port}/")
    assert probed(desk, name) == [
        "WebhookError",
        "failed",
        f"webhook {name}: 127.0.0.1 leads to 127.0.0.1, which is not a public address; "
        "name its network in `webhook_networks` under [sdk] to allow it",
    ]
    assert receiver.seen == []


def test_redirects_are_not_followed(desk, receiver):
    granted(desk)
    receiver.answers = [(307, {"location": receiver.url + "/else"}, b"")]
    name = register(desk, receiver.url)
    assert probed(desk, name) == ["WebhookError", "failed", f"webhook {name}: localhost answered 307"]
    assert len(receiver.seen) == 1


def test_what_may_pass_is_tried_again_and_what_may_not_is_not(desk, receiver):
    granted(desk)
    name = register(desk, receiver.url)
    receiver.answers = [(503, {}, b""), (429, {}, b"")]
    assert probed(desk, name) == {"id": name, "status": 204, "tries": 3}
    receiver.answers = [(503, {}, b"")] * 3
    assert probed(desk, name)[-1] == f"webhook {name}: localhost answered 503"
    receiver.answers = [(400, {}, b"")]
    assert probed(desk, name)[-1] == f"webhook {name}: localhost answered 400"
    assert len(receiver.seen) == 7


def test_a_large_answer_is_not_read_to_its_end(desk, receiver):
    granted(desk)
    receiver.answers = [(200, {"content-encoding": "gzip"}, b"x" * 8_000_000)]
    assert probed(desk, register(desk, receiver.url))["status"] == 200


@pytest.mark.parametrize(
    ("variables", "remedy"),
    [
        ({}, "SSL_CERT_FILE can name a file with its issuer's certificate"),
        (
            {"SSL_CERT_DIR": "/none"},
            "only issuers in SSL_CERT_DIR are trusted; add its issuer's certificate there, or unset SSL_CERT_DIR",
        ),
    ],
)
def test_a_certificate_that_nobody_vouches_for_is_refused(desk, receiver, monkeypatch, variables, remedy):
    granted(desk)
    name = register(desk, receiver.url)
    monkeypatch.delenv("SSL_CERT_FILE")
    monkeypatch.delenv("SSL_CERT_DIR", raising=False)
    for variable, value in variables.items():
        monkeypatch.setenv(variable, value)
    assert f"its certificate is not trusted: self-signed certificate; {remedy}" in probed(desk, name)[-1]
    assert receiver.seen == []


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (
            "'nothing', 'https://a.example', 's'.repeat(16)",
            "event must be one of script.finished, sequence.finished, signal.captured, notification",
        ),
        (
            "'notification', 'https://a.example', 's'.repeat(15)",
            "the secret must have at least 16 characters; make one with: openssl rand -hex 32",
        ),
        (
            "'notification', 'https://a.example', {vault: 'none'}",
            "there is no secret none; store it with: paddock vault set none",
        ),
        (
            "'notification', 'http://a.example', 's'.repeat(16)",
            "the url must be https://host/path without a user",
        ),
        (
            "'notification', 'https://u:p@a.example', 's'.repeat(16)",
            "the url must be https://host/path without a user",
        ),
        ("'notification', 'https://', 's'.repeat(16)", "the url must be https://host/path without a user"),
    ],
)
def test_what_is_no_webhook_is_refused(desk, call, told):
    outcome = desk.open().run(f"paddock.webhook.register({call})")
    assert told in outcome.error.message
    assert not (desk.place / "webhooks.json").exists()


def test_programs_cannot_send_messages_of_their_own(desk):
    desk.open()
    assert desk.run("return typeof paddock.webhook.deliver").value == "undefined"
    for method in ("webhook.register", "webhook.test", "notify.send"):
        outcome = desk.run(f"paddock.{method}('a', 'b', 'c')", profile="execute")
        assert outcome.error.message.startswith(
            f"paddock.{method} is not granted to programs of the profile execute"
        )


def test_a_notification_goes_to_the_first_channel_that_there_is(desk, receiver, monkeypatch):
    monkeypatch.delenv("DBUS_SESSION_BUS_ADDRESS", raising=False)
    push = SdkCommand(name="phone.push", command=("test", "{title}", "=", "{body}"))
    granted(desk, commands=(push,), notify=("desktop", "webhook", "phone.push"))
    assert desk.run("return paddock.notify.send('same', 'same')").value == {"channel": "phone.push"}
    register(desk, receiver.url, event="notification")
    assert desk.run("return mentu.notify.send('Done', 'all of it')").value == {"channel": "webhook"}
    assert json.loads(receiver.seen[0][2])["data"] == {"title": "Done", "body": "all of it"}


def test_without_a_channel_the_remedy_is_told(desk, monkeypatch):
    monkeypatch.delenv("DBUS_SESSION_BUS_ADDRESS", raising=False)
    desk.open()
    source = "try { paddock.notify.send('a', 'b') } catch (e) { return [e.status, e.retryable, e.message] }"
    assert desk.run(source).value == [
        "unavailable",
        True,
        "paddock.notify.send: there is no channel (tried: desktop, webhook); install notify-send and run in a desktop "
        "session, register a webhook for `notification`, or name a command in `notify` under [sdk]",
    ]
    assert (
        desk.run("paddock.notify.send('', 'b')").error.message
        == "paddock.notify.send: title must be a text of 1 to 200 characters"
    )


def test_an_event_of_a_run_that_has_read_private_data_is_not_sent(desk, receiver):
    """The webhook was registered before the reading, and the body of the signal would be in the message."""
    flow = FlowSettings(
        label=(FlowLabel(method="vault.list", source=("private",)),),
        rule=(FlowRule(source=("private",), sink="external", effect="deny"),),
    )
    desk.open(sdk={"webhook_networks": NETWORKS}, flow=flow)
    register(desk, receiver.url)
    assert desk.run("paddock.vault.list(); return paddock.cir.capture('private').id !== ''").value
    assert desk.run("return paddock.cir.capture('public').id !== ''").value
    desk.close()
    assert [json.loads(body)["data"]["body"] for _, _, body in receiver.seen] == ["public"]
