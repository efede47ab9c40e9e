"""`paddock webhook`: addresses that receive messages about events (docs/sdk.md)."""

import asyncio
from pathlib import Path
from typing import get_args

import click

from paddock.engines.sdk.webhooks import Event
from paddock.model.base import Json
from paddock.model.request import ExecutionRequest, SdkCall
from paddock.policy.settings.loader import load
from paddock.surfaces.cli import options
from paddock.surfaces.cli.failure import CommandFailure
from paddock.surfaces.cli.help import CommandGroup, render_examples
from paddock.surfaces.cli.opening import find_actor
from paddock.surfaces.cli.run_request import carry_out, value_of
from paddock.surfaces.cli.table import print_json, print_table
from paddock.surfaces.cli.vault import ask_secret


@click.group(
    "webhook",
    cls=CommandGroup,
    epilog=render_examples(
        "paddock webhook register script.finished https://hooks.example.org/paddock --vault hook-secret",
        "paddock webhook list",
    ),
)
def command() -> None:
    """List, register, test and delete webhooks, which receive signed messages about events."""


@command.command("list", epilog=render_examples("paddock webhook list", "paddock webhook list --json"))
@options.workspace
@options.settings
@options.as_json
def list_(*, workspace: Path, flags: dict[str, str], as_json: bool) -> None:
    """List the webhooks, without secrets."""
    found = _call_method(workspace, flags, "list")
    if as_json:
        print_json(found)
    else:
        rows = [(each["id"], each["event"], each["url"]) for each in found]
        print_table(
            ("id", "event", "url"),
            rows,
            empty="there are no webhooks; register one: paddock webhook register EVENT URL",
        )


@command.command(
    "register",
    epilog=render_examples(
        "paddock webhook register script.finished https://hooks.example.org/paddock",
        "paddock webhook register notification https://hooks.example.org/paddock --vault hook-secret --json",
        "openssl rand -hex 32 | paddock webhook register signal.captured https://hooks.example.org/paddock",
    ),
)
@click.argument("event", type=click.Choice(get_args(Event)))
@click.argument("url")
@click.option(
    "--vault",
    "name",
    metavar="NAME",
    help="Secret of the vault (scope `global`) that messages are signed with.",
)
@options.workspace
@options.settings
@options.as_json
def register(
    event: str, url: str, *, name: str | None, workspace: Path, flags: dict[str, str], as_json: bool
) -> None:
    """Register a webhook and print its id.

    Without --vault the command asks for the signing secret, or reads it from standard input, and stores it in the
    vault. It is never an argument.
    """
    secret = {"vault": name} if name is not None else ask_secret("Secret that messages are signed with")
    made = _call_method(workspace, flags, "register", event, url, secret)
    if as_json:
        print_json(made)
    else:
        click.echo(made["id"])


@command.command("test", epilog=render_examples("paddock webhook test 01jd3w0zv6n4yq1r2x5t7b8c9d"))
@click.argument("id_", metavar="ID")
@options.workspace
@options.settings
@options.as_json
def test(id_: str, *, workspace: Path, flags: dict[str, str], as_json: bool) -> None:
    """Send the message `webhook.test` to a webhook. Exit code: 1 if it does not arrive."""
    found = _call_method(workspace, flags, "test", id_)
    if as_json:
        print_json(found)
    else:
        click.echo(
            f"answered {found['status']}" + (f" at try {found['tries']}" if found["tries"] > 1 else "")
        )


@command.command("delete", epilog=render_examples("paddock webhook delete 01jd3w0zv6n4yq1r2x5t7b8c9d"))
@click.argument("id_", metavar="ID")
@options.workspace
@options.settings
@options.as_json
def delete(id_: str, *, workspace: Path, flags: dict[str, str], as_json: bool) -> None:
    """Delete a webhook, and its secret unless --vault named it. Exit code: 1 if there was none."""
    deleted = _call_method(workspace, flags, "delete", id_)
    if as_json:
        print_json({"id": id_, "deleted": deleted})
    if not deleted:
        raise CommandFailure(f"there is no webhook {id_}; paddock webhook list shows them")


def _call_method(workspace: Path, flags: dict[str, str], method: str, *arguments: Json) -> Json:
    """Return the result of `paddock.webhook.METHOD`, under policy and recorded; a failure ends the command."""
    work = SdkCall(method=f"webhook.{method}", arguments=arguments)
    request = ExecutionRequest(actor=find_actor(), surface="cli", workspace=workspace, work=work)
    ended = asyncio.run(carry_out(request, load(workspace, flags=flags).settings))
    try:
        return value_of(*ended)
    except CommandFailure as problem:  # its text is for scripts, which call a method
        message = problem.message.removeprefix(f"paddock.webhook.{method}: ")
        message = message.replace("paddock.webhook.list()", "paddock webhook list")
        raise CommandFailure(message, exit_code=problem.exit_code) from None
