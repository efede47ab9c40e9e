"""Try the network of programs on this machine: `paddock doctor` attacks a proxy from inside of a job."""

import asyncio
import contextlib
import json
import os
import socket
import ssl
from functools import partial
from ipaddress import IPv4Address

from paddock.confinement.network.connector import ProxyTerms
from paddock.confinement.network.outer_proxy import read_outer_proxy
from paddock.confinement.network.proxy import open_proxy
from paddock.confinement.sandbox.protocol import Streams
from paddock.confinement.sandbox.sandbox import KernelSandbox
from paddock.model.errors import ConfigurationError, EngineError
from paddock.model.network import HostGrant, NetworkRule
from paddock.model.outcome import SandboxFacts, Status
from paddock.model.process import ProcessGrants, ProcessLimits
from paddock.model.sandbox import Examination, Layer
from paddock.policy.decisions.network import decide_host

_HOST, _REBINDING, _OTHER = "granted.example", "rebinding.example", "other.example"
"""Names that nobody can register (RFC 2606)."""
_NAME = "network hosts"
_LOCAL = ("127.0.0.0/8",)


async def check_network(found: Examination, job_user: int | None) -> Layer:
    """Return whether programs can have the network `hosts` here, tried by a program that attacks its proxy."""
    tier = found.effective.tier if found.effective is not None else found.minimum
    if tier != "namespaces":
        detail = f"loopback and hosts need the tier namespaces, which gives each program its own network, not {tier}"
        return Layer(name=_NAME, available=False, detail=detail)
    try:
        read_outer_proxy(os.environ)
    except ConfigurationError as error:
        return Layer(name=_NAME, available=False, detail=str(error))
    sandbox = KernelSandbox(SandboxFacts(tier=tier), tier, job_user)
    try:
        async with sandbox:
            reached, attempts = await _attack(sandbox)
    except EngineError as error:
        return Layer(name=_NAME, available=False, detail=str(error))
    worked = [name for name, refused in attempts.items() if not refused]
    if worked:
        return Layer(name=_NAME, available=False, detail=f"the canary could {', '.join(worked)}")
    if not reached:
        return Layer(name=_NAME, available=False, detail="a host that a rule allows was not reached")
    detail = f"a granted host was reached, and {len(attempts)} attacks were refused"
    return Layer(name=_NAME, available=True, detail=detail)


async def _attack(sandbox: KernelSandbox) -> tuple[bool, dict[str, bool]]:
    """Return whether the granted host was reached, and for each attempt whether it was refused. Raises EngineError."""
    server = await asyncio.start_server(_answer, "127.0.0.1", 0)
    port = int(server.sockets[0].getsockname()[1])
    grant = HostGrant(
        rules=(
            NetworkRule(host=_HOST, effect="allow", ports=(port,), addresses=_LOCAL),
            NetworkRule(host=_REBINDING, effect="allow", ports=(port,)),
        )
    )
    terms = ProxyTerms(partial(decide_host, grant), lambda _: None, resolve=_resolve)
    ended, serving = asyncio.Event(), set[asyncio.Task[None]]()

    async def serve(proxy_socket: socket.socket) -> None:
        async with open_proxy(proxy_socket, terms):
            await ended.wait()

    def take(proxy_socket: socket.socket, _: object) -> None:
        serving.add(asyncio.create_task(serve(proxy_socket)))

    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    with contextlib.suppress(
        ssl.SSLWantReadError
    ):  # writes the first message of a client: there is no server yet
        ssl.create_default_context().wrap_bio(incoming, outgoing, server_hostname=_OTHER).do_handshake()
    facts = {
        "host": _HOST,
        "rebinding": _REBINDING,
        "other": _OTHER,
        "port": port,
        "hello": outgoing.read().hex(),
    }
    try:
        async with server:
            result = await sandbox.run(
                ["canary"],
                ProcessGrants(network="hosts"),
                ProcessLimits(timeout_ms=20_000),
                Streams(on_proxy_socket=take),
                canary=json.dumps({"network": facts}),
            )
    finally:
        ended.set()
        await asyncio.gather(*serving)
    if result.status is not Status.OK:
        raise EngineError(result.reason or result.stderr.text or "the canary could not run")
    told = json.loads(result.stdout.text)
    return told["reached"], told["attempts"]


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    if await reader.read(1):
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
    writer.close()


async def _resolve(_host: str, _port: int) -> tuple[IPv4Address]:
    return (IPv4Address("127.0.0.1"),)
