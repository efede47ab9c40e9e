"""No user of a server sees, changes or stops what is another's: over forty attempts, none of which succeeds."""

import socket
from collections.abc import Iterator

import pytest
from tests.integration.surfaces.tenants.attempts import (
    ATTEMPTS,
    OWNER_SEES,
    Belongings,
    is_untouched,
    prepare,
)
from tests.support.tenants import TenantsRunner, make_settings

from paddock.model.errors import PaddockError
from paddock.policy.settings.rules import PolicySettings, Rule
from paddock.policy.settings.schema import RecordSettings, RuntimeSettings, VaultSettings
from paddock.surfaces.tenants import Tenant

ASKS = PolicySettings(rule=(Rule(effect="ask", runtime="*", access="workspace-write"),))


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TenantsRunner]:
    root = tmp_path_factory.mktemp("tenants")
    runtimes = RuntimeSettings(access="workspace-write", timeout_ms=600_000)
    own = {
        "record": RecordSettings(directory=root / "recordings", payloads="asked"),
        "vault": VaultSettings(directory=root / "vault", backend="file"),
    }
    settings = make_settings(root, policy=ASKS, runtimes=runtimes, serve={"max_jobs": 4}, **own)
    with TenantsRunner(root, settings) as opened:
        yield opened


@pytest.fixture(scope="module")
def own(runner: TenantsRunner) -> Belongings:
    """What alice has."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    return prepare(runner, runner.enter("alice"), port)


@pytest.fixture(scope="module")
def mallory(runner: TenantsRunner, own: Belongings) -> Tenant:
    """Another user, without the right to approve."""
    return runner.enter("mallory")


def try_it(runner: TenantsRunner, name: str, mallory: Tenant, own: Belongings) -> str:
    """Return all that an attempt shows, also in its error."""

    async def attempt() -> str:
        try:
            return repr(await ATTEMPTS[name](mallory, own))
        except (PaddockError, OSError, ValueError) as error:
            return str(error)

    return runner.run(attempt())


def test_there_are_more_than_forty_attempts() -> None:
    assert len(ATTEMPTS) >= 40


@pytest.mark.parametrize("name", ATTEMPTS)
def test_an_attempt_fails(runner: TenantsRunner, own: Belongings, mallory: Tenant, name: str) -> None:
    seen = try_it(runner, name, mallory, own)
    assert own.mark not in seen
    assert own.tenant.actor not in seen
    assert own.tenant.token.sha256 not in seen
    assert is_untouched(runner, own)


@pytest.mark.parametrize("name", OWNER_SEES)
def test_the_owner_sees_what_the_attempt_is_after(runner: TenantsRunner, own: Belongings, name: str) -> None:
    assert own.mark in try_it(runner, name, own.tenant, own)
