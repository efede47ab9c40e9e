"""A replica loses the bucket of stored output: programs run on, what is not stored is said, and later it is stored."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.support.bucket import Bucket, make_environment
from tests.support.cluster_record import make_record, ship_all, wait_for, write_records
from tests.support.http_api import ApiClient, Background, read_problem
from tests.support.late_proxy import LateProxy
from tests.support.replicas import ReplicaSet

from paddock.cluster import sign
from paddock.cluster.bucket import CheckpointBucket
from paddock.cluster.database import Database
from paddock.cluster.sign import CheckpointSigner
from paddock.cluster.verify import verify_record
from paddock.model.errors import ArtifactError

SETTINGS = '[artifacts]\nurl = "s3://bucket/artifacts"\ncross_workspace = true\n[runtimes]\naccess = "workspace-write"\n'
LOST = "The bucket of artifacts.url cannot be used for checkpoints: GenericError. Check its address and the credentials in the environment."


def write_program(number: int, **more: Any) -> dict[str, Any]:
    return {"language": "shell", "code": f"echo {number}", "access": "none", **more}


def run_stored(client: ApiClient, number: int) -> str:
    """Run a program and return the handle of its output."""
    outcome = client.run(**write_program(number))
    assert outcome["status"] == "ok"
    assert outcome["program"]["artifact"] is not None, outcome["program"]["not_kept"]
    return outcome["program"]["artifact"]


def test_a_replica_without_the_bucket_runs_programs_and_says_what_is_not_stored(
    url: str, tmp_path: Path
) -> None:
    replicas = ReplicaSet(tmp_path, url, SETTINGS, count=2)
    for place in replicas.places:
        place.workspace.chmod(0o777)
    with Bucket() as own, Bucket() as shared:
        for place, bucket in zip(replicas.places, (own, shared), strict=True):
            place.environment |= bucket.environment
        with replicas.run(), replicas.servers[0].client() as client, replicas.servers[1].client() as other:
            before = run_stored(client, 1)
            assert other.get(f"/v1/artifacts/{before}").text == "1\n"
            own.stop()
            lost = client.run(headers={"Idempotency-Key": "k"}, **write_program(2, access="workspace-write"))
            unread = client.get(f"/v1/artifacts/{before}")
            with_input = write_program(3, access="workspace-write", files=[{"path": "f", "artifact": before}])
            refused = client.run(headers={"Idempotency-Key": "i"}, **with_input)
            assert client.get("/readyz").status_code == 200
            assert other.get(f"/v1/artifacts/{run_stored(other, 4)}").text == "4\n"
            own.start()
            again = client.run(headers={"Idempotency-Key": "i"}, **with_input)
            after = other.get(f"/v1/artifacts/{run_stored(client, 5)}").text
    program = lost["program"]
    assert (lost["status"], program["stdout"]["head"], program["artifact"]) == ("ok", "2\n", None)
    assert program["not_kept"] == (
        "output could not be kept: cannot write the artifact: the bucket of artifacts.url cannot be used "
        "(GenericError)"
    )
    assert read_problem(unread) == (
        503,
        "unavailable",
        "cannot read the artifact: the bucket of artifacts.url cannot be used (GenericError). Ask again later.",
    )
    assert (refused["status"], refused["error"]["message"]) == (
        "unavailable",
        "cannot read the artifact: the bucket of artifacts.url cannot be used (GenericError)",
    )
    assert (again["status"], after) == ("ok", "5\n")


def test_checkpoints_are_put_into_the_bucket_when_it_is_back(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sign, "INTERVAL_S", 0.05)
    with Bucket() as bucket:
        for name, value in bucket.environment.items():
            monkeypatch.setenv(name, value)

        async def run() -> None:
            notes = CheckpointBucket("s3://bucket/artifacts")
            async with Database(url) as database:
                record = await make_record(database, tmp_path)
                running = asyncio.create_task(
                    CheckpointSigner(database, record.key, tmp_path / "signer", notes).run()
                )
                await wait_for(database, "select count(*) from checkpoint where stored", 4)
                bucket.stop()
                for number in (5, 6):
                    write_records(record.directories["a"], 1)
                    await ship_all(record.shippers["a"])
                    await wait_for(database, "select max(n) from checkpoint", number)
                with pytest.raises(ArtifactError) as away:
                    await verify_record(database, [record.key.public], bucket=notes)
                assert str(away.value) == LOST
                assert await database.fetch("select n from checkpoint where not stored order by n") == [
                    (5,),
                    (6,),
                ]
                bucket.start()
                await wait_for(database, "select count(*) from checkpoint where stored", 6)
                running.cancel()
                report = await verify_record(database, [record.key.public], bucket=notes)
                assert (report.problems, notes.find_last(0)) == ((), 6)

        asyncio.run(run())
    assert [record.getMessage() for record in caplog.records if record.name == "paddock.cluster"] == [
        f"no checkpoints are put into the bucket: {LOST}",
        "checkpoints are put into the bucket again",
    ]


def test_a_bucket_that_hangs_delays_only_what_is_stored_there(url: str, tmp_path: Path) -> None:
    replicas = ReplicaSet(tmp_path, url, SETTINGS, count=1)
    with Bucket() as bucket, LateProxy(bucket.port) as late:
        replicas.places[0].environment |= {**make_environment(late.port), "AWS_TIMEOUT": "1 s"}
        with replicas.run(), replicas.servers[0].client() as client:
            run_stored(client, 1)
            late.swallowed = b"PUT /bucket/artifacts"
            hanging = [Background(lambda n=n: client.run(**write_program(n))) for n in range(2, 6)]
            while late.count("PUT /bucket/artifacts") < 4:  # those that were stored are three of them
                pass
            computed = client.run(kind="compute", code="emit(6 * 7)")
            assert (computed["status"], computed["value"]) == ("ok", "42")
            outcomes = [each.result() for each in hanging]
    assert [outcome["status"] for outcome in outcomes] == ["ok"] * 4
    assert {outcome["program"]["artifact"] for outcome in outcomes} == {None}
