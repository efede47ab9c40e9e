"""`paddock cluster`: the database that several machines share."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import click

from paddock.model.base import count
from paddock.model.printable import make_printable
from paddock.policy.settings.loader import load, user_file
from paddock.surfaces.cli import options
from paddock.surfaces.cli.failure import CommandFailure
from paddock.surfaces.cli.help import CommandGroup, render_examples
from paddock.surfaces.cli.table import print_json, print_table

if TYPE_CHECKING:
    from paddock.cluster.restore import RestorePlan
    from paddock.cluster.status import ClusterStatus, RunStatus, State
    from paddock.policy.settings.schema import Settings

_STATES = ("started", "finished", "lost", "fenced")
_REPORTS_S = 30.0
"""Maximum time for the reports of the replicas that run, in seconds."""


@click.group(
    "cluster",
    cls=CommandGroup,
    epilog=render_examples(
        "paddock cluster migrate",
        "paddock cluster status",
        "paddock cluster runs --state lost",
        "paddock cluster reseal",
        "paddock cluster accept-restore --dry-run",
        "paddock cluster key /etc/paddock/checkpoint.pem",
    ),
)
def command() -> None:
    """Prepare the database that several machines share (`cluster.url`), and show its state."""


@command.command(
    "migrate", epilog=render_examples("paddock cluster migrate", "paddock cluster migrate --contract")
)
@click.option(
    "--contract",
    "contracts",
    is_flag=True,
    help="Remove what only older versions need. Refused while a replica runs one of them.",
)
@options.workspace
@options.settings
@options.as_json
def migrate(*, contracts: bool, workspace: Path, flags: dict[str, str], as_json: bool) -> None:
    """Make the tables, or extend them for this version. Run it once before the replicas start.

    Replicas of the version before can use the tables until `--contract`.
    """
    from paddock.cluster.contract import contract
    from paddock.cluster.database import Database
    from paddock.cluster.migrate import migrate as extend

    async def run() -> list[str]:
        async with Database(
            find_url(load(workspace, flags=flags).settings), name="paddock migrate"
        ) as database:
            applied = await (contract if contracts else extend)(database)
            return [each.name for each in applied]

    names = asyncio.run(run())
    if as_json:
        print_json({"applied": names})
    else:
        click.echo("\n".join(f"applied {name}" for name in names) or "the tables are up to date")


@command.command(
    "key",
    epilog=render_examples(
        "paddock cluster key /etc/paddock/checkpoint.pem",
        "paddock cluster key --show /etc/paddock/checkpoint.pem",
    ),
)
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--show", is_flag=True, help="Print the public key of an existing file.")
@options.workspace
@options.settings
@options.as_json
def key(file: Path, *, show: bool, workspace: Path, flags: dict[str, str], as_json: bool) -> None:
    """Make the key that signs checkpoints of the record, in FILE, and print its public key.

    Give FILE to replicas as `cluster.checkpoint_key_file`, and the public key to everybody who verifies the record:
    `paddock audit verify --cluster --key KEY`.
    """
    from paddock.cluster.signed_note import SigningKey

    name = load(workspace, flags=flags).settings.cluster.name
    public = str((SigningKey.read if show else SigningKey.make)(file, name).public)
    if as_json:
        print_json({"file": str(file), "key": public})
    else:
        click.echo(public)


@command.command("reseal", epilog=render_examples("paddock cluster reseal"))
@options.workspace
@options.settings
@options.as_json
def reseal(*, workspace: Path, flags: dict[str, str], as_json: bool) -> None:
    """Seal tokens and other rows of the database with the first key of cluster.key_file.

    Run it after a new key became the first one on every machine, and before the old key is removed. Exit code: 1 if a
    row has no valid seal.
    """
    from paddock.cluster.database import Database
    from paddock.cluster.migrate import check_tables
    from paddock.cluster.seals import Resealed, open_seals, reseal_rows

    settings = load(workspace, flags=flags).settings
    url = find_url(settings)
    if settings.cluster.key_file is None:
        raise CommandFailure("cluster.key_file is not set, so rows have no seal; set it as on the replicas")
    seals = open_seals(settings.cluster)

    async def run() -> Resealed:
        async with Database(url, name="paddock reseal") as database:
            await check_tables(database)
            return await reseal_rows(database, seals)

    found = asyncio.run(run())
    if as_json:
        print_json({"sealed": found.sealed, "refused": found.refused})
    else:
        click.echo(f"{count(found.sealed, 'row')} sealed with the first key")
    if found.refused:
        names = ", ".join(make_printable(each) for each in found.refused)
        raise CommandFailure(
            f"no key of cluster.key_file sealed these rows, so no replica accepts them: {names}; remove a token with: "
            "paddock serve token revoke NAME, and another row from the table kept"
        )


@command.command(
    "accept-restore",
    epilog=render_examples(
        "paddock cluster accept-restore --dry-run",
        "paddock cluster accept-restore",
        "paddock cluster accept-restore --without replica-3",
    ),
)
@click.option("--dry-run", is_flag=True, help="Print what would be done, and change nothing.")
@click.option(
    "--without",
    metavar="NODE",
    multiple=True,
    help="Replica that will not come back. Keys that it ran since the backup could start again. Can be repeated.",
)
@click.option(
    "--unnoticed", is_flag=True, help="Treat the database as restored, although no replica has found that."
)
@options.workspace
@options.settings
@options.as_json
def accept_restore(
    *,
    dry_run: bool,
    without: tuple[str, ...],
    unnoticed: bool,
    workspace: Path,
    flags: dict[str, str],
    as_json: bool,
) -> None:
    """Accept a database that was restored from a backup: requests with effects may start again.

    Each replica that runs enters the keys and revocations that its ledger knows first. Requests that were running
    become lost. Then the database gets a new generation. Exit code: 1 if a replica has not reported, or none has found
    that the database was restored.
    """
    from paddock.cluster.database import Database
    from paddock.cluster.generation import mark_restored
    from paddock.cluster.migrate import check_tables
    from paddock.cluster.restore import accept_restore as accept
    from paddock.cluster.restore import await_reports, read_plan
    from paddock.cluster.seals import open_seals

    settings = load(workspace, flags=flags).settings
    seals = open_seals(settings.cluster)

    async def run() -> "RestorePlan":
        async with Database(find_url(settings), name="paddock accept-restore") as database:
            await check_tables(database)
            plan = await read_plan(database, seals)
            if plan.fence is None and not unnoticed:
                raise CommandFailure(
                    f"no replica has found that the database was restored: it has generation {plan.generation}; "
                    "if you restored it, start the replicas and run this again; if none of them kept its ledger, run: "
                    "paddock cluster accept-restore --unnoticed"
                )
            if dry_run:
                return plan
            if plan.fence is None:
                await mark_restored(database, plan.generation, "an operator said so")
            await await_reports(database, _REPORTS_S)
            return await accept(database, seals, await read_plan(database, seals), without)

    plan = asyncio.run(run())
    if as_json:
        print_json({"accepted": not dry_run, **plan.model_dump(mode="json")})
        return
    lists = (
        ("reported", plan.reported),
        ("silent", plan.silent),
        ("tokens", plan.tokens),
        ("tokens that were revoked, and are removed", plan.removed_tokens),
        ("tokens without a valid seal", plan.damaged_tokens),
    )
    click.echo(
        f"generation: {plan.generation}, then {plan.next}\nrestored: {make_printable(plan.why or 'not noticed')}"
    )
    for title, names in lists:
        click.echo(f"{title}: {', '.join(map(make_printable, names)) or 'none'}")
    click.echo(f"keys that ran since the backup: {plan.keys}\nrequests that become lost: {plan.running}")
    click.echo("nothing was changed" if dry_run else f"accepted: the database has generation {plan.next}")


@command.command("status", epilog=render_examples("paddock cluster status", "paddock cluster status --json"))
@options.workspace
@options.settings
@options.as_json
def status(*, workspace: Path, flags: dict[str, str], as_json: bool) -> None:
    """Show the replicas, their versions and leases, and the state of requests.

    It also shows which contract steps of the tables may be applied. Exit code: 1 if the tables lack something.
    """
    from paddock.cluster.database import Database
    from paddock.cluster.status import read_status

    async def run() -> "ClusterStatus":
        async with Database(
            find_url(load(workspace, flags=flags).settings), name="paddock status"
        ) as database:
            return await read_status(database)

    found = asyncio.run(run())
    if as_json:
        print_json(found.model_dump(mode="json"))
    elif not found.missing:
        print_table(
            ("node", "state", "version", "running", "last seen", "url"),
            [
                (
                    *(each.id, each.state, each.version or "-", str(each.running)),
                    *(f"{each.seen:%Y-%m-%d %H:%M:%S%z}", each.url or "-"),
                )
                for each in found.nodes
            ],
            empty="no replica has used this database yet",
        )
        runs = ", ".join(f"{number} {state}" for state, number in found.runs.items()) or "none"
        checkpoint = "none" if found.checkpoint is None else str(found.checkpoint)
        click.echo(f"requests: {runs}\nshipped records: {found.records}\nlast checkpoint: {checkpoint}")
        if found.waits_for:
            click.echo(
                f"contract steps: {', '.join(found.contracts)}; waits for older replicas: {', '.join(found.waits_for)}"
            )
        elif found.contracts:
            click.echo(
                f"contract steps: {', '.join(found.contracts)}; no replica runs an older version: "
                "paddock cluster migrate --contract"
            )
        if found.restored is not None:
            click.echo(
                f"restored: {make_printable(found.restored)}; run: paddock cluster accept-restore --dry-run"
            )
    if found.missing:
        raise CommandFailure(f"the tables lack {', '.join(found.missing)}; run: paddock cluster migrate")


@command.command(
    "runs", epilog=render_examples("paddock cluster runs --state lost", "paddock cluster runs --json")
)
@click.option("--state", type=click.Choice(_STATES), help="Only requests in this state. Default: all.")
@click.option(
    "--limit",
    type=click.IntRange(1, 10_000),
    default=100,
    show_default=True,
    help="Maximum number of requests, the newest first.",
)
@options.workspace
@options.settings
@options.as_json
def runs(*, state: "State | None", limit: int, workspace: Path, flags: dict[str, str], as_json: bool) -> None:
    """List requests with effects that replicas claimed in the last 24 hours, and lost ones of the last 30 days."""
    from paddock.cluster.database import Database
    from paddock.cluster.migrate import check_tables
    from paddock.cluster.status import read_runs

    async def run() -> "list[RunStatus]":
        async with Database(find_url(load(workspace, flags=flags).settings), name="paddock runs") as database:
            await check_tables(database)
            return await read_runs(database, state, limit)

    found = asyncio.run(run())
    if as_json:
        print_json([each.model_dump(mode="json") for each in found])
        return
    print_table(
        ("started", "state", "status", "node", "caller", "request", "key"),
        [
            (
                f"{each.started:%Y-%m-%d %H:%M:%S%z}",
                *(each.state, each.status or "-", each.node or "-", each.tenant, each.request),
                "-" if each.key == each.request else each.key,
            )
            for each in found
        ],
        empty="no such request",
    )


def find_url(settings: "Settings") -> str:
    """Return the address of the database. Raises Failure without one."""
    if settings.cluster.url is None:
        raise CommandFailure(
            "cluster.url is not set, so this command has no database; set it in /etc/paddock/paddock.toml or "
            f"{user_file()}, and check it with: paddock config show"
        )
    return settings.cluster.url
