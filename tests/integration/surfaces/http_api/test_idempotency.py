"""`Idempotency-Key`: at most one start, one outcome for all, also after a restart."""

from uuid import uuid4

import pytest
from tests.support.http_api import ApiClient, ApiPlace, Background, read_problem

EXECUTIONS = "/v1/executions"


def count_starts(place: ApiPlace) -> int:
    """Return how many requests of the owner were started, as the record says."""
    records = place.paddock("audit", "tail", "-n", "1000", "--event", "started", "--json")
    return len(records)


@pytest.fixture
def key() -> dict[str, str]:
    return {"Idempotency-Key": str(uuid4())}


def test_the_same_request_gets_the_same_outcome(api: ApiClient, key: dict[str, str]) -> None:
    body = {"language": "javascript", "code": "return Math.random()"}
    first, second = (api.post(EXECUTIONS, json=body, headers=key) for _ in range(2))
    assert first.status_code == second.status_code == 200
    assert first.json() == second.json()
    assert "idempotent-replayed" not in first.headers
    assert second.headers["idempotent-replayed"] == "true"
    assert first.headers["location"] == second.headers["location"] == f"{EXECUTIONS}/{first.json()['id']}"


def test_the_order_of_members_does_not_matter(api: ApiClient, key: dict[str, str]) -> None:
    first = api.run(headers=key, language="javascript", code="return Math.random()")
    assert api.run(headers=key, code="return Math.random()", language="javascript") == first


def test_a_pure_computation_is_replayed_as_well(api: ApiClient, key: dict[str, str]) -> None:
    first = api.run(headers=key, kind="compute", code="emit('1')")
    assert api.run(headers=key, kind="compute", code="emit('1')")["id"] == first["id"]


def test_a_key_belongs_to_one_request(api: ApiClient, key: dict[str, str]) -> None:
    first = api.run(headers=key, language="javascript", code="return 1")
    answer = api.post(EXECUTIONS, json={"language": "javascript", "code": "return 2"}, headers=key)
    assert read_problem(answer) == (
        422,
        "idempotency-key-reused",
        f"The execution {first['id']} has this Idempotency-Key and was requested with other contents. "
        "Send a new key with each new request.",
    )
    assert answer.json()["execution"] == first["id"]
    assert api.post("/v1/sessions", json={"language": "javascript"}, headers=key).status_code == 422


@pytest.mark.parametrize("name", ["KeyReused", "OutcomeNotKept"])
def test_a_program_cannot_say_that_it_was_not_started(api: ApiClient, key: dict[str, str], name: str) -> None:
    """It names its errors as it likes. Those names belong to requests that did not run."""
    code = f"const error = new Error('x'); error.name = '{name}'; throw error"
    for _ in range(2):
        outcome = api.run(headers=key, language="javascript", code=code)
        assert (outcome["status"], outcome["error"]["name"]) == ("failed", name)


def test_a_request_in_flight_is_joined(place: ApiPlace, key: dict[str, str]) -> None:
    go = place.workspace / "go"
    code = "import os, random\nwhile not os.path.exists('go'): pass\nprint(random.random())"
    body = {"language": "python", "code": code}
    with place.serve() as server, server.client() as api:
        both = [
            Background(lambda: api.post(EXECUTIONS, json=body, headers=key)),
            Background(lambda: api.post(EXECUTIONS, json=body, headers=key)),
        ]
        while not (found := api.get(EXECUTIONS).json()["executions"]):
            pass
        go.touch()
        first, second = (each.result() for each in both)
    assert [each["id"] for each in found] == [first.json()["id"]]
    assert first.json() == second.json()
    assert first.json()["status"] == "ok", first.text
    assert count_starts(place) == 1


def test_an_execution_with_a_key_outlives_its_client(place: ApiPlace, key: dict[str, str]) -> None:
    go = place.workspace / "go"
    code = "import os\nprint('begun', flush=True)\nwhile not os.path.exists('go'): pass"
    body = {"language": "python", "code": code}
    with place.serve() as server, server.client() as api:
        headers = {**key, "Accept": "text/event-stream"}
        with api.http.stream("POST", EXECUTIONS, json=body, headers=headers) as answer:
            lines = answer.iter_lines()
            while "begun" not in next(lines):
                pass
        go.touch()
        outcome = api.run(headers=key, **body)
        events = api.post(EXECUTIONS, json=body, headers=headers).text
    assert outcome["status"] == "ok"
    assert [line for line in events.splitlines() if line.startswith("event")] == [
        "event: started",
        "event: outcome",
    ]
    assert count_starts(place) == 1


