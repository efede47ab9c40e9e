"""Replicas that are replaced one after the other, under load: no request fails.

The long form has the times of the page about several machines: PADDOCK_BALANCER_TIMES=page.
"""

import os
import threading
from pathlib import Path

from tests.integration.cluster.test_forwarding import call_stateless
from tests.support.balancers import HOST, PageHaProxy
from tests.support.http_api import TOKEN, ApiClient, ApiServer, Background
from tests.support.replicas import ReplicaSet

OF_THE_PAGE = os.environ.get("PADDOCK_BALANCER_TIMES") == "page"
INTER, DRAIN_MS = ("1s", 5000) if OF_THE_PAGE else ("200ms", 3000)
PAUSE_S = 0.05
"""Pause of a client between two requests, in seconds. Without it, they take the processors from the replicas that start."""


class Load:
    """Clients that send short requests, one after the other, until it ends."""

    def __init__(self, balancer: PageHaProxy | ApiServer) -> None:
        self.answers: list[object] = []
        self.errors: list[BaseException] = []
        self._balancer = balancer
        self._over = threading.Event()
        self._answered = threading.Condition()
        self._threads = [threading.Thread(target=self._send, args=(number,)) for number in range(4)]
        for thread in self._threads:
            thread.start()

    def _send(self, number: int) -> None:
        try:
            with self._balancer.client(TOKEN) as client:
                while not self._over.wait(PAUSE_S):
                    answer = self._call(client, number)
                    with self._answered:
                        self.answers.append(answer)
                        self._answered.notify_all()
        except BaseException as error:  # noqa: BLE001 - the test reports it
            with self._answered:
                self.errors.append(error)
                self._answered.notify_all()

    def _call(self, client: ApiClient, number: int) -> object:
        code = f"return {number}"
        if number % 2:
            return client.run(language="javascript", code=code)["value"]
        result = call_stateless(client, "tools/call", "execute_code", arguments={"code": code})
        return result["structuredContent"]["value"]

    def await_answers(self) -> None:
        """Wait for some more answers."""
        with self._answered:
            wanted = len(self.answers) + 8
            self._answered.wait_for(lambda: len(self.answers) >= wanted or self.errors)

    def end(self) -> None:
        """Wait for the last answers."""
        self._over.set()
        for thread in self._threads:
            thread.join()


def test_no_request_fails_in_a_rolling_restart(url: str, tmp_path: Path) -> None:
    replicas = ReplicaSet(tmp_path, url, f"[serve]\ndrain_ms = {DRAIN_MS}\n", hosts=(HOST,))
    with replicas.run(), PageHaProxy(replicas.ports, inter=INTER) as balancer:
        load = Load(balancer)
        for number in range(len(replicas.ports)):
            load.await_answers()
            replicas.stop(number)
            replicas.servers[number] = replicas.start(number)
            while not balancer.is_up(number):
                pass
        load.await_answers()
        load.end()
    assert not load.errors, load.errors
    assert set(load.answers) == {0, 1, 2, 3}


def test_what_outlasts_the_grace_period_is_cancelled_and_never_refused(url: str, tmp_path: Path) -> None:
    replicas = ReplicaSet(tmp_path, url, "[mcp]\nshutdown_grace_ms = 1\n", count=1)
    with replicas.run(), replicas.front.client() as client, replicas.servers[0].client() as direct:
        waiting = Background(lambda: client.run(language="javascript", code="while (true) {}"))
        while not direct.get("/v1/executions").json()["executions"]:
            pass
        replicas.servers[0].stop()
        assert waiting.result()["status"] == "cancelled"
        assert replicas.servers[0].wait() == 0


def test_a_replica_whose_name_was_taken_is_not_ready(url: str, tmp_path: Path) -> None:
    replicas = ReplicaSet(tmp_path, url, count=1)
    with replicas.run(), replicas.servers[0].client(None) as client:
        assert client.get("/readyz").status_code == 200
        with replicas.places[0].serve():
            while (answer := client.get("/readyz")).status_code == 200:
                pass
    assert (answer.status_code, answer.json()["detail"]) == (
        503,
        "Another server has the name of this one. Send requests to another one, and restart this one under another name.",
    )
