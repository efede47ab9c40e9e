"""A replica that stands still ends before others call its requests lost."""

import os
import signal
import time
from contextlib import suppress
from pathlib import Path

from tests.support.chaos import report
from tests.support.processes import descendants, has_ended, watched
from tests.support.replicas import ReplicaSet, make_token_settings

WRITING = '[runtimes]\naccess = "workspace-write"\n'


def freeze(pid: int) -> list[int]:
    """Stop a process and everything below it; return handles of all."""
    stopped: list[int] = []
    while found := [each for each in [pid, *descendants(pid)] if each not in stopped]:
        for each in found:
            with suppress(ProcessLookupError):  # the program starts short processes all the time
                os.kill(each, signal.SIGSTOP)
                stopped.append(each)
    return watched(stopped)


def count_ticks(workspace: Path) -> int:
    file = workspace / "ticks"
    return file.stat().st_size if file.exists() else 0


def test_the_work_of_a_frozen_replica_is_dead_before_it_is_called_lost(url: str, tmp_path: Path) -> None:
    tokens, by_name = make_token_settings("alice")
    program = {
        "language": "shell",
        "code": "while true; do echo x >> ticks; sleep 0.02; done",
        "access": "workspace-write",
    }
    key = {"Idempotency-Key": "frozen"}
    replicas = ReplicaSet(tmp_path, url, WRITING + tokens, count=2)
    for place in replicas.places:
        place.workspace.chmod(0o777)
    workspace = replicas.places[0].workspace
    with replicas.run():
        frozen, other = replicas.servers
        with frozen.client(by_name["alice"]) as first, other.client(by_name["alice"]) as second:
            first.http.post(
                "/v1/executions", json=program, headers={**key, "Prefer": "respond-async"}
            ).raise_for_status()
            while not count_ticks(workspace):
                pass
            handles = freeze(frozen.process.pid)
            since = time.monotonic()
            outcome = second.run(headers=key, **program)
            report("verdict_after_s", round(time.monotonic() - since, 1))
            alive = [handle for handle in handles if not has_ended(handle, 0)]
            ticks = count_ticks(workspace)
    assert (outcome["status"], outcome["error"]["name"]) == ("lost", "MachineLost")
    assert alive == []
    assert count_ticks(workspace) == ticks
