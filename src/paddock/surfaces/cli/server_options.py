"""Options that name a running server, and what runs on it."""

import asyncio
import os
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from paddock.model.errors import ConfigurationError
from paddock.model.limits import LimitOverrides
from paddock.model.outcome import Outcome
from paddock.model.request import RuntimeRun
from paddock.model.session import NEW
from paddock.policy.settings.loader import SERVER_VARIABLE, TOKEN_VARIABLE
from paddock.surfaces.cli.folding import print_note
from paddock.surfaces.cli.signals import cancel_on_signals

if TYPE_CHECKING:
    from paddock.model.work_files import OutputFile
    from paddock.record.output.recording import OnOutput
    from paddock.surfaces.client.paddock import Paddock

_OPTIONS: tuple[Callable[[Any], Any], ...] = (
    click.option(
        "--server",
        metavar="URL",
        help=f"Address of a running `paddock serve http`. Default: {SERVER_VARIABLE}.",
    ),
    click.option(
        "--token-file",
        type=click.Path(dir_okay=False, path_type=Path),
        help=f"File of the token for the server. Default: {TOKEN_VARIABLE}.",
    ),
    click.option("--unencrypted", is_flag=True, help="Allow plain http to another machine."),
)


class ServerOptions(NamedTuple):
    """The server that options name."""

    server: str | None
    token_file: Path | None
    unencrypted: bool

    def connect(self) -> "Paddock":
        """Return a Paddock on the server. Raises ConfigurationError without a server or a token."""
        url = self.server or os.environ.get(SERVER_VARIABLE)
        if not url:
            raise ConfigurationError(
                f"sessions need a running server; start one with `paddock serve http`, and give its address by "
                f"--server or {SERVER_VARIABLE}"
            )
        from paddock.surfaces.client.paddock import Paddock  # a program on this machine does not need it
        from paddock.surfaces.http_server.endpoint import read_existing_token

        token = None if self.token_file is None else read_existing_token(self.token_file)
        return Paddock.connect(url, token=token, unencrypted=self.unencrypted)


def add_server_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options to a command; it receives them together as `server`."""

    @wraps(command)
    def call(
        *args: object, server: str | None, token_file: Path | None, unencrypted: bool, **given: object
    ) -> object:
        return command(*args, server=ServerOptions(server, token_file, unencrypted), **given)

    decorated: Callable[..., Any] = call
    for add in reversed(_OPTIONS):
        decorated = add(decorated)
    return decorated


class SessionRunner:
    """Runs one program in a session of a server, for `paddock exec --session`."""

    keeps_output = True

    def __init__(self, options: ServerOptions, work: RuntimeRun, limits: LimitOverrides) -> None:
        self._options = options
        self._work = work
        self._limits = limits

    def run(self, on_output: "OnOutput | None") -> tuple[Outcome, int]:
        """Return the outcome, and the signal that interrupted it or 0. Raises PaddockError."""
        outcome, number = asyncio.run(self._run(on_output))
        if outcome.session is not None and self._work.session == NEW and outcome.session.state == "kept":
            expires_min = round(outcome.session.expires_in_s / 60)
            print_note(f"session {outcome.session.id}, closed after {expires_min} minutes without use")
        return outcome, number

    async def _run(self, on_output: "OnOutput | None") -> tuple[Outcome, int]:
        work, stop = self._work, asyncio.Event()
        with cancel_on_signals(stop) as received:
            async with self._options.connect() as paddock:
                outcome = await paddock.exec(
                    work.runtime,
                    work.code,
                    executable=work.executable,
                    stdin=work.stdin,
                    access=work.access if "access" in work.model_fields_set else None,
                    network=list(work.hosts) if work.hosts is not None else work.network,
                    files=work.files,
                    outputs=work.outputs,
                    env=work.env,
                    session=work.session,
                    packages=work.packages,
                    combined=work.output.combined,
                    keep=work.output.persist,
                    timeout_ms=self._limits.timeout_ms,
                    memory_bytes=self._limits.memory_bytes,
                    cpu_ms=self._limits.cpu_ms,
                    on_output=on_output,
                    stop=stop,
                )
        return outcome, received[0] if received else 0

    def read_file(self, file: "OutputFile") -> bytes:
        """Return the content of a file that the server stores."""
        return file.read()

    def name_source(self, file: "OutputFile") -> str:
        """Return where a file is, for a person."""
        return f"stored on the server as {file.handle}; give --output-dir to get it"


def check_server_options(context: click.Context, session: str | None, given: ServerOptions) -> None:
    """Raise UsageError for options of `exec` that do not fit each other: those of a server, and of this machine."""
    if session is None:
        if given != ServerOptions(None, None, unencrypted=False):
            raise click.UsageError("--server, --token-file and --unencrypted are for --session.")
        return
    for name, option in (
        ("workspace", "--workspace"),
        ("flags", "--set"),
        ("cwd", "--cwd"),
        ("show", "--show"),
        ("add_dir", "--add-dir"),
    ):
        if context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE:
            raise click.UsageError(f"{option} has no meaning with --session: the server decides it.")
