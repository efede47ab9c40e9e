"""Connections of one job to hosts: decided, asked about, made, counted, reported."""

import asyncio
import re
import socket
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from paddock.confinement.network.dial import Dialler, DialRefusedError, Resolve, resolve_name
from paddock.confinement.network.outer_proxy import OuterProxy
from paddock.confinement.network.streams import ByteStream
from paddock.model.host_names import Authority
from paddock.model.network import VAULT_PATTERN, Connection, Header, HostDecision, HttpRequest, NetworkLimits
from paddock.model.printable import make_printable

if TYPE_CHECKING:
    from paddock.confinement.network.certificates import CertificateAuthority


class Decide(Protocol):
    """Returns the decision of policy on a port of a canonical host; with a request, on that one."""

    def __call__(self, host: str, port: int, request: HttpRequest | None = None, /) -> HostDecision: ...


Ask = Callable[[Authority, HostDecision], Coroutine[Any, Any, bool]]
"""Asks a person about a host, once for each host and port of a job, or about a request, once for each method and path;
returns whether the answer is yes. It bounds the time for the answer."""
OnConnection = Callable[[Connection], None]
"""Called with each connection at its end, and with each refused one."""

MAX_QUESTIONS = 100
"""Maximum number of hosts, ports and requests that a person is asked about for one job, which may be a session of many
runs. The gate bounds the questions of one run."""
_MAX_HOST_CHARS = 253


@dataclass(frozen=True)
class ProxyTerms:
    """What a proxy needs besides its listening socket."""

    decide: Decide
    on_connection: OnConnection
    limits: NetworkLimits = field(default_factory=NetworkLimits)
    ask: Ask | None = None
    """None if no person can be asked."""
    certificates: "CertificateAuthority | None" = None
    """What signs for the hosts whose TLS is opened; None if no rule needs it."""
    secret: Callable[[str], str | None] = lambda _name: None
    """Returns a secret of the vault by name, for header fields that are added; None if there is none."""
    resolve: Resolve = resolve_name
    outer: OuterProxy | None = None
    """The proxy that Paddock itself must use."""


class BudgetSpentError(Exception):
    """The traffic of the job has reached its limit."""


class Pace:
    """A limit on how often something happens: up to one second's number at once."""

    def __init__(self, per_second: int) -> None:
        self._interval_s = 1 / per_second
        self._next = 0.0

    async def wait(self) -> None:
        """Return when the next one may happen."""
        now = time.monotonic()
        self._next = max(self._next, now - 1) + self._interval_s
        if self._next > now:
            await asyncio.sleep(self._next - now)


class AddedHeader(NamedTuple):
    """Header fields that are added outside of the program."""

    fields: tuple[tuple[bytes, bytes], ...] = ()
    secrets: tuple[str, ...] = ()
    """The secrets in them, which must not come back."""


@dataclass
class Attempt:
    """A connection of the job from its request to its report."""

    authority: Authority
    rule: str = ""
    address: str = ""
    refusal: str = ""
    """Why policy refused it or cut it off; empty if it did not."""
    failure: str = ""
    """Why it failed; empty if it did not."""
    sent_bytes: int = 0
    received_bytes: int = 0
    started_s: float = field(default_factory=time.monotonic)

    def to_connection(self) -> Connection:
        """Return the value for the record."""
        return Connection(
            host=make_printable(self.authority.host, _MAX_HOST_CHARS),
            port=self.authority.port,
            address=self.address,
            verdict="refused" if self.refusal else "allowed",
            rule=self.rule,
            reason=self.refusal or self.failure,
            sent_bytes=self.sent_bytes,
            received_bytes=self.received_bytes,
            wall_ms=(time.monotonic() - self.started_s) * 1000,
        )


class HostConnection(ByteStream):
    """A connection to a host. Closing it reports it."""

    def __init__(
        self, connected: socket.socket, attempt: Attempt, connector: "Connector", decision: HostDecision
    ) -> None:
        super().__init__(connected, self._count_received, self._count_sent)
        self._is_reported = False
        self.attempt = attempt
        self.decision = decision
        """The decision on the host, or on the request for which it was connected."""
        self._connector = connector

    @property
    def authority(self) -> Authority:
        """The host and port that were granted."""
        return self.attempt.authority

    def _count_received(self, number: int) -> None:
        self.attempt.received_bytes += number
        self._connector.spend(number, self.attempt)

    def _count_sent(self, number: int) -> None:
        self.attempt.sent_bytes += number
        self._connector.spend(number, self.attempt)

    def close(self) -> None:
        """Close the socket and report the connection, once."""
        super().close()
        if not self._is_reported:
            self._is_reported = True
            self._connector.report(self.attempt)


