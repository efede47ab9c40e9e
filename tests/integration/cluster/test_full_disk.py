"""The disk of one replica is full: it says so and starts nothing, the others go on, and it recovers with the space.

Its state is on a small file system of memory, in a mount namespace that the replica alone is in.
"""

import errno
import os
import re
from pathlib import Path
from typing import Any

from tests.support.chaos import count_starts
from tests.support.command import PADDOCK, run_command
from tests.support.http_api import ApiClient, ApiPlace, ApiServer, Background, read_problem
from tests.support.replicas import ReplicaSet

SETTINGS = '[runtimes]\naccess = "workspace-write"\n'
OWN_STATE = (
    *("unshare", "--mount", *(["--map-root-user"] if os.geteuid() != 0 else [])),
    *("sh", "-c", 'mount -t tmpfs -o size=2m none "$HOME/.local/state" && exec "$@"', "sh"),
)
PAGE_BYTES, MIN_RECORD_BYTES = 4096, 400
FULL = (
    "The audit ledger {audit} cannot be written: No space left on device. Nothing runs without its record. "
    "Free space on its file system or raise the quota."
)
REFUSED = (
    503,
    "unavailable",
    "The record of this server cannot be written, and nothing runs without it. Send requests to another one. "
    "The log has the cause.",
)


def write_program(number: int, code: str = "true") -> dict[str, Any]:
    program = f"echo x >> starts-{number}; {code}; echo {number}"
    return {"language": "shell", "code": program, "access": "workspace-write"}


class SmallDisk:
    """The file system with the state of a replica that runs."""

    def __init__(self, place: ApiPlace, server: ApiServer) -> None:
        root = Path(f"/proc/{server.process.pid}/root")
        self.state = place.home / ".local/state"
        self._filler = root / self.state.relative_to("/") / "filler"

    def fill(self) -> None:
        """Take all space."""
        file = os.open(self._filler, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        try:
            while True:
                os.write(file, bytes(4096))
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
        finally:
            os.close(file)

    def free(self) -> None:
        """Give it back."""
        self._filler.unlink()


def hide_sizes(text: str) -> str:
    """Return the reason of a record of which nothing fits for one of which a part would."""
    return re.sub(r"only \d+ of \d+ bytes fit", "No space left on device", text)


def give_small_disk(place: ApiPlace) -> None:
    """Start the server of a place with its state on a small file system."""
    (place.home / ".local/state").mkdir(parents=True)
    place.inside = OWN_STATE


def use_up(client: ApiClient) -> None:
    """Send requests until the last page of the ledger has no room left, not even for the shortest record."""
    body = {"language": "shell", "code": "true", "access": "none"}
    refused = 0
    while refused < PAGE_BYTES // MIN_RECORD_BYTES:
        refused += client.post("/v1/executions", json=body).status_code != 200


def await_ready(client: ApiClient, *, ready: bool) -> None:
    """Wait until a replica is ready, or is not."""
    while (answer := client.get("/readyz")).status_code != (200 if ready else 503):
        pass
    assert ready or read_problem(answer) == REFUSED


def test_one_replica_without_space_starts_nothing_and_the_others_go_on(url: str, tmp_path: Path) -> None:
    replicas = ReplicaSet(tmp_path, url, SETTINGS)
    for place in replicas.places:
        place.workspace.chmod(0o777)
    full = replicas.places[0]
    give_small_disk(full)
    with (
        replicas.run(),
        replicas.servers[0].client() as client,
        replicas.servers[1].client() as other,
        replicas.front.client() as front,
    ):
        disk = SmallDisk(full, replicas.servers[0])
        while_it_runs = write_program(1, "until [ -e go ]; do sleep 0.02; done")
        running = Background(
            lambda: client.post("/v1/executions", json=while_it_runs, headers={"Idempotency-Key": "1"})
        )
        while count_starts(replicas.places, 1) == 0:
            pass
        disk.fill()
        use_up(client)
        await_ready(client, ready=False)

        # What ran ends, and its end cannot be recorded: the outcome is not returned, and it starts nowhere again.
        (full.workspace / "go").touch()
        ended = running.result()
        again = other.post("/v1/executions", json=while_it_runs, headers={"Idempotency-Key": "1"})

        refused = client.post("/v1/executions", json=write_program(2), headers={"Idempotency-Key": "2"})
        moved = other.run(headers={"Idempotency-Key": "2"}, **write_program(2))
        replicas.await_unbalanced(0)
        served = [
            front.run(headers={"Idempotency-Key": str(number)}, **write_program(number))
            for number in range(3, 13)
        ]

        disk.free()
        await_ready(client, ready=True)
        replicas.await_balanced(0)
        later = client.run(headers={"Idempotency-Key": "13"}, **write_program(13))
        verified = run_command(
            full.workspace,
            *("nsenter", "--target", str(replicas.servers[0].process.pid), "--mount"),
            *(PADDOCK, "audit", "verify"),
            environment=full.environment,
        )
        replicas.servers[0].stop()
        assert replicas.servers[0].process.stderr is not None
        log = replicas.servers[0].process.stderr.read()

    again_with_key = "Send it again with the same Idempotency-Key: it starts at most once."
    why = f"{FULL.format(audit='~/.local/state/paddock/audit')} {again_with_key}"
    lost = again.json()
    assert (again.status_code, lost["status"], lost["error"]["name"], lost["error"]["message"]) == (
        *(200, "lost", "EndNotRecorded"),
        f"The server r0 ran {lost['id']}, and could not record its end. How far the request came is not known.",
    )
    assert [read_problem(each)[:2] for each in (ended, refused)] == [
        (503, "unavailable"),
        (503, "unavailable"),
    ]
    assert [hide_sizes(read_problem(each)[2]) for each in (ended, refused)] == [why] * 2
    assert (moved["status"], moved["program"]["stdout"]["head"]) == ("ok", "2\n")
    assert [outcome["status"] for outcome in served] == ["ok"] * 10
    assert later["status"] == "ok"
    assert [count_starts(replicas.places, number) for number in range(1, 14)] == [1] * 13
    assert verified.stdout.startswith("ok: "), verified
    told = [line.partition(" paddock.record: ")[2] for line in log.splitlines()]
    assert [hide_sizes(line) for line in told if line] == [
        f"requests are refused: {FULL.format(audit=disk.state / 'paddock/audit')}",
        "the record can be written again",
    ]


def test_computations_go_on_where_they_need_no_record(tmp_path: Path) -> None:
    place = ApiPlace(tmp_path)
    place.settings('[audit]\nrequired = "effects"\n')
    give_small_disk(place)
    with place.serve() as server, server.client() as client:
        disk = SmallDisk(place, server)
        disk.fill()
        use_up(client)
        assert client.run(kind="compute", code="emit(6 * 7)")["status"] == "ok"
        assert client.get("/readyz").text == "ok\n"
