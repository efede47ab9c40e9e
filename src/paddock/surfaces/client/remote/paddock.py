"""`Paddock` on a server: each method sends one request to the HTTP API."""

import asyncio
import os
import re
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack, suppress
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, Self
from urllib.parse import quote

import httpx2

from paddock.confinement.network.http_transport import read_url_authority
from paddock.model.base import Json
from paddock.model.errors import (
    ChangesNotFound,
    ConfigurationError,
    PaddockError,
    RequestError,
    UnknownArtifact,
)
from paddock.model.limits import Calls, Grants, LimitOverrides
from paddock.model.outcome import Outcome
from paddock.model.request import ChangeSetRun, Check, Work
from paddock.model.session import OpenSessions
from paddock.policy.settings.loader import TOKEN_VARIABLE
from paddock.surfaces.client.arguments import (
    check_listeners,
    check_type,
    make_value,
    read_object,
    read_whole_number,
)
from paddock.surfaces.client.paddock import OPEN_IT, Paddock
from paddock.surfaces.client.remote.answers import MAX_FILE_BYTES, make_answer, read_json
from paddock.surfaces.client.remote.connection import ApiConnection
from paddock.surfaces.client.remote.execution import Listeners, RemoteExecution, make_body
from paddock.surfaces.client.remote.sessions import RemoteSessions
from paddock.surfaces.client.requests import LoopOrigin, choose_language

if TYPE_CHECKING:
    from paddock.model.outcome import OnConsole
    from paddock.policy.redaction.outgoing import OnCall
    from paddock.policy.settings.schema import Settings
    from paddock.record.output.recording import OnOutput
    from paddock.surfaces.client.requests import RunningPaddock

_MAX_URL_CHARS = 2000
_TOKEN_PATTERN = re.compile(r"[!-~]{1,4096}", re.ASCII)


def read_address(url: str, *, unencrypted: bool) -> httpx2.URL:
    """Return the address of a server, without a slash at its end.

    Plain http is for servers on this machine; `unencrypted` allows it for others. Raises ConfigurationError, which does
    not repeat an address with a password.
    """
    try:
        address = httpx2.URL(url)
    except (httpx2.InvalidURL, TypeError, UnicodeError):
        raise ConfigurationError("this is not the address of a server; give http(s)://HOST:PORT") from None
    if address.userinfo:
        raise ConfigurationError(
            f"the address of the server has a user or a password; give the token in {TOKEN_VARIABLE} instead"
        )
    shown = url[:200]
    if address.scheme not in ("http", "https") or not address.host or len(url) > _MAX_URL_CHARS:
        raise ConfigurationError(f"{shown!r} is not the address of a server; give http(s)://HOST:PORT")
    try:
        read_url_authority(address)
    except httpx2.InvalidURL as error:
        raise ConfigurationError(f"{shown!r} is not the address of a server: {error}") from None
    if address.query or address.fragment:
        raise ConfigurationError(f"the address {shown!r} has a query or a fragment; leave it out")
    is_local = address.host == "localhost"
    with suppress(ValueError):  # a name
        is_local = is_local or ip_address(address.host).is_loopback
    if address.scheme == "http" and not (unencrypted or is_local):
        raise ConfigurationError(
            f"the token would cross the network to {address.host} unencrypted; give an address with https. If the "
            "network is trusted, pass unencrypted=True (on the command line: --unencrypted)"
        )
    return address.copy_with(path=address.path.rstrip("/"))


def read_token(token: str | None, environment: Mapping[str, str] = os.environ) -> str:
    """Return the token, by default that of PADDOCK_TOKEN. Raises ConfigurationError, which does not contain it."""
    given = token if token is not None else environment.get(TOKEN_VARIABLE, "")
    if not given:
        raise ConfigurationError(
            f"there is no token for the server; set {TOKEN_VARIABLE}, or pass `token`. "
            "`paddock serve token new NAME` makes one on the server"
        )
    if not isinstance(given, str) or not _TOKEN_PATTERN.fullmatch(given):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigurationError(
            "the token for the server is not valid: it has spaces, line ends or other characters than ASCII; "
            "copy it again"
        )
    return given


_NO_LIMITS = LimitOverrides()
_NO_LISTENERS = Listeners()


