"""The end of a proxy closes every connection, also one that was made at that moment."""

import asyncio
import socket

import pytest
from tests.support.network import allow, resolve_to_loopback
from tests.support.processes import PATIENCE_S

from paddock.confinement.network.connector import ProxyTerms
from paddock.confinement.network.proxy import open_proxy
from paddock.model.network import NetworkLimits
from paddock.policy.decisions.network import decide_host, narrow_hosts


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("turns", range(5))
def test_a_connection_that_was_made_at_the_end_is_closed(turns: int) -> None:
    rules = narrow_hosts([allow("granted.example")], None)

    async def main() -> bytes:
        faults: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, fault: faults.append(fault))
        listener = socket.create_server(("127.0.0.1", 0))
        terms = ProxyTerms(
            on_connection=faults.append,
            limits=NetworkLimits(),
            decide=lambda *request: decide_host(rules, *request),
            resolve=resolve_to_loopback,
        )
        async with open_proxy(listener, terms):
            await asyncio.sleep(0)  # it waits for connections
            client = socket.create_connection(listener.getsockname(), PATIENCE_S)
            for _ in range(turns):
                await asyncio.sleep(0)
        with client:
            assert faults == []
            try:
                return client.recv(1)
            except ConnectionResetError:
                return b""

    assert asyncio.run(main()) == b""
