"""`paddock packages`: environments with packages that programs have used, and new ones."""

import asyncio
import time
from datetime import UTC, datetime
from pathlib import Path

import click
from pydantic import ValidationError

from paddock.engines.packages.interface import on_progress
from paddock.engines.packages.store import Store, StoreEntry
from paddock.model.base import Json, count
from paddock.model.limits import MIB
from paddock.model.outcome import Status
from paddock.model.request import ExecutionRequest, RuntimeRun
from paddock.model.requirements import INSTALLERS
from paddock.policy.settings.loader import load
from paddock.policy.settings.packages import PackageSettings
from paddock.surfaces.cli import options
from paddock.surfaces.cli.exec import EXIT_DENIED
from paddock.surfaces.cli.failure import CommandFailure
from paddock.surfaces.cli.folding import print_note
from paddock.surfaces.cli.help import CommandGroup, render_examples
from paddock.surfaces.cli.opening import find_actor
from paddock.surfaces.cli.program_options import explain_request
from paddock.surfaces.cli.run_request import EXIT_SIGNAL_BASE, carry_out
from paddock.surfaces.cli.table import print_json, print_lines, print_table
from paddock.surfaces.rendering.program_response import list_notes

_SHOWN_KEY_CHARS = 12
_MAX_NAMED = 6
_PROGRAMS = {"python": "pass", "node": "0", "typescript": "0"}
"""A program of each language that does nothing: with its packages it goes through the gate as any other."""


@click.group(
    "packages",
    cls=CommandGroup,
    epilog=render_examples(
        "paddock packages list",
        "paddock packages add 'pandas>=2' matplotlib",
        "paddock packages add --language node left-pad@^1",
        "paddock packages gc",
    ),
)
def command() -> None:
    """Manage the environments with packages for programs, which `paddock exec --package` makes and uses."""


@command.command("list", epilog=render_examples("paddock packages list", "paddock packages list --json"))
@options.workspace
@options.settings
@options.as_json
def list_environments(workspace: Path, flags: dict[str, str], *, as_json: bool) -> None:
    """List the environments, the most recently used first."""
    entries = _find_store(load(workspace, flags=flags).settings.packages).list_entries()
    if as_json:
        print_json([_describe(entry) for entry in entries])
        return
    rows: list[tuple[str, ...]] = []
    for entry in entries:
        packages = entry.manifest.packages
        more = f" and {len(packages) - _MAX_NAMED} more" if len(packages) > _MAX_NAMED else ""
        size = f"{entry.manifest.size_bytes / MIB:.1f} MiB"
        used, named = _format_time(entry.used_at), " ".join(packages[:_MAX_NAMED]) + more
        rows.append((entry.key[:_SHOWN_KEY_CHARS], entry.manifest.language, size, used, named))
    print_table(("key", "language", "size", "last used", "packages"), rows)


