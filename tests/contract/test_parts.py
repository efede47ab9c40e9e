"""The checks that `paddock.testing` offers, on Paddock's own sinks, stores and sandboxes, and on broken ones."""

import asyncio
import itertools
import secrets
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from paddock import AuditRecord, LedgerError, chain_record
from paddock.confinement.sandbox.checked import check_sandbox
from paddock.confinement.sandbox.sandbox import KernelSandbox
from paddock.model.outcome import SandboxFacts
from paddock.record.ledger.sink_wrappers import CheckedSink
from paddock.record.ledger.writer import Ledger
from paddock.record.output.backends import ArtifactStore, LocalBackend, ObjectStoreBackend
from paddock.testing import (
    ARTIFACT_STORE_CHECKS,
    AUDIT_SINK_CHECKS,
    SANDBOX_CHECKS,
    FakeSandbox,
    MemoryArtifacts,
    MemoryAudit,
)
from paddock.testing.artifact_store import check_deleting, check_objects_come_back
from paddock.testing.audit_sink import (
    check_a_request_is_claimed_once,
    check_payloads_are_refused,
    check_records_come_back,
)
from paddock.testing.sandbox import check_confinement, check_output_and_exit_code

TIERS = ("landlock", "namespaces")


def name_of(check: Callable[..., object]) -> str:
    return check.__name__


@pytest.mark.parametrize("kind", ["ledger", "memory"])
@pytest.mark.parametrize("check", AUDIT_SINK_CHECKS, ids=name_of)
def test_an_audit_sink_keeps_its_promises(check: Callable[..., object], kind: str, tmp_path: Path) -> None:
    sink = Ledger(tmp_path / "ledger") if kind == "ledger" else MemoryAudit()
    check(sink)
    sink.close()


@pytest.mark.parametrize("check", AUDIT_SINK_CHECKS[:-1], ids=name_of)
def test_a_sink_of_the_caller_keeps_them_behind_the_seam(check: Callable[..., object]) -> None:
    check(CheckedSink(MemoryAudit()))


@pytest.mark.parametrize("kind", ["directory", "bucket in memory", "s3", "memory"])
@pytest.mark.parametrize("check", ARTIFACT_STORE_CHECKS, ids=name_of)
def test_an_artifact_store_keeps_its_promises(
    check: Callable[..., object], kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    from paddock.record.output.artifacts import _current_time

    store: ArtifactStore
    if kind == "directory":
        store = LocalBackend(tmp_path / "artifacts")
    elif kind == "memory":
        store = MemoryArtifacts()
    else:
        folder = secrets.token_hex(4)
        url = f"{request.getfixturevalue('s3_environment')}/{folder}" if kind == "s3" else "memory:///"
        store = ObjectStoreBackend(url, _current_time())
    check(store)


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("check", SANDBOX_CHECKS, ids=name_of)
def test_a_sandbox_keeps_its_promises(check: Callable[..., object], tier: str) -> None:
    async def main() -> None:
        async with KernelSandbox(SandboxFacts(tier=tier), tier) as sandbox:
            await check(sandbox)

    asyncio.run(main())


@pytest.mark.parametrize("check", SANDBOX_CHECKS, ids=name_of)
def test_a_sandbox_of_the_caller_keeps_them_behind_the_seam(check: Callable[..., object]) -> None:
    async def main() -> None:
        async with KernelSandbox(SandboxFacts(tier="landlock"), "landlock") as sandbox:
            await check(await check_sandbox(sandbox, "landlock"))

    asyncio.run(main())


class ForgetfulSink(MemoryAudit):
    """Lets a request be claimed twice."""

    def claim(self, request: str, fields: Mapping[str, object], *, parent: str | None = None) -> str:
        self._claimed.clear()
        return super().claim(request, fields, parent=parent)


class GreedySink:
    """Keeps whatever it gets, in a chain."""

    def __init__(self) -> None:
        self.records: list[AuditRecord] = []

    def claim(self, request: str, fields: Mapping[str, object], *, parent: str | None = None) -> str:
        return self._keep("started", request, fields, parent)

    def append(
        self, event: str, request: str, fields: Mapping[str, object], *, parent: str | None = None
    ) -> str:
        return self._keep(event, request, fields, parent)

    append_soon = append

    def query(self, *, newest_first: bool = True, **_: object) -> Iterator[AuditRecord]:
        return iter(self.records[::-1] if newest_first else self.records)

    def close(self) -> None:
        pass

    def _keep(self, event: str, request: str, fields: Mapping[str, object], parent: str | None) -> str:
        last = self.records[-1] if self.records else None
        self.records.append(chain_record(last, event, request, fields, parent=parent))
        return self.records[-1].id


def failure(check: Callable[[], object]) -> str:
    with pytest.raises(AssertionError) as caught:
        check()
    return str(caught.value)


def test_a_sink_that_breaks_its_promises_fails() -> None:
    assert failure(lambda: check_a_request_is_claimed_once(ForgetfulSink())) == (
        "a request is claimed at most once: it raised nothing, want LedgerError"
    )
    assert failure(lambda: check_payloads_are_refused(GreedySink())).startswith(
        "a field is a short fact, not 'xxx"
    )
    check_records_come_back(GreedySink())
    failed = []
    for check in AUDIT_SINK_CHECKS:
        try:
            check(GreedySink())
        except (AssertionError, LedgerError):
            failed.append(check.__name__)
    assert failed == [
        check.__name__
        for check in AUDIT_SINK_CHECKS
        if check.__name__ not in {"check_records_come_back", "check_append_soon_keeps_its_place"}
    ]


def test_a_store_that_breaks_its_promises_fails() -> None:
    class Cut(MemoryArtifacts):
        def read(self, group: str, name: str, chunk: int) -> Iterator[bytes]:
            return itertools.islice(super().read(group, name, chunk), 1)

    class Kept(MemoryArtifacts):
        def delete(self, group: str, names: object) -> None:
            pass

    assert failure(lambda: check_objects_come_back(Cut())).startswith("an object comes back whole: got ")
    assert failure(lambda: check_deleting(Kept())).startswith("a deleted object is gone: got ")


def test_a_sandbox_that_breaks_its_promises_fails() -> None:
    assert failure(lambda: asyncio.run(check_output_and_exit_code(FakeSandbox()))).startswith(
        "a program's exit code and output are its own: got "
    )
    assert failure(lambda: asyncio.run(check_confinement(FakeSandbox()))) == (
        "the tier unconfined is proved: nothing is confined"
    )
