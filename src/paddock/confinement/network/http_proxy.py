"""HTTP/1.1 for the job: CONNECT, and requests of plain HTTP, which are parsed, decided and written anew.

Each request on a kept connection is decided. The connection to the host is kept, too, as long as requests are for it.
"""

import asyncio
import contextlib
from typing import TYPE_CHECKING, cast

import h11

from paddock.confinement.network.connector import AddedHeader, Connector, HostConnection
from paddock.confinement.network.dial import DialRefusedError, Failure
from paddock.confinement.network.heads import (
    HOP_BY_HOP,
    Fields,
    RequestHead,
    find_authority,
    fold_name,
    format_authority,
    is_override,
    name_target,
    read_connect_target,
    read_request_head,
)
from paddock.confinement.network.streams import (
    CHUNK_BYTES,
    MAX_HEAD_BYTES,
    BadHeadError,
    ByteStream,
    IdleTimer,
    SourceResetError,
)
from paddock.confinement.network.tunnel import open_tls, run_tunnel
from paddock.model.host_names import Authority
from paddock.model.network import HTTP_PORT, HTTPS_PORT, HostDecision, HttpRequest
from paddock.model.printable import make_printable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from paddock.confinement.network.tls import TlsHost

_STATUSES: "Mapping[Failure, int]" = {
    "policy": 403,
    "invalid": 400,
    "unresolved": 502,
    "unreachable": 502,
    "timeout": 504,
}
_MAX_PHRASE_CHARS = 500
_ESTABLISHED = b"HTTP/1.1 200 Connection established\r\n\r\n"


