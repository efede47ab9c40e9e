"""SIGTERM: nothing new starts, what runs may end, and every started request is answered with its outcome."""

import socket

from tests.support.http_api import ApiPlace, Background, make_head, read_pong, read_problem
from tests.support.processes import all_end, descendants, watched

WAIT = "import os\nprint('begun', flush=True)\nwhile not os.path.exists('go'): pass\nprint('done')"
SPIN = "console.log('begun'); while (true) {}"


def test_running_executions_end_and_new_ones_are_refused(place: ApiPlace) -> None:
    place.settings("[mcp]\nshutdown_grace_ms = 300000\n")
    with place.serve() as server, server.client() as api:
        with api.events(language="python", code=WAIT) as events:
            (_, started), _ = next(events), next(events)
            server.stop()
            while api.get("/readyz").status_code == 200:
                pass
            ready = api.get("/readyz")
            assert read_problem(ready) == (
                503,
                "server-ending",
                "The server is ending. Send requests to another one.",
            )
            assert api.get("/livez").status_code == 200
            refused = api.post("/v1/executions", json={"language": "javascript", "code": "return 1"})
            assert read_problem(refused) == (
                503,
                "server-ending",
                "This server is ending. Send it again to another server, or later.",
            )
            assert refused.headers["retry-after"] == "1"
            assert api.look_up(started["id"])["state"] == "running"
            (place.workspace / "go").touch()
            *_, (last, outcome) = events
        assert (last, outcome["status"]) == ("outcome", "ok")
        assert server.wait() == 0


def test_what_outlasts_the_grace_period_is_cancelled_and_answered(place: ApiPlace) -> None:
    place.settings("[mcp]\nshutdown_grace_ms = 1\n")
    with place.serve() as server, server.client() as api:
        with api.events(language="javascript", code=SPIN) as events:
            assert [next(events)[0], next(events)[0]] == ["started", "console"]
            waiting = Background(lambda: api.run(language="python", code="print(1)\nwhile True: pass"))
            while len(api.get("/v1/executions").json()["executions"]) < 2:
                pass
            server.stop()
            *_, (last, outcome) = events
        assert (last, outcome["status"]) == ("outcome", "cancelled")
        assert waiting.result()["status"] == "cancelled"
        assert server.wait() == 0


def test_nothing_is_left_of_a_server_that_ended(place: ApiPlace) -> None:
    place.settings("[mcp]\nshutdown_grace_ms = 1\n")
    with place.serve() as server, server.client() as api:
        opened = api.post("/v1/sessions", json={"language": "python"})
        assert opened.status_code == 201
        with api.events(language="javascript", code=SPIN) as events:
            assert [next(events)[0], next(events)[0]] == ["started", "console"]
            below = watched(descendants(server.process.pid))
            server.stop()
            assert server.wait() == 0
    assert below
    assert all_end(below)


def test_idle_connections_do_not_keep_a_server(place: ApiPlace) -> None:
    with place.serve() as server, socket.create_connection(("127.0.0.1", server.port)) as idle:
        idle.sendall(make_head(server, line="GET /v1/ping"))
        assert read_pong(idle)
        server.stop()
        assert server.wait() == 0
        assert idle.recv(1) == b""
