"""Replicas that die or freeze: what they had in memory is lost, and every client hears so."""

import signal
from pathlib import Path

from tests.integration.cluster.test_forwarding import initialize, message
from tests.support.http_api import ApiClient, Background, read_problem
from tests.support.leases import end_lease, execute
from tests.support.replicas import ReplicaSet

WAIT = "import threading\nprint('begun', flush=True)\nthreading.Event().wait()"
SETTINGS = "[serve]\nmax_jobs = 8\n[runtimes]\nmax_jobs = 8\ntimeout_ms = 600000\n"
SESSION_LOST = (
    410,
    "session-lost",
    "The session is lost: the replica of the server that had it has ended. Open another one with POST /v1/sessions.",
)


def open_interpreter(api: ApiClient) -> str:
    """Return the handle of a new interpreter."""
    answer = api.post("/v1/sessions", json={"language": "python"})
    assert answer.status_code == 201, answer.text
    return answer.json()["id"]


def test_what_a_dead_or_frozen_replica_had_is_lost(url: str, tmp_path: Path) -> None:
    replicas = ReplicaSet(tmp_path, url, SETTINGS)
    with (
        replicas.run(),
        replicas.servers[0].client() as dying,
        replicas.servers[1].client() as api,
        replicas.servers[2].client() as freezing,
    ):
        held = open_interpreter(freezing)
        waiting = Background(lambda: api.post(f"/v1/sessions/{held}/executions", json={"code": WAIT}))
        session = initialize(dying)
        opened = open_interpreter(dying)
        effectful = dying.begin(session=open_interpreter(dying), code=WAIT)
        pure = dying.begin(language="python", code=WAIT)
        with api.events(f"/v1/sessions/{opened}/executions", code=WAIT) as events:
            assert [next(events)[0], next(events)[0]] == ["started", "output"]
            assert api.look_up(effectful)["state"] == "running"
            while not freezing.get(f"/v1/sessions/{held}").json()["running"]:
                pass
            replicas.servers[2].process.send_signal(signal.SIGSTOP)
            replicas.servers[0].process.kill()
            replicas.servers[0].process.wait()  # then all of its connections have ended
            # Their leases last until the test ends them: on a busy machine, they could be over too early.
            execute(url, "update node set seen = now() + interval '1 hour' where id in ('r0', 'r2')")
            *_, (name, problem) = events
        # The connection has ended, and the lease has not: the link may have failed.
        assert (name, problem["type"], problem["detail"]) == (
            "problem",
            "urn:paddock:problem:outcome-unknown",
            "The replica that handles this does not answer. Whether and how far it was done is not known. "
            "GET /v1/executions lists what was started.",
        )
        gone = api.post("/mcp", json=message("tools/list", {}), headers=session)
        assert (gone.status_code, gone.json()["error"]["message"]) == (404, "Session not found")
        # Until its lease is over, a replica may only be cut off.
        assert api.problem("GET", f"/v1/sessions/{opened}")[:2] == (503, "unavailable")
        # The kernel has killed the frozen replica before its lease was over.
        assert read_problem(waiting.result())[:2] == (504, "outcome-unknown")
        end_lease(url, "r0")
        end_lease(url, "r2")
        for handle in (held, opened):
            while (answer := api.get(f"/v1/sessions/{handle}")).status_code == 503:
                pass
            assert read_problem(answer) == SESSION_LOST
        outcome = api.run(session=opened, code="1")
        assert (outcome["status"], outcome["session"]["state"]) == ("lost", "lost")
        gone = api.post("/mcp", json=message("tools/list", {}), headers=session)
        assert (gone.status_code, gone.json()["error"]["message"]) == (404, "Session not found")
        while (answer := api.get(f"/v1/executions/{effectful}")).status_code == 503:
            pass
        text = f"The replica that ran the execution {effectful} has ended. Whether and how far it was done is not known."
        assert read_problem(answer) == (410, "execution-lost", text)
        status, kind, text = api.problem("DELETE", f"/v1/executions/{pure}")
        assert (status, kind) == (404, "not-found")
        assert ", or with the replica that ran it. " in text