class Connector:
    """Makes the connections of one job."""

    def __init__(self, terms: ProxyTerms) -> None:
        self._terms = terms
        self._dialler = Dialler(terms.resolve, terms.outer, terms.limits.connect_timeout_ms / 1000)
        self._pace = Pace(terms.limits.max_rate)
        self._left_bytes = terms.limits.max_bytes
        self._questions: dict[tuple[Authority, str], asyncio.Task[bool]] = {}

    async def connect(self, authority: Authority, request: HttpRequest | None = None) -> HostConnection:
        """Return a connection to a host that policy allows, for a `request`. Raises and reports DialRefusedError."""
        await self._pace.wait()
        attempt = Attempt(authority)
        try:
            decision = await self._decide(authority, request)
            attempt.rule = decision.rule
            connected, address = await self._dialler.connect(authority, decision.networks)
        except DialRefusedError as problem:
            attempt.rule = attempt.rule or problem.rule
            if problem.failure == "policy":
                attempt.refusal = str(problem)
            else:
                attempt.failure = str(problem)
            self.report(attempt)
            raise
        attempt.address = str(address or "")
        return HostConnection(connected, attempt, self, decision)

    @property
    def certificates(self) -> "CertificateAuthority | None":
        """What signs for the hosts whose TLS is opened."""
        return self._terms.certificates

    def fill_in(self, header: Header) -> AddedHeader:
        """Return header fields with their secrets. Raises DialRefusedError for a secret that does not exist."""
        secrets: list[str] = []

        def find(match: re.Match[str]) -> str:
            value = self._terms.secret(match[1])
            if value is None or not value.isprintable() or not value.isascii():
                what = f"the vault has no secret {match[1]} that fits into a header"
                reason = f"{what}; store it with: paddock vault set {match[1]}"
                raise DialRefusedError(reason, "policy", rule="network.rule.header")
            secrets.append(value)
            return value

        fields = [(name, VAULT_PATTERN.sub(find, value)) for name, value in header]
        return AddedHeader(tuple((name.encode(), value.encode()) for name, value in fields), tuple(secrets))

    async def check(self, authority: Authority, request: HttpRequest | None = None) -> HostDecision:
        """Return the decision on a further request over a connection. Raises DialRefusedError, which is reported."""
        attempt = Attempt(authority)
        try:
            return await self._decide(authority, request)
        except DialRefusedError as problem:
            attempt.rule, attempt.refusal = problem.rule, str(problem)
            self.report(attempt)
            raise

    async def refuse(self, authority: Authority, reason: str) -> DialRefusedError:
        """Report a request that is refused before anything is decided, and return the error for it."""
        await self._pace.wait()
        self.report(Attempt(authority, rule="request", refusal=reason))
        return DialRefusedError(reason, "invalid", rule="request")

    async def _decide(self, authority: Authority, request: HttpRequest | None) -> HostDecision:
        """Return the decision that allows a host, by a person where the rules say so. Raises DialRefusedError."""
        if self._left_bytes <= 0:
            raise DialRefusedError(self._explain_budget(), "policy", rule="network.max_bytes")
        decision = self._terms.decide(*authority, request)
        if decision.effect == "deny":
            raise DialRefusedError(decision.reason, "policy", rule=decision.rule)
        if decision.effect == "ask" and not await self._ask_person(authority, decision):
            raise DialRefusedError(
                f"{decision.reason}; the answer was no, or there was none", "policy", rule=decision.rule
            )
        return decision

    async def _ask_person(self, authority: Authority, decision: HostDecision) -> bool:
        """Return a person's answer; connections and requests that wait for the same one share it."""
        if self._terms.ask is None:
            raise DialRefusedError(
                f"{decision.reason}; no person can be asked here", "policy", rule=decision.rule
            )
        about = (authority, decision.asked_request)
        question = self._questions.get(about)
        if question is None:
            if len(self._questions) >= MAX_QUESTIONS:
                reason = f"{decision.reason}; the program has already asked {MAX_QUESTIONS} questions"
                raise DialRefusedError(reason, "policy", rule=decision.rule)
            question = asyncio.create_task(self._terms.ask(authority, decision))
            self._questions[about] = question
        return await asyncio.shield(question)

    def spend(self, number: int, attempt: Attempt) -> None:
        """Count traffic of a connection. Raises BudgetSpentError if the job has no traffic left."""
        self._left_bytes -= number
        if self._left_bytes <= 0:
            attempt.refusal = self._explain_budget()
            raise BudgetSpentError(attempt.refusal)

    def _explain_budget(self) -> str:
        most = self._terms.limits.max_bytes
        return f"the program has used its {most} bytes of network traffic; raise `max_bytes` under [network]"

    def report(self, attempt: Attempt) -> None:
        """Report a connection that has ended."""
        self._terms.on_connection(attempt.to_connection())

    async def close(self) -> None:
        """End the questions that are still open."""
        for question in self._questions.values():
            question.cancel()
        await asyncio.gather(*self._questions.values(), return_exceptions=True)
