"""Requests to one server: bounded answers, no redirects, and repeated requests where that is safe.

Problem documents of the server (RFC 9457) become exceptions of the library.
"""

import asyncio
import json
import random
from collections.abc import AsyncGenerator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import NamedTuple, NoReturn, Self, TypeVar, cast

import httpx2

from paddock._version import __version__
from paddock.confinement.network.http_transport import ProxyTransport, describe_cause, find_failed_proxy
from paddock.model.base import Json
from paddock.model.errors import ConfigurationError, PaddockError, RequestError
from paddock.model.limits import MIB
from paddock.model.numbers import dumps
from paddock.model.printable import make_printable
from paddock.surfaces.client.remote.answers import MAX_JSON_BYTES, read_json

T = TypeVar("T")

MAX_ATTEMPTS = 6
"""Maximum number of times that a request is sent."""
MAX_WAIT_S = 30.0
"""Maximum time between two attempts, in seconds. A server that wants a longer one gets no further attempt."""
ANSWER_S = 600.0
"""Maximum time for an answer that is no stream of events, in seconds: the server may wait for a running program."""
SILENCE_S = 60.0
"""Maximum time without a byte of a stream of events, in seconds. The server sends one every 15 seconds."""
_CONNECT_S = 10.0
_FIRST_WAIT_S = 0.25
_EVENT_STREAM = "text/event-stream"
MAX_PROBLEM_BYTES = 256 * 1024
"""Maximum size of a problem document that is read, in bytes. A larger one is reported by its status."""
_PREFIX = "urn:paddock:problem:"
_MAX_DETAIL_LINES, _MAX_LINE_CHARS = 20, 1000
_REQUEST_STATUSES = frozenset({400, 413, 415, 422})
_RETRIED_STATUSES = frozenset({429, 502, 503, 504})
"""Statuses after which the same request may succeed: too many requests, and a server or proxy that is not ready."""
_NOT_CARRIED_OUT = "not-carried-out"
_OUTCOME_UNKNOWN = "outcome-unknown"


class ServerProblem(NamedTuple):
    """An answer that is not a success."""

    status: int
    name: str
    """Type of the problem, such as `session-lost`; empty if the answer is no problem document."""
    detail: str
    """What the server says, in printable lines; empty if it says nothing."""

    @property
    def is_absence(self) -> bool:
        """Whether there is no such session, file or artifact, or no longer."""
        return self.status in (404, 410)

    @property
    def may_pass(self) -> bool:
        """Whether the same request may succeed later."""
        return self.status in _RETRIED_STATUSES

    def make_error(self, server: str) -> PaddockError:
        """Return the exception for it; `server` is the address, for the text."""
        detail = self.detail or f"it answered with the status {self.status} and no explanation."
        if self.status == 401:
            return ConfigurationError(f"{server} does not accept the token: {detail}")
        if self.status in _REQUEST_STATUSES and self.name not in ("", _NOT_CARRIED_OUT):
            return RequestError(detail)
        return PaddockError(f"{server}: {detail}")


class TryAgain(Exception):
    """An attempt failed for a reason that may pass."""

    def __init__(
        self, error: PaddockError, *, reached: bool, after_s: float | None = None, unknown: bool = False
    ) -> None:
        """`error` is raised after the last attempt, `reached` says whether the server may have got the request.

        `unknown` says that the request may have started, which no later attempt makes untrue.
        """
        super().__init__()
        self.error = error
        self.reached = reached
        self.after_s = after_s
        self.unknown = unknown


