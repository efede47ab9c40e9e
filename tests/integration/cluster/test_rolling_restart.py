"""Replicas that are replaced one after the other, under load: no request fails."""

import threading
from pathlib import Path

from tests.integration.cluster.test_forwarding import call_stateless
from tests.support.http_api import TOKEN, Background
from tests.support.replicas import ReplicaSet

SETTINGS = "[serve]\ndrain_ms = 1500\n"


def test_no_request_fails_in_a_rolling_restart(url: str, tmp_path: Path) -> None:
    replicas = ReplicaSet(tmp_path, url, SETTINGS)
    over = threading.Event()
    answers: list[object] = []

    def send(number: int) -> None:
        with replicas.front.client(TOKEN) as client:
            while not over.is_set():
                if number % 2:
                    outcome = client.run(language="javascript", code=f"return {number}")
                    answers.append(outcome["value"])
                else:
                    params = {"arguments": {"code": f"return {number}"}}
                    result = call_stateless(client, "tools/call", "execute_code", **params)
                    answers.append(result["structuredContent"]["value"])

    errors: list[BaseException] = []

    def send_until_over(number: int) -> None:
        try:
            send(number)
        except BaseException as error:  # noqa: BLE001 - reported below
            errors.append(error)

    with replicas.run():
        threads = [threading.Thread(target=send_until_over, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for number in range(len(replicas.ports)):
            before = len(answers)
            replicas.servers[number].stop()
            assert replicas.servers[number].wait() == 0
            replicas.servers[number] = replicas.start(number)
            with replicas.servers[number].client() as client:
                while client.get("/readyz").status_code != 200:
                    pass
            assert len(answers) > before
        over.set()
        for thread in threads:
            thread.join()
    assert errors == []
    assert {0, 1, 2, 3} == set(answers)


def test_what_outlasts_the_grace_period_is_cancelled_and_never_refused(url: str, tmp_path: Path) -> None:
    replicas = ReplicaSet(tmp_path, url, "[mcp]\nshutdown_grace_ms = 1\n", count=1)
    with replicas.run(), replicas.front.client() as client, replicas.servers[0].client() as direct:
        code = "print('begun', flush=True)\nwhile True: pass"
        waiting = Background(lambda: client.run(language="python", code=code, workspace="write"))
        while not direct.get("/v1/executions").json()["executions"]:
            pass
        replicas.servers[0].stop()
        assert waiting.result()["status"] == "cancelled"
        assert replicas.servers[0].wait() == 0
