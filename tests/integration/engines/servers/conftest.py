import os
import threading

import pytest
from tests.support.servers import make_command

from paddock.engines.servers.calls.hub import Hub
from paddock.engines.servers.calls.session import RawSession
from paddock.engines.servers.config import StdioServer
from paddock.policy.decisions.environment import child_environment

from . import authority


@pytest.fixture
def odd():
    """Make the configuration of a server that misbehaves on request."""

    def make(name="odd", *flags, **options):
        command, *rest = make_command("odd", *flags)
        return StdioServer(name, command, tuple(rest), **options)

    return make


@pytest.fixture
def hub():
    """Make a hub over some servers with the environment that Paddock gives to children."""

    def make(*servers, **options):
        by_name = {server.name: server for server in servers}
        return Hub(by_name, environment=child_environment(os.environ), **options)

    return make


@pytest.fixture
def given_up(monkeypatch):
    """Give up the probe of a server at once, and with ordinary patience what is asked after the handshake was tried."""
    limit, tried, shake_hands = (
        "mcp.client.session.DISCOVER_TIMEOUT_SECONDS",
        threading.Event(),
        RawSession._shake_hands,
    )

    async def shaking(session):
        monkeypatch.setattr(limit, 10.0)
        tried.set()
        await shake_hands(session)

    monkeypatch.setattr(limit, 0.01)
    monkeypatch.setattr(RawSession, "_shake_hands", shaking)
    return tried


@pytest.fixture
def world():
    """Run a server that wants a login, and its authorization server."""
    with authority.world() as running:
        yield running


@pytest.fixture
def logins(tmp_path):
    return authority.kept(tmp_path)


def text(result):
    return result.raw["content"][0]["text"]


async def failure(awaitable, kind):
    with pytest.raises(kind) as caught:
        await awaitable
    assert type(caught.value) is kind
    return caught.value