class ApiConnection:
    """The API of one server, for the holder of a token."""

    def __init__(self, address: httpx2.URL, token: str) -> None:
        self.server = str(address)
        self._address = address
        self._token = token
        self._client: httpx2.AsyncClient | None = None

    async def __aenter__(self) -> Self:
        self._client = httpx2.AsyncClient(
            headers={
                "Authorization": f"Bearer {self._token}",
                "Accept-Encoding": "identity",
                "User-Agent": f"paddock/{__version__}",
            },
            timeout=httpx2.Timeout(SILENCE_S, connect=_CONNECT_S, pool=None),
            transport=self._open_transport(),
            follow_redirects=False,
        )
        return self

    def _open_transport(self) -> httpx2.AsyncBaseTransport:
        limits = httpx2.Limits(max_connections=None, max_keepalive_connections=8)
        if self._address.scheme == "https":
            return ProxyTransport(self._address, limits)
        return httpx2.AsyncHTTPTransport(trust_env=False, limits=limits)  # a proxy would see the token

    async def __aexit__(self, *_: object) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    async def send(
        self,
        method: str,
        path: str,
        *,
        body: Json = None,
        max_bytes: int = MAX_JSON_BYTES,
        absence: type[Exception] | None = None,
    ) -> bytes:
        """Send a request, with `body` as JSON unless it is None, and return the body of the answer.

        A GET is repeated if necessary. Raises PaddockError; `absence` with the server's explanation for 404 and 410.
        """
        content = None if body is None else encode_json(body)
        headers = {} if content is None else {"Content-Type": "application/json"}

        async def attempt() -> bytes:
            async with self._open(
                method, path, content=content, headers=headers, absence=absence, read_s=ANSWER_S
            ) as response:
                return await _read_bounded(response, max_bytes, self.server)

        try:
            async with asyncio.timeout(ANSWER_S):
                return await repeat(attempt, safe=method == "GET")
        except TimeoutError:
            raise PaddockError(f"{self.server} did not answer within {ANSWER_S:.0f} seconds.") from None

    async def fetch_json(self, path: str, *, absence: type[Exception] | None = None) -> Json:
        """Return the JSON at a path. Raises PaddockError, and `absence` as `send`."""
        return await read_json(await self.send("GET", path, absence=absence))

    def read_now(self, path: str, max_bytes: int, absence: type[Exception]) -> bytes:
        """Return the content at a path. It blocks, also callers on an event loop, and works after the end.

        Raises as `send`.
        """

        async def read() -> bytes:
            async with ApiConnection(self._address, self._token) as own:
                return await own.send("GET", path, max_bytes=max_bytes, absence=absence)

        with ThreadPoolExecutor(1) as thread:
            return thread.submit(asyncio.run, read()).result()

    @asynccontextmanager
    async def stream(
        self, path: str, content: bytes, key: str
    ) -> AsyncGenerator[AsyncGenerator[tuple[str, bytes]]]:
        """Send a request with an `Idempotency-Key`; yield the events of the answer, as names with data.

        Raises TryAgain if the stream breaks off.
        """
        headers = {
            "Accept": _EVENT_STREAM,
            "Content-Type": "application/json",
            "Idempotency-Key": key,
        }
        async with self._open("POST", path, content=content, headers=headers) as response:
            yield self._read_events(response)

    async def _read_events(self, response: httpx2.Response) -> AsyncGenerator[tuple[str, bytes]]:
        response.encoding = "utf-8"  # whatever the server says
        if response.headers.get("content-type", "").partition(";")[0].strip().lower() != _EVENT_STREAM:
            raise PaddockError(
                f"{self.server} did not answer with events. Is this the address of `paddock serve http`?"
            )
        try:
            async for event in httpx2.EventSource(response, MAX_JSON_BYTES):
                yield event.event, event.data.encode("utf-8", "replace")
        except httpx2.SSEError:
            raise PaddockError(
                f"{self.server} sent an event of more than {MAX_JSON_BYTES // MIB} MiB."
            ) from None

    @asynccontextmanager
    async def _open(
        self,
        method: str,
        path: str,
        *,
        content: bytes | None = None,
        headers: dict[str, str] | None = None,
        absence: type[Exception] | None = None,
        read_s: float = SILENCE_S,
    ) -> AsyncGenerator[httpx2.Response]:
        """Send a request and yield the answer, whose status is a success and whose body is not read yet."""
        if self._client is None:
            raise PaddockError("this Paddock was closed during the request; the server may still run it")
        url = self._address.copy_with(raw_path=self._address.raw_path.rstrip(b"/") + path.encode("ascii"))
        timeout = httpx2.Timeout(SILENCE_S, connect=_CONNECT_S, read=read_s, pool=None)
        request = self._client.build_request(method, url, content=content, headers=headers, timeout=timeout)
        try:
            response = await self._client.send(request, stream=True)
            try:
                await self._check_status(response, absence)
                yield response
            finally:
                await response.aclose()
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.ProxyError) as error:
            why, remedy = describe_cause(error), "Is `paddock serve http` running there?"
            if self._address.scheme == "https" and (proxy := find_failed_proxy(url, error)) is not None:
                why, remedy = proxy.explain_failure(why), f"{proxy.remedy}."
            text = f"cannot connect to {self.server}: {why}. {remedy}"
            raise TryAgain(PaddockError(text), reached=False) from None
        except httpx2.HTTPError as error:
            text = f"the connection to {self.server} broke off: {describe_cause(error)}"
            raise TryAgain(PaddockError(text), reached=True) from None

    async def _check_status(self, response: httpx2.Response, absence: type[Exception] | None) -> None:
        if response.headers.get("content-encoding", "identity").lower() != "identity":
            raise PaddockError(f"{self.server} sent a compressed answer, which was not asked for.")
        if response.is_success:
            return
        if response.has_redirect_location:
            raise PaddockError(
                f"{self.server} redirects to another address, to which the token is not sent. "
                "Connect to the final address."
            )
        try:
            body = await _read_bounded(response, MAX_PROBLEM_BYTES, self.server)
        except PaddockError:
            body = b""
        problem = read_problem(response.status_code, body, self._token)
        if absence is not None and problem.is_absence:
            raise absence(problem.detail)
        self._raise(problem, response.headers.get("retry-after", ""))

    def raise_problem(self, document: Json) -> NoReturn:
        """Raise the exception for a problem document in a stream of events, or TryAgain."""
        self._raise(make_problem(document, self._token))

    def _raise(self, problem: ServerProblem, retry_after: str = "") -> NoReturn:
        error = problem.make_error(self.server)
        if problem.may_pass:
            after_s = float(retry_after) if retry_after.isascii() and retry_after.isdecimal() else None
            raise TryAgain(error, reached=True, after_s=after_s, unknown=problem.name == _OUTCOME_UNKNOWN)
        raise error


