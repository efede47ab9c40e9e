"""What is sent when a question begins to wait for a person: to webhooks, and to notification channels."""

import asyncio
import json

import pytest
from tests.integration.engines.sdk.test_webhooks import NETWORKS, granted, register
from tests.support.processes import PATIENCE_S

from paddock.model.approval import Answer
from paddock.model.request import ExecutionRequest, GuestRun
from paddock.policy.settings.commands import SdkCommand
from paddock.policy.settings.rules import ApprovalSettings, Rule

KEY = "sk-" + "a" * 24
ASK = Rule(effect="ask", method="cir.capture", reason="notes stay")


def ask(desk, source, holds):
    """Run a program whose question is answered as soon as something holds; return its outcome and the question."""
    asked = []

    async def answer(question):
        asked.append(question)
        async with asyncio.timeout(PATIENCE_S):
            while not holds():  # noqa: ASYNC110 - a thread or the record knows it
                await asyncio.sleep(0.01)
        return Answer(verdict="once", by="bob")

    request = ExecutionRequest(
        actor="ada", workspace=desk.workspace, work=GuestRun(source=source, profile="script")
    )
    outcome = desk.execute(request, asker=answer)
    [question] = asked
    return outcome, question


def test_a_webhook_gets_the_question_without_the_secrets_of_its_arguments(desk, receiver):
    desk.open(sdk={"webhook_networks": NETWORKS}, rules=[ASK])
    register(desk, receiver.url, event="approval.waiting")
    source = f"return paddock.cir.capture('a key {KEY}', {{type: 'fact'}}).id"
    outcome, question = ask(desk, source, lambda: receiver.seen)
    assert outcome.ok
    [(_, _, body)] = receiver.seen
    told = json.loads(body)
    assert (told["type"], told["data"]) == (
        "approval.waiting",
        {
            "id": question.id,
            "run": outcome.id,
            "actor": "ada",
            "surface": "guest",
            "what": "call paddock.cir.capture",
            "details": '{"arguments": ["a key [REDACTED:api-key]", {"type": "fact"}]}',
            "reasons": ["notes stay"],
            "rule": "policy rule 1",
            "scopes": ["once", "run"],
            "wait_ms": 300_000,
        },
    )
    [sent] = [record for record in desk.records() if record.fields.get("name") == "webhook.deliver"][-1:]
    assert (sent.fields["surface"], sent.fields["status"], sent.parent) == ("webhook", "ok", question.request)


def test_a_question_about_a_delivery_is_not_reported(desk, receiver):
    """Else a rule that asks about every method would ask about its own reports without end."""
    rule = Rule(effect="ask", method="*", reason="all methods")
    granted(desk)
    register(desk, receiver.url, event="approval.waiting")
    desk.close()
    desk.open(sdk={"webhook_networks": NETWORKS}, rules=[rule])
    approvals = desk.session.gate.approvals
    report, reported, asked = approvals.on_waiting, [], []
    waits = asyncio.Event()

    def note(question, workspace):
        reported.append(question.what)
        report(question, workspace)
        waits.set()

    async def answer(question):
        asked.append(question.what)
        await asyncio.wait_for(waits.wait(), PATIENCE_S)
        waits.clear()
        return Answer(verdict="denied", by="bob")

    approvals.on_waiting = note
    work = GuestRun(source="paddock.cir.stats()", profile="script")
    outcome = desk.execute(ExecutionRequest(workspace=desk.workspace, work=work), asker=answer)
    assert outcome.error.name == "ApprovalDenied"
    desk.close()
    assert asked == reported == ["call paddock.cir.stats", "call paddock.webhook.deliver"]
    assert receiver.seen == []


def test_the_first_channel_that_there_is_gets_a_message(desk, monkeypatch):
    monkeypatch.delenv("DBUS_SESSION_BUS_ADDRESS", raising=False)
    message = "Waits for your approval: call paddock.cir.capture / Asked by ada: notes stay"
    push = SdkCommand(name="phone.push", command=("test", "{title} / {body}", "=", message))
    desk.open(
        sdk={"commands": (push,)}, rules=[ASK], approvals=ApprovalSettings(notify=("desktop", "phone.push"))
    )

    def sent():
        return [
            record.fields
            for record in desk.records()
            if record.fields.get("name") == "notify.approval" and "status" in record.fields
        ]

    outcome, _ = ask(desk, "return paddock.cir.capture('a', {type: 'fact'}).id", sent)
    assert outcome.ok
    [end] = sent()
    assert end["status"] == "ok"


@pytest.mark.parametrize("profile", ["script", "execute"])
def test_programs_send_no_such_messages(desk, profile):
    desk.open(sdk={profile: ("*",)})
    assert desk.run("return typeof paddock.notify.approval", profile=profile).value == "undefined"
