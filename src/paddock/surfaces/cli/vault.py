"""`paddock vault`: secrets that scripts may read by name."""

import sys
from pathlib import Path

import click

from paddock.engines.secrets.names import VALUE_BYTES
from paddock.engines.secrets.vault import Vault, open_cluster_vault, open_vault
from paddock.model.base import count
from paddock.policy.settings.loader import load
from paddock.surfaces.cli import options
from paddock.surfaces.cli.failure import CommandFailure
from paddock.surfaces.cli.help import CommandGroup, render_examples
from paddock.surfaces.cli.table import print_json, print_table

_scope = click.option("--scope", default="global", show_default=True, help="Set of secrets to use.")


@click.group(
    "vault",
    cls=CommandGroup,
    epilog=render_examples(
        "paddock vault set github-token",
        "pass show github | paddock vault set github-token --scope work",
        "paddock vault list --scope work",
        "paddock vault rotate",
    ),
)
def command() -> None:
    """Keep secrets for scripts, in the system's keyring, in an encrypted file, or in a shared database.

    A script reads one with paddock.vault.get(NAME). Paddock removes its value from all output.
    """


@command.command(
    "set", epilog=render_examples("paddock vault set github-token", "paddock vault set key < key.pem")
)
@click.argument("name")
@_scope
@options.workspace
@options.settings
@options.as_json
def set_(name: str, *, scope: str, workspace: Path, flags: dict[str, str], as_json: bool) -> None:
    """Store a secret. The command asks for the value or reads it from standard input; it is never an argument."""
    _open_vault(workspace, flags).set(scope, name, ask_secret(f"Value of {name}"))
    if as_json:
        print_json({"scope": scope, "name": name})


@command.command(
    "list", epilog=render_examples("paddock vault list", "paddock vault list --scope work --json")
)
@_scope
@options.workspace
@options.settings
@options.as_json
def list_(*, scope: str, workspace: Path, flags: dict[str, str], as_json: bool) -> None:
    """List the names in a scope, without values."""
    names = _open_vault(workspace, flags).names(scope)
    if as_json:
        print_json({"scope": scope, "names": names})
    else:
        print_table(
            ("name",),
            [(name,) for name in names],
            empty="there are no secrets in this scope; store one: paddock vault set NAME",
        )


@command.command("delete", epilog=render_examples("paddock vault delete github-token --scope work"))
@click.argument("name")
@_scope
@options.workspace
@options.settings
@options.as_json
def delete(name: str, *, scope: str, workspace: Path, flags: dict[str, str], as_json: bool) -> None:
    """Remove a secret. Exit code: 1 if there was none."""
    deleted = _open_vault(workspace, flags).delete(scope, name)
    if as_json:
        print_json({"scope": scope, "name": name, "deleted": deleted})
    if not deleted:
        raise CommandFailure(
            f"there is no secret {name} in the scope {scope}; paddock vault list shows the names"
        )


@command.command("rotate", epilog=render_examples("paddock vault rotate"))
@options.workspace
@options.settings
@options.as_json
def rotate(*, workspace: Path, flags: dict[str, str], as_json: bool) -> None:
    """Encrypt the secrets in the shared database with the first key of vault.key_file.

    Run it after a new key was added above the old one on every machine. Then remove the old one.
    """
    settings = load(workspace, flags=flags).settings
    rotated = open_cluster_vault(settings.vault, settings.cluster.url).rotate()
    if as_json:
        print_json({"rotated": rotated})
    else:
        click.echo(f"{count(rotated, 'secret')} encrypted anew")


def ask_secret(question: str) -> str:
    """Return a secret that a person types invisibly, twice, or that is piped in."""
    if sys.stdin.isatty():
        typed: str = click.prompt(question, hide_input=True, confirmation_prompt=True, err=True)
        return typed
    data = sys.stdin.buffer.read(VALUE_BYTES + 3)
    if len(data) > VALUE_BYTES + len("\r\n"):
        raise CommandFailure(f"a secret has 1 to {VALUE_BYTES} bytes, but standard input has more")
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise CommandFailure(
            "the value on standard input is not UTF-8 text; encode it, for example with base64"
        ) from None
    return text.removesuffix("\n").removesuffix("\r")  # most programs append a newline


def _open_vault(workspace: Path, flags: dict[str, str]) -> Vault:
    settings = load(workspace, flags=flags).settings
    return open_vault(settings.vault, url=settings.cluster.url)