class RemotePaddock(Paddock):
    """Sends the requests of `Paddock` to a server; `Paddock.connect` makes one.

    Arguments are checked here as they are without a server. What needs a session of this process raises PaddockError:
    the API does not offer it.
    """

    def __init__(self, url: str, *, token: str | None, unencrypted: bool) -> None:
        self._connection = ApiConnection(read_address(url, unencrypted=unencrypted), read_token(token))
        self._origin: LoopOrigin | None = None
        self._executions: set[RemoteExecution] = set()
        self._connected = AsyncExitStack()

    async def __aenter__(self) -> Self:
        await self._connected.enter_async_context(self._connection)
        self._origin = LoopOrigin()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Cancel what runs, and end the connection."""
        self._origin = None
        await asyncio.gather(*(execution.cancel() for execution in self._executions))
        await self._connected.aclose()

    @property
    def settings(self) -> "Settings":
        """Raise PaddockError: the settings are the server's."""
        _refuse("its settings")

    @property
    def warnings(self) -> tuple[str, ...]:
        """Nothing: no file was read."""
        return ()

    async def run(
        self,
        script: str,
        *,
        vars: Mapping[str, str] | None = None,
        input: Json = None,
        timeout_ms: int | None = None,
        jit: bool = False,
        check: Check | None = None,
        on_console: "OnConsole | None" = None,
    ) -> Outcome:
        """Raise PaddockError: the API has no saved scripts."""
        _refuse("saved scripts: send the text of a program with `execute`")

    async def sessions(self) -> OpenSessions:
        return await self._find_sessions().list_open()

    def _find_sessions(self) -> RemoteSessions:
        return RemoteSessions(self._require_connection, self)

    def _find_program(self, code: str | None, file: Path | str | None) -> Path | None:
        if file is not None:
            raise RequestError(
                "the HTTP API has no `file`: give its text as `code`, and the files beside it as `files`"
            )
        return super()._find_program(code, file)

    def _check_language(self, language: str | None, alias: str | None) -> str:
        return choose_language(language, alias)  # the server knows which there are

    def _attach_readers(self, outcome: Outcome) -> Outcome:
        for file in outcome.files:
            if file.handle is not None:
                path = f"/v1/artifacts/{quote(file.handle, safe='')}"
                file.attach_reader(partial(self._connection.read_now, path, MAX_FILE_BYTES, UnknownArtifact))
        return outcome

    def _add_tool(self, function: Callable[..., Any], **options: Any) -> None:  # noqa: ANN401 - of `add_function`
        _refuse("functions of this process as tools")

    async def _run_script_tool(
        self, name: str, inputs: Mapping[str, Json] | None, timeout_ms: int | None
    ) -> Outcome:
        body = {"kind": "tool", "tool": name, "inputs": read_object(inputs, "inputs")}
        timeout = read_whole_number("timeout_ms", timeout_ms)
        return await self._execute_body(body if timeout is None else {**body, "timeout_ms": timeout})

    async def _settle_changes(self, work: ChangeSetRun) -> Outcome:
        connection, path = self._require_connection(), f"/v1/changes/{work.id}/{work.action}"
        body = None if work.action == "discard" else {"paths": list(work.paths), "merge": work.merge}
        answer = await connection.send("POST", path, body=body, absence=ChangesNotFound)
        return make_answer(Outcome, await read_json(answer))

    async def _execute_work(
        self,
        work: Work,
        limits: LimitOverrides = _NO_LIMITS,
        *,
        calls: Calls = "run",
        jit: bool = False,
        on_console: "OnConsole | None" = None,
        on_output: "OnOutput | None" = None,
        on_call: "OnCall | None" = None,
        stop: asyncio.Event | None = None,
    ) -> Outcome:
        asked = make_value(Grants, {"jit": jit, "calls": calls})
        body = make_body(work, limits, asked.calls, jit=asked.jit)
        return await self._execute_body(body, Listeners(on_console, on_output, on_call), stop)

    async def _execute_body(
        self,
        body: Mapping[str, Json],
        listeners: Listeners = _NO_LISTENERS,
        stop: asyncio.Event | None = None,
    ) -> Outcome:
        check_listeners(**listeners._asdict())
        check_type(stop, (asyncio.Event, type(None)), "stop", "an asyncio.Event")
        execution = RemoteExecution(self._require_connection(), body, listeners)
        self._executions.add(execution)
        try:
            return await execution.run(stop)
        finally:
            self._executions.discard(execution)

    def _require_connection(self) -> ApiConnection:
        if self._origin is None:
            raise RuntimeError(OPEN_IT)
        self._origin.check_caller()
        return self._connection

    def _require_running(self) -> "RunningPaddock":
        """Raise PaddockError for a method that needs a session of this process."""
        _refuse("this method")


def _refuse(what: str) -> NoReturn:
    raise PaddockError(
        f"The HTTP API does not offer {what}. It needs a `Paddock()` on the machine of the server."
    )