def encode_json(body: Json) -> bytes:
    """Return the body of a request."""
    return dumps(body, separators=(",", ":")).encode("utf-8", "surrogatepass")


async def repeat(attempt: Callable[[], Awaitable[T]], *, safe: bool) -> T:
    """Return what an attempt returns; make further ones after TryAgain if a second one is safe.

    A server that was never reached is not waited for.
    """
    reached = False
    unknown: PaddockError | None = None
    for number in range(MAX_ATTEMPTS):
        try:
            return await attempt()
        except TryAgain as again:
            reached = reached or again.reached
            unknown = again.error if again.unknown else unknown
            wait_s = again.after_s if again.after_s is not None else _FIRST_WAIT_S * 2**number
            if not (safe and reached) or number == MAX_ATTEMPTS - 1 or wait_s > MAX_WAIT_S:
                raise unknown or again.error from None
        await asyncio.sleep(wait_s * random.uniform(1, 1.25))  # noqa: S311 - so that clients do not come together
    raise AssertionError


async def _read_bounded(response: httpx2.Response, max_bytes: int, server: str) -> bytes:
    body = bytearray()
    async for piece in response.aiter_raw():
        body += piece
        if len(body) > max_bytes:
            raise PaddockError(f"{server} sent an answer of more than {max_bytes // 1024} KiB.")
    return bytes(body)


def read_problem(status: int, body: bytes, token: str) -> ServerProblem:
    """Return the problem of an answer with this status. A body that is no problem document is left out."""
    try:
        value: Json = json.loads(body)
    except (ValueError, RecursionError):
        value = None
    return make_problem(value, token, status)


def make_problem(value: Json, token: str, status: int = 0) -> ServerProblem:
    """Return the problem in a JSON value; `status` is that of the answer, or 0 for the status in the document."""
    document = cast("dict[str, Json]", value) if isinstance(value, dict) else {}
    name, detail, own_status = (document.get(each) for each in ("type", "detail", "status"))
    if not status:
        status = own_status if isinstance(own_status, int) else 500
    return ServerProblem(
        status,
        name.removeprefix(_PREFIX)[:64] if isinstance(name, str) and name.startswith(_PREFIX) else "",
        hide_token(detail, token) if isinstance(detail, str) else "",
    )


def hide_token(text: str, token: str) -> str:
    """Return a server's text as printable lines without the token, which a server could repeat."""
    lines = text.replace(token, "[REDACTED:token]").split("\n", _MAX_DETAIL_LINES)
    return "\n".join(make_printable(line, _MAX_LINE_CHARS) for line in lines[:_MAX_DETAIL_LINES])
