"""A replica whose clock is wrong serves nothing, and both sides of a refused hop say why."""

import re
from pathlib import Path

from tests.integration.cluster.test_owner_ends import open_interpreter
from tests.support.http_api import read_problem
from tests.support.replicas import ReplicaSet

WRONG_CLOCK = Path(__file__).parents[2] / "support" / "wrong_clock"
SETTINGS = "[telemetry]\nmetrics = true\n"


def read_skew(page: str) -> float:
    [value] = re.findall(r"^paddock_cluster_clock_skew_seconds (\S+)$", page, re.MULTILINE)
    return float(value)


def test_a_replica_whose_clock_is_wrong_serves_nothing(url: str, tmp_path: Path) -> None:
    replicas, offset = ReplicaSet(tmp_path, url, SETTINGS, 2), tmp_path / "offset"
    offset.write_text("0")
    replicas.places[1].environment |= {
        "PYTHONPATH": str(WRONG_CLOCK),
        "WRONG_CLOCK": str(offset),
        "PYDANTIC_DISABLE_PLUGINS": "__all__",  # with it, `tests.support.forked` executes the command
    }
    with replicas.run(), replicas.servers[0].client() as near, replicas.servers[1].client() as far:
        path = f"/v1/sessions/{open_interpreter(far)}"
        assert near.get(path).status_code == 200
        offset.write_text("61")
        for _ in range(3):
            status, kind, text = near.problem("GET", path)
            assert (status, kind) == (503, "unavailable")
            assert re.fullmatch(
                r"The clocks of two replicas of the server differ by 6[0-9] s, and at most 30 s are accepted. "
                r"Nothing was started. Send it again when its operator has set them.",
                text,
            )
        while (ready := far.get("/readyz")).status_code == 200:
            pass
        # Of a late answer of the database, only what is certain counts.
        assert re.fullmatch(
            r"The clock of this machine is [56]\d s ahead of that of the database of cluster.url; at most 10 s are allowed. "
            r"Set it, for example by NTP. Send requests to another server until then.",
            read_problem(ready)[2],
        )
        wrong = (
            503,
            "unavailable",
            "The clock of this server is wrong. Nothing was started. Send it again later, or to another server.",
        )
        assert (
            far.problem("POST", "/v1/executions", json={"language": "javascript", "code": "return 1"})
            == wrong
        )
        assert far.problem("GET", path) == wrong
        assert near.get("/v1/sessions").json() == {"sessions": [], "partial": ["r1"]}
        assert 50 <= read_skew(far.get("/metrics").text) < 62
        assert abs(read_skew(near.get("/metrics").text)) < 1
        offset.write_text("0")
        while far.get("/readyz").status_code != 200:
            pass
        assert near.get(path).status_code == 200
        logs: list[str] = []
        for server in replicas.servers:
            server.stop()
            assert server.process.stderr is not None
            logs.append(server.process.stderr.read())
    differs = r"clock is 6\d s behind {}; at most 30 s are accepted"
    refuses = "the replica r1 refuses requests of this one, whose " + differs.format("its own")
    refused = "a request of another replica is refused: its " + differs.format("that of this one")
    assert [len(re.findall(refuses, log)) for log in logs] == [1, 0]
    assert [len(re.findall(refused, log)) for log in logs] == [0, 1]