class HttpProxy:
    """Serves one connection of the job."""

    def __init__(
        self, client: ByteStream, connector: Connector, timer: IdleTimer, *, secure: bool = False
    ) -> None:
        """Serve requests in a TLS connection that was opened if it is `secure`."""
        self._client = client
        self._connector = connector
        self._timer = timer
        self._is_secure = secure
        self._default_port = HTTPS_PORT if secure else HTTP_PORT
        self._host: HostConnection | TlsHost | None = None
        self._granted: Authority | None = None

    async def serve(self) -> None:
        """Answer requests until the connection ends. Raises OSError, EOFError, TimeoutError, BudgetSpentError."""
        try:
            while await self._answer_request():
                self._timer.restart()
            await self._end_client()
        except BadHeadError as problem:
            await self._refuse(DialRefusedError(str(problem), "invalid"))
        except DialRefusedError as problem:
            await self._refuse(problem)
        finally:
            self._drop_host()

    async def serve_tunnel(self, host: HostConnection) -> None:
        """Answer requests in a tunnel for HTTP, or in TLS that was opened: all are for the host that was granted."""
        self._host, self._granted = host, host.authority
        await self.serve()

    async def _answer_request(self) -> bool:
        """Answer the next request; return whether another one may follow."""
        async with asyncio.timeout(self._timer.idle_s):  # bytes that come slowly do not extend it
            raw = await self._client.read_head()
        if not raw:
            return False
        head = read_request_head(raw)
        if head.method == b"CONNECT" and self._granted is None:
            try:
                authority = read_connect_target(head)
            except ValueError as problem:
                raise await self._connector.refuse(name_target(head.target), str(problem)) from None
            await self._open_tunnel(authority)
            return False
        try:
            authority, path = find_authority(head, self._granted, default_port=self._default_port)
        except ValueError as problem:
            authority = self._granted or name_target(head.target)
            raise await self._connector.refuse(authority, str(problem)) from None
        request = HttpRequest(head.method.decode("ascii"), path)
        host, decision = await self._connect(authority, request)
        try:
            added = await self._make_header(authority, decision)
        except DialRefusedError as problem:
            host.attempt.refusal = str(problem)
            raise
        return await ProxyExchange(
            self._client,
            host,
            head,
            path,
            added=added,
            is_decided=decision.inspects,
            default_port=self._default_port,
        ).run()

    async def _make_header(self, authority: Authority, decision: HostDecision) -> AddedHeader:
        """Return the header fields that a rule adds. Raises DialRefusedError if they cannot be sent."""
        if not decision.header:
            return _NOTHING_ADDED
        if not self._is_secure:
            reason = f"{authority}: the rule adds header fields, which are sent inside of TLS only; use https"
            raise DialRefusedError(reason, "policy", rule=decision.rule)
        # The vault may be in a database that hangs: other requests must not wait for it.
        return await asyncio.to_thread(self._connector.fill_in, decision.header)

    async def _open_tunnel(self, authority: Authority) -> None:
        host, decision = await self._connect(authority, None)
        assert isinstance(host, HostConnection)
        await self._client.write(_ESTABLISHED)
        if decision.inspects and authority.port != HTTP_PORT:
            await open_tls(self._client, host, self._connector, self._timer, serve_opened_tls)
        elif authority.port == HTTP_PORT:
            self._granted = authority
            while await self._answer_request():
                self._timer.restart()
        else:
            await run_tunnel(self._client, host, self._timer)

    async def _connect(
        self, authority: Authority, request: HttpRequest | None
    ) -> "tuple[HostConnection | TlsHost, HostDecision]":
        """Return the connection that is kept, if it is still usable for this host, or another one; and the decision."""
        self._timer.pause()
        decision = None
        if self._host and self._host.authority == authority and self._host.is_quiet():
            decision = await self._connector.check(authority, request)
        # While a person was asked, the host may have ended the connection.
        if decision is None or self._host is None or not self._host.is_quiet():
            self._drop_host()
            self._host = await self._connector.connect(authority, request)
            decision = self._host.decision
        if self._is_secure and isinstance(self._host, HostConnection):
            from paddock.confinement.network.tls import secure_host

            self._host = await secure_host(self._host)
        self._timer.restart()
        return self._host, decision

    def _drop_host(self) -> None:
        if self._host:
            self._host.close()
            self._host = None

    async def _refuse(self, problem: DialRefusedError) -> None:
        """Answer a refused request and end the connection.

        The body is one line of text, and so is the reason phrase: most clients show only that of a refused CONNECT.
        """
        body = f"Paddock: {make_printable(str(problem), 2000)}\n".encode()
        phrase = make_printable(str(problem), _MAX_PHRASE_CHARS).encode("ascii", "backslashreplace").decode()
        head = (
            f"HTTP/1.1 {_STATUSES[problem.failure]} Paddock: {phrase}\r\nContent-Type: text/plain; charset=utf-8\r\n"
            f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        )
        with contextlib.suppress(OSError):
            await self._client.write(head.encode("ascii") + body)
            await self._end_client()

    async def _end_client(self) -> None:
        self._drop_host()  # it is reported before the job has seen the end
        await self._client.end_gracefully(self._timer.idle_s)


class SecretWatch:
    """Looks for a secret in bytes that come in pieces."""

    def __init__(self, secret: str) -> None:
        self._secret = secret.encode()
        self._end = b""

    def sees(self, data: bytes) -> bool:
        """Return whether the secret is in what has come so far."""
        both = self._end + data
        self._end = both[-len(self._secret) + 1 :] if len(self._secret) > 1 else b""
        return self._secret in both


_NOTHING_ADDED = AddedHeader()


