"""Two real versions and one database: the version before this one runs with the tables of this one.

The long form is behind a variable: `PADDOCK_VERSION_ROUNDS=3` replaces three replicas forward and back three times.
"""

import os
from pathlib import Path

import pytest
from tests.integration.cluster.test_rolling_restart import DRAIN_MS, Load
from tests.support.command import PADDOCK, run_command, run_paddock
from tests.support.http_api import ApiClient, read_problem
from tests.support.leases import execute
from tests.support.previous_version import build_previous_version, read_files, read_previous_version
from tests.support.replicas import ReplicaSet

from paddock import __version__
from paddock.cluster.migrate import list_migrations

MIGRATIONS = {f"{each.name}.sql": each.sql.encode() for each in list_migrations()}
CONTRACTS = [each.name for each in list_migrations() if each.is_contract]
ROUNDS = int(os.environ.get("PADDOCK_VERSION_ROUNDS", "0"))
SETTINGS = f"[serve]\ndrain_ms = {DRAIN_MS}\n"
WAIT = "import threading\nprint('begun', flush=True)\nthreading.Event().wait()"


@pytest.fixture(scope="module")
def previous() -> str:
    """Return the command of the version before this one."""
    return build_previous_version()


def test_each_migration_names_the_version_before_it() -> None:
    commit, newest = read_previous_version()
    before = read_files(commit, "src/paddock/cluster/migrations")
    later = {name: sql for name, sql in MIGRATIONS.items() if name not in before}
    assert (newest, bool(later)) == (list_migrations()[-1].number, True), (
        "a migration was added: name the last commit without it in tests/previous_version.toml"
    )
    assert before == {name: MIGRATIONS[name] for name in before}, "what is applied cannot be changed any more"


def test_a_clone_without_history_says_what_to_do(tmp_path: Path) -> None:
    assert run_command(tmp_path, "git", "init", "--quiet").returncode == 0
    commit = read_previous_version().commit
    with pytest.raises(LookupError) as missing:
        read_files(commit, "src", tmp_path)
    assert str(missing.value) == (
        f"this clone has no commit {commit}, which tests/previous_version.toml names as the version before this one; "
        "run: git fetch --unshallow"
    )


def run_with_key(api: ApiClient, key: str) -> str:
    """Return the answer to a request with effects, as text."""
    body = {"language": "javascript", "code": "return Math.random()"}
    answer = api.post("/v1/executions", json=body, headers={"Idempotency-Key": key})
    assert answer.status_code == 200, answer.text
    return answer.text


def find_foreign(api: ApiClient, other: ApiClient) -> None:
    """Begin an execution, and look it up and cancel it through another replica."""
    id_ = api.begin(language="python", code=WAIT)
    assert other.look_up(id_)["state"] == "running"
    answer = other.delete(f"/v1/executions/{id_}")
    assert (answer.status_code, answer.json()["outcome"]["status"]) == (200, "cancelled"), answer.text


def use_foreign_session(api: ApiClient, other: ApiClient) -> None:
    opened = api.post("/v1/sessions", json={"language": "python"})
    assert opened.status_code == 201, opened.text
    handle = opened.json()["id"]
    assert api.run(session=handle, code="x = 6")["status"] == "ok"
    assert other.run(session=handle, code="assert x == 6")["status"] == "ok"


def test_two_versions_are_one_service_until_the_tables_are_contracted(
    url: str, tmp_path: Path, previous: str
) -> None:
    replicas = ReplicaSet(tmp_path, url, SETTINGS, count=2)
    replicas.commands[0] = previous
    own = replicas.places[1]
    with replicas.run():
        with replicas.servers[0].client() as old, replicas.servers[1].client() as new:
            for one, other in ((old, new), (new, old)):
                key = "forward" if one is old else "back"
                assert run_with_key(one, key) == run_with_key(other, key)
                find_foreign(one, other)
                use_foreign_session(one, other)
            token = own.make_token("ada")
            for server in replicas.servers:
                with server.client(token) as ada:
                    assert ada.get("/v1/executions").status_code == 200
            # The version before announces nothing itself: the tables do.
            place = replicas.places[0]
            words = (previous, "serve", "token", "revoke", "ada")
            assert run_command(place.workspace, *words, environment=place.environment).returncode == 0
            with replicas.servers[1].client(token) as ada:
                while (answer := ada.get("/v1/executions")).status_code == 200:
                    pass
                assert read_problem(answer)[:2] == (401, "unauthorized")
        status = own.paddock("cluster", "status", "--json")
        assert {each["id"]: (each["state"], each["version"]) for each in status["nodes"]} == {
            "r0": ("serving", None),
            "r1": ("serving", __version__),
        }
        assert (status["missing"], status["contracts"], status["waits_for"]) == ([], CONTRACTS, ["r0"])
        contract = ("cluster", "migrate", "--contract")
        refused = run_paddock(own.workspace, *contract, environment=own.environment)
        assert (refused.returncode, refused.stdout, refused.stderr) == (
            1,
            "",
            f"{CONTRACTS[-1]} waits for r0, which run an older version; replace them first, and look at: "
            "paddock cluster status\n",
        )
        replicas.commands[0] = PADDOCK
        replicas.replace(0)
        shown = run_paddock(own.workspace, "cluster", "status", environment=own.environment).stdout
        assert shown.splitlines()[-1] == (
            f"contract steps: {', '.join(CONTRACTS)}; no replica runs an older version: paddock cluster migrate --contract"
        )
        assert own.paddock(*contract, "--json") == {"applied": CONTRACTS}
        with replicas.servers[0].client() as one, replicas.servers[1].client() as other:
            assert run_with_key(one, "after") == run_with_key(other, "after")
    words = (previous, "serve", "http", "--http", "127.0.0.1:0")
    late = run_command(place.workspace, *words, environment={**place.environment, "PADDOCK_TOKEN": "t" * 32})
    assert (late.returncode, late.stderr.splitlines()[-1]) == (
        1,
        f"the tables of cluster.url were changed for newer versions of Paddock ({CONTRACTS[0]}), and this one cannot use "
        "them; use the version of the other machines",
    )


def test_no_request_fails_while_replicas_are_replaced_forward_and_back(
    url: str, tmp_path: Path, previous: str
) -> None:
    replicas = ReplicaSet(tmp_path, url, SETTINGS, count=3 if ROUNDS else 2)
    replicas.commands = [previous] * len(replicas.ports)
    with replicas.run():
        load = Load(replicas.front)
        for command in (PADDOCK, previous) * max(1, ROUNDS):
            for number in range(len(replicas.ports)):
                load.await_answers()
                replicas.commands[number] = command
                replicas.replace(number)
        load.await_answers()
        load.end()
    assert not load.errors, load.errors
    assert {*load.answers} == {0, 1, 2, 3}
    assert execute(url, "select count(*) from run where state <> 'finished'") == [(0,)]
