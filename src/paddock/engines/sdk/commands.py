"""Commands of this machine that the settings offer to programs: find, confine and run them, and parse their output."""

import asyncio
import shutil
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from paddock.foundation.files import SYSTEM_FOLDERS
from paddock.model.base import Json
from paddock.model.errors import SdkError, SdkFailed
from paddock.model.json_meter import MAX_VALUES, holds_more
from paddock.model.nesting import MAX_DEPTH, is_deeper
from paddock.model.numbers import loads
from paddock.model.outcome import Status
from paddock.model.program import signal_name
from paddock.policy.settings.commands import SdkCommand

if TYPE_CHECKING:
    from paddock.confinement.sandbox.protocol import HostProxy, Sandbox
    from paddock.model.process import ProcessGrants, ProcessResult

_MAX_ERROR_CHARS = 2_000
_ERROR_NAME = "CommandError"

Secret = Callable[[str], str | None]
"""Returns a secret of the vault by name, or None; registers it for redaction."""
Connect = Callable[[], "HostProxy"]
"""Makes what serves the connections of a command to the hosts that the rules allow."""


class Commands:
    """The commands of one session."""

    def __init__(
        self,
        commands: tuple[SdkCommand, ...],
        environ: Mapping[str, str],
        sandbox: "Callable[[], Awaitable[Sandbox]]",
        secret: Secret,
    ) -> None:
        self._commands = {command.name: command for command in commands}
        self._environ = environ
        self._sandbox = sandbox
        self._secret = secret

    def __contains__(self, name: str) -> bool:
        return name in self._commands

    async def run_command(
        self, name: str, given: Mapping[str, Json], workspace: Path, connect: "Connect"
    ) -> Json:
        """Run a command and return its output; `connect` makes what serves its connections to hosts.

        Cancelling the task ends it first.

        Raises SdkError for invalid values, and SdkFailed if it failed or could not start.
        """
        command = self._commands[name]
        try:
            argv, stdin = command.fill_template(given)
        except ValueError as problem:
            raise SdkError(f"paddock.{name}: {problem}") from None
        argv[0], grants = await asyncio.to_thread(self._prepare_program, command, workspace)
        hosts = connect() if command.network == "hosts" else None
        result = await self._run_process(command, argv, stdin, grants, hosts)
        if result.status is not Status.OK:
            raise SdkFailed(f"paddock.{name}: {_explain_end(result)}", result.status, _ERROR_NAME)
        stdout = result.stdout.head + result.stdout.tail
        if command.output == "text":
            return stdout
        if holds_more(stdout.encode("utf-8", "replace"), MAX_VALUES):
            message = f"paddock.{name}: its output has more than {MAX_VALUES} values; print less at once"
            raise SdkFailed(message, Status.FAILED, _ERROR_NAME)
        try:
            value = loads(stdout)
        except (ValueError, RecursionError):
            message = f"paddock.{name}: its output is not JSON: {stdout[:80]!r}"
            raise SdkFailed(message, Status.FAILED, _ERROR_NAME) from None
        if is_deeper(value, MAX_DEPTH):
            message = f"paddock.{name}: its output is nested more than {MAX_DEPTH} levels deep"
            raise SdkFailed(message, Status.FAILED, _ERROR_NAME)
        return value

    async def _run_process(
        self,
        command: SdkCommand,
        argv: list[str],
        stdin: bytes,
        grants: "ProcessGrants",
        hosts: "HostProxy | None",
    ) -> "ProcessResult":
        from paddock.confinement.sandbox.protocol import Streams, open_hosts
        from paddock.model.process import ProcessLimits

        limits = ProcessLimits(
            timeout_ms=command.timeout_ms,
            cpu_ms=command.timeout_ms * 2,
            stdout_bytes=command.output_bytes,
            kept_bytes=command.output_bytes,
        )
        sandbox = await self._sandbox()
        slot = await sandbox.take_slot(grants, limits)
        try:
            async with open_hosts(hosts, slot.scratch) as (proxies, on_proxy_socket):
                grants = grants.replace(environment={**grants.environment, **proxies})
                streams = Streams(stdin, on_proxy_socket=on_proxy_socket)
                return await sandbox.run(argv, grants, limits, streams, slot=slot)
        finally:
            slot.release()

    def _prepare_program(self, command: SdkCommand, workspace: Path) -> "tuple[str, ProcessGrants]":
        from paddock.model.process import ProcessGrants

        program = self._find_program(command, workspace)
        workspace = workspace.absolute()
        readable = {Path(path) for path in command.readable} | {program, program.resolve()}
        grants = ProcessGrants(
            workspace=workspace if command.access != "none" else None,
            access=command.access,
            network=command.network,
            readable=tuple(
                path
                for path in sorted(readable)
                if not any(path.is_relative_to(place) for place in SYSTEM_FOLDERS)
            ),
            environment=self._make_environment(command),
        )
        return str(program), grants

    def _find_program(self, command: SdkCommand, workspace: Path) -> Path:
        name = command.command[0]
        found = shutil.which(name, path=self._environ.get("PATH"))
        if found is None:
            raise _not_started(
                f"paddock.{command.name} needs {name}, which is not installed; install it, or set its path "
                "in `command` under [[sdk.commands]]"
            )
        path = Path(found).absolute()
        inside = workspace.resolve()
        if path.is_relative_to(inside) or path.resolve().is_relative_to(inside):
            raise _not_started(
                f"paddock.{command.name}: {name} is in the workspace, whose files are untrusted; "
                "set the path of another under [[sdk.commands]]"
            )
        return path

    def _make_environment(self, command: SdkCommand) -> dict[str, str]:
        given = {name: self._environ[name] for name in command.environment if name in self._environ}
        for variable, name in command.secrets.items():
            value = self._secret(name)
            if value is None:
                what = f"paddock.{command.name} needs the secret {name}, which does not exist"
                raise _not_started(f"{what}; store it with: paddock vault set {name}")
            given[variable] = value
        return given


def _not_started(why: str) -> SdkFailed:
    return SdkFailed(why, Status.UNAVAILABLE, _ERROR_NAME)


def _explain_end(result: "ProcessResult") -> str:
    """Return why a command failed, with the end of its output."""
    printed = (result.stderr.head + result.stderr.tail).strip()[-_MAX_ERROR_CHARS:]
    tail = f": {printed}" if printed else ""
    if result.limit is not None:
        return f"it exceeded its limit ({result.limit}){tail}"
    if result.exit_code is not None:
        return f"it ended with exit code {result.exit_code}{tail}"
    if result.signal is not None:
        return f"it was ended by {signal_name(result.signal)}{tail}"
    return result.reason or result.status.value
