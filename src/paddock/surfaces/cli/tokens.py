"""`paddock serve token`: make, list and revoke the tokens of a server that many users share."""

import re
import time
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from pydantic import ValidationError

from paddock.model.base import Json
from paddock.model.errors import ConfigurationError
from paddock.policy.settings.loader import load
from paddock.policy.settings.serve import MAX_RATE, NAME_RULE
from paddock.policy.settings.units import read_duration_ms
from paddock.surfaces.cli import options
from paddock.surfaces.cli.failure import CommandFailure
from paddock.surfaces.cli.help import CommandGroup, render_examples
from paddock.surfaces.cli.signals import run_until_signal
from paddock.surfaces.cli.table import print_json, print_table

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from paddock.policy.settings.schema import Settings
    from paddock.policy.settings.serve import ServeToken
    from paddock.surfaces.tenants.token_file import StoredToken
    from paddock.surfaces.tenants.token_store import TokenStore

_RATE_PATTERN = re.compile(r"([0-9]{1,9})(?:/min)?", re.ASCII)
_MAX_EXPIRY = timedelta(days=36_500)


def _parse_rate(_context: click.Context, parameter: click.Parameter, text: str | None) -> int | None:
    """Return the requests per minute of `60/min` or `60`."""
    if text is None:
        return None
    found = _RATE_PATTERN.fullmatch(text)
    if found is None or not 1 <= int(found[1]) <= MAX_RATE:
        raise click.BadParameter(f"{text!r} is not N/min, with N from 1 to {MAX_RATE}", param=parameter)
    return int(found[1])


def _parse_expiry(_context: click.Context, parameter: click.Parameter, text: str | None) -> timedelta | None:
    if text is None:
        return None
    try:
        age = timedelta(milliseconds=read_duration_ms(text))
    except (ValueError, OverflowError):
        age = timedelta()
    if not timedelta() < age <= _MAX_EXPIRY:
        raise click.BadParameter(
            f"{text!r} is not a time such as 12h or 30d, of up to {_MAX_EXPIRY.days} days", param=parameter
        )
    return age


@click.group(
    "token",
    cls=CommandGroup,
    epilog=render_examples(
        "paddock serve token new alice",
        "paddock serve token new ci --policy runtimes.network=none --max-jobs 2 --rate 60/min --expires 30d",
        "paddock serve token list",
        "paddock serve token revoke alice",
    ),
)
def command() -> None:
    """Make, list and revoke the tokens of a server. Each token is for one user.

    A running server notices a change within a second.
    """


@command.command(
    "new",
    epilog=render_examples(
        "paddock serve token new alice",
        "paddock serve token new alice-laptop --actor alice --expires 30d",
        "paddock serve token new ci --policy runtimes.network=none --max-jobs 2 --rate 60/min",
        "paddock serve token new reviewer --approve",
        "paddock serve token new prometheus --metrics-only",
    ),
)
@click.argument("name")
@click.option("--actor", metavar="USER", help="User of the token. Default: NAME.")
@options.add_pairs_option("--policy", help="Setting that holds for this token. It can only narrow.")
@click.option(
    "--max-jobs", type=click.IntRange(1), help="Maximum number of requests that run at the same time."
)
@click.option("--max-sessions", type=click.IntRange(1), help="Maximum number of open interpreter sessions.")
@click.option(
    "--rate", metavar="N/min", callback=_parse_rate, help="Maximum number of requests in any 60 seconds."
)
@click.option(
    "--metrics-only", "scope", flag_value="metrics", help="Let the token read `/metrics`, and nothing else."
)
@click.option("--approve", is_flag=True, help="Let the token list and answer the questions of other users.")
@click.option(
    "--expires",
    metavar="DURATION",
    callback=_parse_expiry,
    help="Time after which the token is refused, e.g. 30d.",
)
@options.workspace
@options.settings
@options.as_json
def new(
    name: str,
    *,
    expires: timedelta | None,
    workspace: Path,
    flags: dict[str, str],
    as_json: bool,
    **fields: Any,  # noqa: ANN401 - the other fields of the token
) -> None:
    """Make a token and print it, once. Paddock keeps only its hash."""
    from paddock.surfaces.tenants.narrowing import narrow_settings
    from paddock.surfaces.tenants.token_file import StoredToken
    from paddock.surfaces.tenants.tokens import hash_token, make_token

    settings = load(workspace, flags=flags).settings
    created = datetime.fromtimestamp(int(time.time()), UTC)
    token = make_token()
    given = {key: value for key, value in fields.items() if value}
    if expires is not None:
        given["expires"] = created + expires
    try:
        entry = StoredToken(name=name, sha256=hash_token(token), created=created, **given)
    except ValidationError as problem:
        wrong = problem.errors(include_url=False)[0]["loc"][0]
        raise CommandFailure(f"the {wrong} of a token is {NAME_RULE}", exit_code=2) from None
    if any(each.name == name for each in settings.serve.token):
        raise CommandFailure(f"the settings have a token {name} already; choose another name")
    narrow_settings(settings, entry)

    async def add() -> None:
        async with _open_tokens(settings) as tokens:
            await tokens.add(entry)

    run_until_signal(add())
    if as_json:
        print_json({**_describe(entry, "stored"), "token": token})
    else:
        click.echo(f"token of {entry.actor_name}, shown only now: {token}")


