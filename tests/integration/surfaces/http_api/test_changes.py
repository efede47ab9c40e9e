"""`/v1/changes`: what a program changed is read, and accepted if a person says yes."""

import threading
from pathlib import Path

import pytest
from tests.support.http_api import ApiPlace

PROGRAM = "open('new.txt', 'w').write('hello\\n'); open('old.txt', 'a').write('more\\n')"


@pytest.fixture
def place(tmp_path: Path) -> ApiPlace:
    place = ApiPlace(tmp_path)
    (place.workspace / "old.txt").write_text("old\n")
    return place


def test_changes_are_read_and_accepted_where_a_rule_allows_it(place: ApiPlace) -> None:
    place.settings(
        '[runtimes]\naccess = "overlay"\n[[policy.rule]]\nchanges = "accept"\neffect = "allow"\n'
        '[[policy.rule]]\nchanges = "discard"\neffect = "allow"\n'
    )
    with place.serve() as server, server.client() as client:
        outcome = client.run(language="python", code=PROGRAM, access="overlay")
        set_id = outcome["changes"]["id"]
        assert not (place.workspace / "new.txt").exists()
        (listed,) = client.get("/v1/changes").json()["changes"]
        assert (listed["id"], listed["state"], listed["paths"]) == (set_id, "open", 2)
        details = client.get(f"/v1/changes/{set_id}").json()
        assert [(each["path"], each["kind"]) for each in details["changes"]] == [
            ("new.txt", "added"),
            ("old.txt", "modified"),
        ]
        assert client.get(f"/v1/changes/{set_id}/diff", params={"path": "old.txt"}).text == (
            "diff a/old.txt b/old.txt\n--- a/old.txt\n+++ b/old.txt\n@@ -1 +1,2 @@\n old\n+more\n"
        )
        done = client.run(f"/v1/changes/{set_id}/accept", paths=["new.txt"])
        assert (done["status"], done["value"]["paths"]) == ("ok", ["new.txt"])
        assert (place.workspace / "new.txt").read_text() == "hello\n"
        (place.workspace / "old.txt").write_text("mine\n")
        done = client.run(f"/v1/changes/{set_id}/accept")
        assert (done["status"], done["error"]["message"]) == (
            "failed",
            "Nothing was written, because of 1 conflict: old.txt: it was changed since the run",
        )
        # Another rule of the same file allows other things, so this one is denied.
        assert client.run(f"/v1/changes/{set_id}/undo")["status"] == "denied"
        assert client.post(f"/v1/changes/{set_id}/discard").json()["status"] == "ok"
        assert client.get("/v1/changes/changes-0").status_code == 404
        assert client.get(f"/v1/changes/{set_id}").json()["state"] == "discarded"


def test_a_person_is_asked_by_default_and_sees_the_difference(place: ApiPlace) -> None:
    place.settings('[runtimes]\naccess = "overlay"\n[approvals]\nwait_ms = 60000\n')
    token = place.make_token("agent")
    approver = place.make_token("person", "--approve")
    with place.serve() as server, server.client(token) as agent, server.client(approver) as person:
        set_id = agent.run(language="python", code=PROGRAM, access="overlay")["changes"]["id"]
        assert person.get(f"/v1/changes/{set_id}").status_code == 404  # each user has a store

        outcomes: list[object] = []
        sending = threading.Thread(
            target=lambda: outcomes.append(agent.post(f"/v1/changes/{set_id}/accept", json={}).json())
        )
        sending.start()
        while not (waiting := person.get("/v1/approvals").json()["approvals"]):
            pass
        question = waiting[0]["question"]
        assert question["what"] == "accept changes into the workspace"
        assert set_id in question["details"]
        assert "+hello" in question["details"]
        assert question["reasons"] == ["accepting changes into the workspace needs a person's approval"]
        assert person.post(f"/v1/approvals/{question['id']}", json={"verdict": "once"}).status_code == 200
        sending.join()
        (outcome,) = outcomes
        assert isinstance(outcome, dict)
        assert outcome["status"] == "ok", outcome
    assert (place.workspace / "new.txt").read_text() == "hello\n"
