"""`paddock sessions`: the sessions of a running server."""

import asyncio

import click

from paddock.model.base import count
from paddock.model.errors import PaddockError
from paddock.model.limits import MIB
from paddock.model.session import NEW, OpenSessions, is_handle
from paddock.surfaces.cli import options
from paddock.surfaces.cli.failure import CommandFailure
from paddock.surfaces.cli.folding import print_note
from paddock.surfaces.cli.help import CommandGroup, render_examples
from paddock.surfaces.cli.server_options import ServerOptions, add_server_options
from paddock.surfaces.cli.table import print_json, print_table


@click.group(
    "sessions",
    cls=CommandGroup,
    epilog=render_examples(
        "paddock sessions list --server http://127.0.0.1:8700",
        "paddock sessions close s_0123456789abcdef0123456789abcdef",
    ),
)
def command() -> None:
    """List and close the sessions of a running server: those of the token's user.

    `paddock exec --session new` opens one.
    """


@command.command(
    "list",
    epilog=render_examples(
        "paddock sessions list --server http://127.0.0.1:8700", "paddock sessions list --json"
    ),
)
@add_server_options
@options.as_json
def list_sessions(server: ServerOptions, *, as_json: bool) -> None:
    """List the open sessions, the oldest first. Exit code 1 if a replica of the server did not answer."""

    async def fetch() -> OpenSessions:
        async with server.connect() as paddock:
            return await paddock.sessions()

    found = asyncio.run(fetch())
    if as_json:
        print_json([info.model_dump(mode="json") for info in found])
        _check_whole(found)
        return
    rows = [
        (
            info.id,
            info.language,
            str(info.executions),
            "running" if info.running else "idle",
            f"{info.memory_bytes // MIB} MiB",
            f"{info.expires_in_s:.0f} s",
        )
        for info in found
    ]
    print_table(
        ("session", "language", "executions", "state", "memory", "closed in"),
        rows,
        empty="no session is open; paddock exec python --session new opens one",
    )
    _check_whole(found)


def _check_whole(found: OpenSessions) -> None:
    """Raise CommandFailure for a list that lacks the sessions of some replicas."""
    if found.partial:
        names = ", ".join(found.partial)
        raise CommandFailure(f"the list is partial: {names} did not answer; list the sessions again later")


@command.command("close", epilog=render_examples("paddock sessions close s_0123456789abcdef0123456789abcdef"))
@click.argument("handles", nargs=-1, required=True, metavar="ID...")
@add_server_options
def close(handles: tuple[str, ...], server: ServerOptions) -> None:
    """Close sessions: end their processes and remove their files. Exit code 1 if one of them is not open."""
    handles = tuple(dict.fromkeys(handles))
    faults: list[str] = []

    async def close_each() -> None:
        async with server.connect() as paddock:
            for handle in handles:
                if handle == NEW or not is_handle(handle):
                    faults.append(
                        f"{handle[:64]}: not the handle of a session; paddock sessions list prints them"
                    )
                    continue
                try:
                    session = await paddock.session(id=handle)
                    await session.close()
                except PaddockError as error:
                    faults.append(f"{handle}: {error}")

    asyncio.run(close_each())
    if closed := len(handles) - len(faults):
        print_note(f"{count(closed, 'session')} closed")
    if faults:
        raise CommandFailure("\n".join(faults))