@command.command(
    "list", epilog=render_examples("paddock serve token list", "paddock serve token list --json")
)
@options.workspace
@options.settings
@options.as_json
def list_(*, workspace: Path, flags: dict[str, str], as_json: bool) -> None:
    """List the tokens, without the tokens themselves and without their hashes."""
    from paddock.surfaces.tenants.narrowing import narrow_settings

    settings = load(workspace, flags=flags).settings

    async def read() -> "tuple[StoredToken, ...]":
        async with _open_tokens(settings) as tokens:
            return await tokens.read()

    found: list[dict[str, Json]] = []
    for source, tokens in (("settings", settings.serve.token), ("stored", run_until_signal(read()))):
        for entry in tokens:
            described = _describe(entry, source)
            try:
                narrow_settings(settings, entry)
            except ConfigurationError as problem:
                described |= {"state": "refused", "reason": str(problem)}
            if entry.expires is not None and entry.expires.timestamp() <= time.time():
                described["state"] = "expired"
            found.append(described)
    if as_json:
        print_json(found)
        return
    print_table(
        ("name", "actor", "state", "limits", "expires", "from"),
        [
            (
                each["name"],
                each["actor"],
                each["state"],
                _summarize_limits(each),
                each["expires"] or "never",
                each["from"],
            )
            for each in found
        ],
        empty="there are no tokens; make one: paddock serve token new NAME",
    )


@command.command("revoke", epilog=render_examples("paddock serve token revoke alice"))
@click.argument("name")
@options.workspace
@options.settings
@options.as_json
def revoke(name: str, *, workspace: Path, flags: dict[str, str], as_json: bool) -> None:
    """Revoke a token. A running server ends what runs under it. Exit code: 1 if there was none."""
    settings = load(workspace, flags=flags).settings

    async def remove() -> bool:
        async with _open_tokens(settings) as tokens:
            return await tokens.remove(name)

    revoked = run_until_signal(remove())
    if as_json:
        print_json({"name": name, "revoked": revoked})
    if revoked:
        return
    if any(each.name == name for each in settings.serve.token):
        raise CommandFailure(
            f"the token {name} is in the settings; remove its [[serve.token]] from the file that `paddock config show` "
            "names, and restart the server"
        )
    raise CommandFailure(f"there is no token {name!r}; paddock serve token list shows those that there are")


@asynccontextmanager
async def _open_tokens(settings: "Settings") -> "AsyncGenerator[TokenStore]":
    """Yield the tokens of the servers on this machine; or of all machines that share a database."""
    from paddock.surfaces.tenants.token_store import FileTokens, open_shared_tokens

    if settings.cluster.url is not None:
        from paddock.cluster.database import Database
        from paddock.cluster.migrate import check_tables

        async with Database(settings.cluster.url, name="paddock token") as database:
            await check_tables(database)
            yield open_shared_tokens(database, settings.cluster)
        return
    from paddock.surfaces.tenants.token_file import TokenFile

    yield FileTokens(TokenFile(settings.serve.directory))


def _describe(entry: "ServeToken", source: str) -> dict[str, Json]:
    facts = entry.model_dump(mode="json", exclude={"sha256"})
    return {**facts, "actor": entry.actor_name, "state": "valid", "from": source}


def _summarize_limits(described: dict[str, Json]) -> str:
    limits = [
        f"{label} {described[key]}"
        for key, label in (("max_jobs", "jobs"), ("max_sessions", "sessions"), ("rate", "requests/min"))
        if described[key] is not None
    ]
    rights = ["may approve"] if described["approve"] else []
    rights += ["metrics only"] if described["scope"] == "metrics" else []
    policy = ["policy"] if described["policy"] else []
    refused = [described["reason"]] if "reason" in described else []
    return ", ".join([*limits, *rights, *policy, *refused])