@command.command(
    "add",
    epilog=render_examples(
        "paddock packages add 'pandas>=2' matplotlib",
        "paddock packages add --language node left-pad@^1 --json",
    ),
)
@click.argument("requirements", nargs=-1, required=True, metavar="SPEC...")
@click.option(
    "--language",
    type=click.Choice([*INSTALLERS]),
    default="python",
    show_default=True,
    help="Language of the packages.",
)
@click.option("--upgrade", is_flag=True, help="Resolve the versions again.")
@options.workspace
@options.settings
@options.as_json
def add(
    requirements: tuple[str, ...],
    language: str,
    workspace: Path,
    flags: dict[str, str],
    *,
    upgrade: bool,
    as_json: bool,
) -> None:
    """Make an environment with packages, for programs that ask for the same SPECs.

    It may connect to the hosts of the registries (packages.network). Exit codes: 1 if it failed, 126 if policy denied
    it.
    """
    settings = load(workspace, flags=flags).settings
    store = _open_store(settings.packages)
    try:
        work = RuntimeRun(runtime=language, code=_PROGRAMS[language], packages=requirements)
        request = ExecutionRequest(actor=find_actor(), surface="cli", workspace=workspace, work=work)
    except ValidationError as problem:
        raise click.UsageError(explain_request(problem)) from None
    if upgrade:
        store.forget(language, requirements)
    if not as_json:
        on_progress.set(print_note)
    began = time.monotonic()
    outcome, number = asyncio.run(carry_out(request, settings, on_output=None, stop=asyncio.Event()))
    assert outcome is not None
    if number and outcome.status is Status.CANCELLED:
        raise CommandFailure("interrupted; nothing was installed", exit_code=EXIT_SIGNAL_BASE + number)
    program = outcome.program
    if program is None or not program.packages_lock:
        error = outcome.error
        hint = f"\n  hint: {error.hint}" if error and error.hint else ""
        told = "\n".join([f"{error.message if error else outcome.status}{hint}", *list_notes(outcome)])
        raise CommandFailure(told, exit_code=EXIT_DENIED if outcome.status is Status.DENIED else 1)
    facts: dict[str, Json] = {"packages": list(program.packages), "lock_sha256": program.packages_lock}
    if as_json:
        print_json(facts)
    else:
        print_lines(program.packages)
        print_note(f"{count(len(program.packages), 'package')} ready in {time.monotonic() - began:.1f} s")


@command.command(
    "show", epilog=render_examples("paddock packages show 3f2a", "paddock packages show 3f2a --json")
)
@click.argument("key")
@options.workspace
@options.settings
@options.as_json
def show(key: str, workspace: Path, flags: dict[str, str], *, as_json: bool) -> None:
    """Show one environment by its KEY, or by the beginning of it."""
    entries = _find_store(load(workspace, flags=flags).settings.packages).list_entries()
    found = [entry for entry in entries if entry.key.startswith(key)]
    if len(found) != 1:
        what = "more than one environment begins" if found else "no environment begins"
        raise CommandFailure(f"{what} with {key}; paddock packages list prints their keys")
    facts = _describe(found[0])
    if as_json:
        print_json(facts)
        return
    manifest = found[0].manifest
    lists = {name: ", ".join(getattr(manifest, name)) for name in ("requirements", "packages", "registries")}
    print_lines(f"{name}: {value}" for name, value in {**facts, **lists}.items())


@command.command("gc", epilog=render_examples("paddock packages gc", "paddock packages gc --all"))
@click.option("--all", "all_entries", is_flag=True, help="Remove every environment that is not in use.")
@options.workspace
@options.settings
@options.as_json
def collect(workspace: Path, flags: dict[str, str], *, all_entries: bool, as_json: bool) -> None:
    """Remove the least recently used environments beyond `packages.cache_bytes`. Those in use stay."""
    removed = _open_store(load(workspace, flags=flags).settings.packages).collect(all_entries=all_entries)
    if as_json:
        print_json([_describe(entry) for entry in removed])
        return
    freed = sum(entry.manifest.size_bytes for entry in removed)
    print_note(f"{count(len(removed), 'environment')} removed, {freed // MIB} MiB")


def _find_store(settings: PackageSettings) -> Store:
    return Store(settings.directory, settings.cache_bytes)


def _open_store(settings: PackageSettings) -> Store:
    store = _find_store(settings)
    store.prepare()
    return store


def _describe(entry: StoreEntry) -> dict[str, Json]:
    manifest = entry.manifest
    return {
        "key": entry.key,
        "language": manifest.language,
        "requirements": list[Json](manifest.requirements),
        "packages": list[Json](manifest.packages),
        "lock_sha256": manifest.lock_sha256,
        "registries": list[Json](manifest.registries),
        "builds": manifest.builds,
        "interpreter": manifest.interpreter,
        "size_bytes": manifest.size_bytes,
        "file_count": manifest.file_count,
        "made_at": _format_time(manifest.made_at),
        "used_at": _format_time(entry.used_at),
    }


def _format_time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