class ProxyExchange:
    """One request of HTTP and its response."""

    def __init__(
        self,
        client: ByteStream,
        host: "HostConnection | TlsHost",
        head: RequestHead,
        path: str,
        *,
        added: AddedHeader = _NOTHING_ADDED,
        is_decided: bool = False,
        default_port: int = HTTP_PORT,
    ) -> None:
        """Forward `head` to a path. If it `is_decided` by a rule that looks at requests, it must not name another."""
        self._added = added
        self._is_decided = is_decided
        self._default_port = default_port
        self._returned = [SecretWatch(secret) for secret in added.secrets]
        self._client = client
        self._host = host
        self._head = head
        self._path = path
        self._job_side = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEAD_BYTES)
        self._host_side = h11.Connection(h11.CLIENT, max_incomplete_event_size=MAX_HEAD_BYTES)
        self._has_answered = False
        self._is_body_copied = False

    async def run(self) -> bool:
        """Forward both; return whether both connections can be used again.

        Raises BadHeadError and DialRefusedError before the first byte of a response, and then OSError instead.
        """
        upload = asyncio.create_task(self._forward_request())
        download = asyncio.create_task(self._forward_response())
        try:
            await asyncio.wait((upload, download), return_when=asyncio.FIRST_COMPLETED)
            if upload.done():
                upload.result()
                await download
            else:
                download.result()
            is_whole = upload.done()
        except (BadHeadError, DialRefusedError, h11.LocalProtocolError) as problem:
            self._host.attempt.failure = str(problem)
            if self._has_answered or isinstance(problem, h11.LocalProtocolError):
                raise ConnectionAbortedError(str(problem)) from None
            raise
        finally:
            upload.cancel()
            download.cancel()
            await asyncio.gather(upload, download, return_exceptions=True)
        self._client.unread(self._job_side.trailing_data[0])
        is_kept = self._job_side.our_state is self._job_side.their_state is h11.DONE
        # The parser is never done with a copied body. Its own state shows whether the connection is to be kept.
        has_ended = self._is_body_copied or (
            self._host_side.their_state is h11.DONE and not self._host_side.trailing_data[0]
        )
        return is_whole and is_kept and has_ended and self._host_side.our_state is h11.DONE

    async def _forward_request(self) -> None:
        self._job_side.receive_data(self._head.raw)
        try:
            while True:
                event = self._job_side.next_event()
                match event:
                    case h11.Request():
                        await self._send(self._make_request())
                    case h11.Data():
                        await self._send(event)
                    case h11.EndOfMessage():
                        await self._send(h11.EndOfMessage())  # without trailers
                        return
                    case h11.NEED_DATA:
                        await self._receive_body()
                    case _:
                        raise EOFError
        except h11.RemoteProtocolError as problem:
            raise BadHeadError(f"the request is invalid: {problem}") from None

    def _make_request(self) -> h11.Request:
        """Return the request for the host: its own Host field first, and nothing that concerns one connection."""
        fields: Fields = [
            (b"host", format_authority(self._host.authority, self._default_port).encode("ascii"))
        ]
        replaced = {b"host", *(fold_name(name) for name, _ in self._added.fields)}
        if self._added.fields:  # a compressed answer would hide a secret that comes back
            replaced.add(b"accept-encoding")
            fields += [(b"accept-encoding", b"identity"), *self._added.fields]
        fields += [each for each in self._head.fields if not self._is_dropped(each[0], HOP_BY_HOP | replaced)]
        if self._head.find(b"transfer-encoding") is not None:
            fields.append((b"transfer-encoding", b"chunked"))
        return h11.Request(method=self._head.method, target=self._path, headers=fields)

    def _is_dropped(self, name: bytes, dropped: frozenset[bytes]) -> bool:
        folded = fold_name(name)
        if folded == b"content-length":
            return name != folded
        return folded in dropped or (self._is_decided and is_override(folded))

    async def _send(self, event: h11.Request | h11.Data | h11.EndOfMessage) -> None:
        data = self._host_side.send(event)
        if data:
            # A host may answer and close before it has read the body: its response is what counts.
            with contextlib.suppress(OSError):
                await self._host.write(data)

    async def _receive_body(self) -> None:
        if self._job_side.they_are_waiting_for_100_continue:
            proceed = h11.InformationalResponse(status_code=100, headers=[])
            await self._client.write(self._job_side.send(proceed) or b"")
        data = await self._client.read()
        if not data:
            raise EOFError
        self._job_side.receive_data(data)

    async def _forward_response(self) -> None:
        try:
            while True:
                event = self._host_side.next_event()
                match event:
                    case h11.NEED_DATA:
                        self._host_side.receive_data(await self._receive_response())
                    case h11.Response():
                        await self._answer(self._make_response(event))
                        if await self._copy_long_body(event):
                            return
                    case h11.Data():
                        await self._answer(event)
                    case h11.EndOfMessage():
                        await self._answer(h11.EndOfMessage())
                        return
                    case h11.InformationalResponse():
                        pass
                    case _:
                        return
        except h11.RemoteProtocolError as problem:
            message = f"{self._host.authority} does not answer in HTTP/1.1: {problem}"
            raise DialRefusedError(message, "unreachable") from None

    async def _copy_long_body(self, response: h11.Response) -> bool:
        """Copy a long body past both parsers if its length is known and nothing looks at it; return whether it was."""
        received, _ = self._host_side.trailing_data
        number = self._find_body_length(response)
        left = number - len(received)
        if left < CHUNK_BYTES or not isinstance(self._host, HostConnection):
            return False
        try:
            await self._client.write(received)
            await self._host.copy_exactly(self._client, left, splices=True)
        except SourceResetError:
            raise self._explain_cut("reset") from None
        except EOFError:
            raise self._explain_cut("ended") from None
        # The parser takes anything with a length for a body that was sent without it (sendfile(2)).
        self._job_side.send_with_data_passthrough(h11.Data(data=cast("bytes", range(number))))
        self._job_side.send(h11.EndOfMessage())
        self._is_body_copied = True
        return True

    def _find_body_length(self, response: h11.Response) -> int:
        """Return the length of a body that its head gives (RFC 9112, 6.3); 0 if there is no body, or another end."""
        header = dict(response.headers)
        has_none = self._head.method == b"HEAD" or response.status_code in (204, 304)
        return 0 if has_none or b"transfer-encoding" in header else int(header.get(b"content-length", 0))

    def _explain_cut(self, what: str) -> DialRefusedError:
        message = f"{self._host.authority} {what} the connection before the end of its answer"
        return DialRefusedError(message, "unreachable")

    async def _receive_response(self) -> bytes:
        try:
            return await self._host.read()
        except ConnectionResetError:
            raise self._explain_cut("reset") from None

    def _make_response(self, response: h11.Response) -> h11.Response:
        dropped = HOP_BY_HOP
        if any(name == b"transfer-encoding" for name, _ in response.headers):
            dropped |= {b"content-length"}  # it is not the length then (RFC 9112, 6.3)
        fields = [each for each in response.headers.raw_items() if each[0].lower() not in dropped]
        return h11.Response(status_code=response.status_code, headers=fields, reason=response.reason)

    def _check_secrets(self, data: bytes) -> None:
        """Raise DialRefusedError if the host sends an added secret back."""
        if sum(watch.sees(data) for watch in self._returned):  # each of them must see everything
            reason = f"{self._host.authority} sent back a secret that was added to the request; the answer was cut off"
            self._host.attempt.refusal = reason
            raise DialRefusedError(reason, "policy")

    async def _answer(self, event: h11.Response | h11.Data | h11.EndOfMessage) -> None:
        if isinstance(event, h11.Response):
            fields = [part for field in event.headers.raw_items() for part in field]
            self._check_secrets(b"\n".join([*fields, event.reason]))
        elif isinstance(event, h11.Data):
            self._check_secrets(event.data)
        data = self._job_side.send(event)
        self._has_answered = True
        if data:
            await self._client.write(data)


async def serve_opened_tls(
    plain: ByteStream, host: HostConnection, connector: Connector, timer: IdleTimer
) -> None:
    """Answer the requests in TLS that was opened: see `HttpProxy.serve_tunnel`."""
    await HttpProxy(plain, connector, timer, secure=True).serve_tunnel(host)