def test_callers_have_keys_of_their_own(place: ApiPlace, key: dict[str, str]) -> None:
    token = place.make_token("alice")
    with place.serve() as server, server.client() as owner, server.client(token) as alice:
        first = owner.run(headers=key, language="javascript", code="return 1")
        second = alice.run(headers=key, language="javascript", code="return 2")
    assert (first["value"], second["value"]) == (1, 2)


def test_a_restart_does_not_start_a_program_twice(place: ApiPlace, key: dict[str, str]) -> None:
    body = {"language": "javascript", "code": "return 1"}
    with place.serve() as server, server.client() as api:
        first = api.run(headers=key, **body)
        server.stop()
        assert server.wait() == 0
    with place.serve() as server, server.client() as api:
        answer = api.post(EXECUTIONS, json=body, headers=key)
        assert read_problem(answer) == (
            409,
            "outcome-lost",
            f"This Idempotency-Key has started the execution {first['id']} before. "
            "It finished with the status ok, but its outcome is no longer kept. Nothing was started now. "
            "`paddock audit show` prints its record; send a new key to run it again.",
        )
        assert answer.json()["execution"] == first["id"]
        assert api.run(headers={"Idempotency-Key": "another"}, **body)["status"] == "ok"
    assert count_starts(place) == 2


@pytest.mark.parametrize("language", ["python", "javascript"])
def test_a_crash_loses_the_outcome_and_starts_nothing_again(
    place: ApiPlace, key: dict[str, str], language: str
) -> None:
    code = {"python": "while True: pass", "javascript": "while (true) {}"}[language]
    body = {"language": language, "code": code}
    with place.serve() as server, server.client() as api:
        headers = {**key, "Prefer": "respond-async"}
        running = api.post(EXECUTIONS, json=body, headers=headers).json()["id"]
        while not count_starts(place):
            pass
        server.process.kill()
        server.wait()
    with place.serve() as server, server.client() as api:
        status, name, detail = read_problem(api.post(EXECUTIONS, json=body, headers=key))
    assert (status, name) == (409, "outcome-lost")
    assert f"has started the execution {running} before. How it ended is not known" in detail
    assert count_starts(place) == 1


def test_what_never_started_runs_when_it_is_sent_again(place: ApiPlace, key: dict[str, str]) -> None:
    place.settings("[runtimes]\nmax_jobs = 1\nmax_waiting = 1\nmax_wait_ms = 1\n[serve]\nmax_jobs = 1\n")
    spin = {"language": "javascript", "code": "console.log(1); while (true) {}"}
    with place.serve() as server, server.client() as api:
        with api.events(**spin) as events:
            assert [next(events)[0], next(events)[0]] == ["started", "console"]
            answer = api.post(EXECUTIONS, json={"language": "javascript", "code": "return 1"}, headers=key)
            assert read_problem(answer)[:2] == (503, "unavailable")
            assert answer.headers["retry-after"] == "1"
        for each in api.get(EXECUTIONS).json()["executions"]:
            api.delete(f"{EXECUTIONS}/{each['id']}")
        assert api.run(headers=key, language="javascript", code="return 1")["value"] == 1


@pytest.mark.parametrize("value", ["", "a b", "a" * 256, "\N{SNOWMAN}".encode()])
def test_invalid_keys(api: ApiClient, value: str | bytes) -> None:
    body = {"language": "javascript", "code": "return 1"}
    answer = api.post(EXECUTIONS, json=body, headers={"Idempotency-Key": value})
    assert read_problem(answer) == (
        400,
        "invalid-idempotency-key",
        "An Idempotency-Key is 1 to 255 printable ASCII characters without spaces. "
        "Send a new random one, such as a UUID, for each new request.",
    )


def test_a_session_is_opened_once(api: ApiClient, key: dict[str, str]) -> None:
    first, second = (api.post("/v1/sessions", json={"language": "python"}, headers=key) for _ in range(2))
    assert first.status_code == second.status_code == 201
    assert first.json()["id"] == second.json()["id"]
    api.delete(first.headers["location"])
    assert api.post("/v1/sessions", json={"language": "python"}, headers=key).status_code == 410
