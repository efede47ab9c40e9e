"""`/v1/approvals`: who sees a question, and who may answer it."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from tests.support.http_api import ApiClient, ApiPlace

ASK = '[[policy.rule]]\neffect = "ask"\ntool = "odd/echo"\nreason = "echoes carry far"\n'
CALL = {"server": "odd", "tool": "echo", "arguments": {"text": "hello"}}


class Users:
    """Two callers, and one who may approve."""

    def __init__(self, alice: ApiClient, bob: ApiClient, boss: ApiClient) -> None:
        self.alice = alice
        self.bob = bob
        self.boss = boss


@pytest.fixture
def users(place: ApiPlace) -> Iterator[Users]:
    place.settings(ASK)
    alice, bob = place.make_token("alice"), place.make_token("bob")
    boss = place.make_token("boss", "--approve")
    with (
        place.serve() as server,
        server.client(alice) as a,
        server.client(bob) as b,
        server.client(boss) as c,
    ):
        yield Users(a, b, c)


@contextmanager
def asking(client: ApiClient, **body: Any) -> Iterator[tuple[str, Any, Iterator[tuple[str, Any]]]]:
    """Run something that asks; yield the execution, the question and the further events."""
    with client.events(**body) as events:
        (_, started), (name, question) = next(events), next(events)
        assert name == "question"
        yield started["id"], question, events


def test_another_caller_with_the_right_says_yes(users: Users) -> None:
    with asking(users.alice, **CALL) as (id_, question, events):
        assert (question["what"], question["actor"]) == ("call odd/echo", "token:alice")
        assert users.alice.look_up(id_)["question"] == question
        [seen] = users.boss.get("/v1/approvals").json()["approvals"]
        assert (seen["question"], seen["may_answer"]) == (question, True)
        assert 0 < seen["expires_ms"] <= question["wait_ms"]
        given = users.boss.post(f"/v1/approvals/{question['id']}", json={"verdict": "once"})
        assert (given.status_code, given.json()) == (
            200,
            {"id": question["id"], "verdict": "once", "by": "token:boss"},
        )
        *_, (_, outcome) = events
    assert (outcome["status"], outcome["value"]) == ("ok", "hello")
    assert users.boss.get("/v1/approvals").json() == {"approvals": []}


def test_a_no_denies(users: Users) -> None:
    with asking(users.alice, **CALL) as (_, question, events):
        users.boss.post(f"/v1/approvals/{question['id']}", json={"verdict": "denied"})
        *_, (_, outcome) = events
    assert (outcome["status"], outcome["error"]["name"]) == ("denied", "ApprovalDenied")
    assert "denied by token:boss" in outcome["error"]["message"]


def test_nobody_answers_their_own_question(users: Users) -> None:
    with asking(users.boss, **CALL) as (id_, question, _):
        [own] = users.boss.get("/v1/approvals").json()["approvals"]
        assert (own["question"]["id"], own["may_answer"]) == (question["id"], False)
        status, kind, detail = users.boss.problem(
            "POST", f"/v1/approvals/{question['id']}", json={"verdict": "once"}
        )
        assert (status, kind) == (403, "not-permitted")
        assert detail.startswith("users cannot answer their own questions; ")
        users.boss.delete(f"/v1/executions/{id_}")


def test_a_caller_without_the_right_neither_sees_nor_answers_the_questions_of_others(users: Users) -> None:
    with asking(users.alice, **CALL) as (id_, question, _):
        [own] = users.alice.get("/v1/approvals").json()["approvals"]
        assert own["may_answer"] is False
        assert users.bob.get("/v1/approvals").json() == {"approvals": []}
        refused = [
            each.problem("POST", f"/v1/approvals/{question['id']}", json={"verdict": "once"})[:2]
            for each in (users.alice, users.bob)
        ]
        assert refused == [(403, "not-permitted")] * 2
        users.alice.delete(f"/v1/executions/{id_}")


def test_faults_of_answers(users: Users) -> None:
    unknown = "/v1/approvals/01JD3W0ZV6N4YQ1R2X5T7B8C9D"
    assert users.boss.problem("POST", unknown, json={"verdict": "once"})[:2] == (404, "not-found")
    assert users.boss.problem("POST", "/v1/approvals/x", json={"verdict": "once"})[:2] == (404, "not-found")
    assert users.boss.problem("POST", unknown, json={"verdict": "yes"}) == (
        422,
        "invalid-request",
        "verdict: Input should be 'once', 'run' or 'denied'",
    )
    with asking(users.alice, **CALL) as (id_, question, _):
        path = f"/v1/approvals/{question['id']}"
        assert question["scopes"] == ["once"] or "run" in question["scopes"]
        if "run" not in question["scopes"]:
            assert users.boss.problem("POST", path, json={"verdict": "run"})[:2] == (422, "invalid-request")
        users.alice.delete(f"/v1/executions/{id_}")
        assert users.boss.problem("POST", path, json={"verdict": "once"})[:2] == (404, "not-found")


def test_a_person_at_a_terminal_can_deny(users: Users, place: ApiPlace) -> None:
    with asking(users.alice, **CALL) as (_, question, events):
        denied = place.paddock("approve", question["id"], "--deny", "--json")
        assert denied["verdict"] == "denied"
        *_, (_, outcome) = events
    assert outcome["status"] == "denied"


def test_a_question_ends_with_its_execution(users: Users) -> None:
    with asking(users.alice, **CALL) as (id_, _, events):
        state = users.alice.delete(f"/v1/executions/{id_}").json()
        assert (state["state"], state["question"]) == ("finished", None)
        *_, (_, outcome) = events
    assert json.dumps(outcome) == json.dumps(state["outcome"])
    assert outcome["status"] in {"denied", "cancelled"}
