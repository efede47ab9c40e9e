"""A replica that dies or freezes: what it had in memory is lost, and every client hears so."""

import signal
from pathlib import Path

import pytest
from tests.integration.cluster.test_forwarding import initialize, message
from tests.support.http_api import Background, read_problem
from tests.support.replicas import ReplicaSet

WAIT = "print('begun', flush=True)\nwhile True: pass"
LOST = "The replica that handled this has ended. Whether and how far it was done is not known."


@pytest.fixture
def replicas(url: str, tmp_path: Path) -> ReplicaSet:
    return ReplicaSet(tmp_path, url)


def test_what_a_dead_replica_had_is_lost(replicas: ReplicaSet) -> None:
    with replicas.run(), replicas.servers[0].client() as dying, replicas.servers[1].client() as api:
        session = initialize(dying)
        opened = dying.post("/v1/sessions", json={"language": "python"}).json()["id"]
        path = f"/v1/sessions/{opened}"
        effectful = dying.begin(language="python", code=WAIT, workspace="write")
        pure = dying.begin(language="javascript", code="while (true) {}")
        with api.events(f"{path}/executions", code=WAIT) as events:
            assert [next(events)[0], next(events)[0]] == ["started", "output"]
            assert api.look_up(effectful)["state"] == "running"
            replicas.servers[0].process.kill()
            *_, (name, problem) = events
        assert (name, problem["type"]) == ("problem", "urn:paddock:problem:execution-lost")
        assert problem["detail"] == LOST
        gone = api.post("/mcp", json=message("tools/list", {}), headers=session)
        assert (gone.status_code, gone.json()["error"]["message"]) == (404, "Session not found")
        # Until its lease is over, a replica may only be cut off.
        assert api.problem("GET", path)[:2] == (503, "unavailable")
        while (answer := api.get(path)).status_code == 503:
            pass
        assert read_problem(answer) == (
            410,
            "session-lost",
            "The session is lost: the replica of the server that had it has ended. "
            "Open another one with POST /v1/sessions.",
        )
        outcome = api.run(session=opened, code="1")
        assert (outcome["status"], outcome["session"]["state"]) == ("lost", "lost")
        gone = api.post("/mcp", json=message("tools/list", {}), headers=session)
        assert (gone.status_code, gone.json()["error"]["message"]) == (404, "Session not found")
        while (answer := api.get(f"/v1/executions/{effectful}")).status_code == 503:
            pass
        assert read_problem(answer) == (
            410,
            "execution-lost",
            f"The replica that ran the execution {effectful} has ended. Whether and how far it was done is not known.",
        )
        status, kind, text = api.problem("DELETE", f"/v1/executions/{pure}")
        assert (status, kind) == (404, "not-found")
        assert ", or with the replica that ran it. " in text


def test_nobody_waits_for_a_frozen_replica(replicas: ReplicaSet) -> None:
    with replicas.run(), replicas.servers[0].client() as freezing, replicas.servers[1].client() as api:
        opened = freezing.post("/v1/sessions", json={"language": "python"}).json()["id"]
        path = f"/v1/sessions/{opened}/executions"
        waiting = Background(lambda: api.post(path, json={"code": WAIT}))
        while not api.get(f"/v1/sessions/{opened}").json()["running"]:
            pass
        replicas.servers[0].process.send_signal(signal.SIGSTOP)
        assert read_problem(waiting.result()) == (410, "execution-lost", LOST)
        assert api.problem("GET", f"/v1/sessions/{opened}")[:2] == (410, "session-lost")
