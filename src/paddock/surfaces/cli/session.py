"""What the commands need of a session, and how they get one."""

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from importlib import import_module
from pathlib import Path
from typing import Protocol, cast

import click

from paddock.model.base import Json
from paddock.model.outcome import ConsoleLine, Outcome
from paddock.model.request import ExecutionRequest
from paddock.model.settings import Settings

OnConsole = Callable[[ConsoleLine], None]


class Gate(Protocol):
    """The one path to execution; cancelling the task cancels the work."""

    async def execute(self, request: ExecutionRequest, *, on_console: OnConsole | None = None) -> Outcome:
        """Return what became of a request; `on_console` sees each console line at once."""
        ...


class Tool(Protocol):
    """A tool of an upstream server."""

    @property
    def name(self) -> str:
        """Name within its server."""
        ...

    @property
    def description(self) -> str:
        """What the server says about it."""
        ...

    @property
    def input_schema(self) -> Mapping[str, Json]:
        """JSON Schema of its arguments."""
        ...


class ServerFile(Protocol):
    """What `.mcp.json` says."""

    @property
    def servers(self) -> Mapping[str, object]:
        """The servers by name."""
        ...

    @property
    def warnings(self) -> Sequence[str]:
        """What was wrong with the file."""
        ...


class Hub(Protocol):
    """The upstream servers of a session."""

    @property
    def config(self) -> ServerFile:
        """The servers that are configured."""
        ...

    async def tools(self, server: str) -> Sequence[Tool]:
        """Return the tools of a server, starting it if need be."""
        ...


class Session(Protocol):
    """Everything that belongs to one run of the command line."""

    @property
    def gate(self) -> Gate:
        """The way to run something."""
        ...

    @property
    def hub(self) -> Hub:
        """The upstream servers, read from their file at the first use."""
        ...


class Opener(Protocol):
    """Makes sessions."""

    def __call__(
        self, settings: Settings, workspace: Path, *, actor: str, surface: str
    ) -> AbstractAsyncContextManager[Session]:
        """Return a session to enter."""
        ...


def open_session(settings: Settings, workspace: Path) -> AbstractAsyncContextManager[Session]:
    """Return a session of the person at the command line; tests pass an opener as the context's object."""
    opener = click.get_current_context().obj or import_module("paddock.wiring").open_session
    return cast("Opener", opener)(settings, workspace, actor=actor(), surface="cli")


def actor() -> str:
    """Return who is at the command line: the user's name, or `uid N` when it has none."""
    import pwd  # noqa: PLC0415 - only here

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return f"uid {os.getuid()}"
