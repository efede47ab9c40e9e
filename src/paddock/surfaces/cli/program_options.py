"""Options that `paddock exec` and `paddock repl` share, and what reads them."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
from pydantic import ValidationError

from paddock.model.network import NetworkRule
from paddock.model.program import ACCESSES
from paddock.model.texts import explain
from paddock.model.work_files import INPUT_BYTES, InputFile
from paddock.policy.settings.loader import load
from paddock.policy.settings.merge import BUILT_IN
from paddock.policy.settings.schema import Settings
from paddock.surfaces.cli import options

_OPTIONS: tuple[Callable[[Any], Any], ...] = (
    click.option("--executable", metavar="NAME", help="Executable to run it with, e.g. bun."),
    click.option(
        "--file-in",
        "file_in",
        multiple=True,
        metavar="PATH[:NAME]",
        help="Copy a file into a separate working directory. Repeatable.",
    ),
    click.option(
        "--package",
        "packages",
        multiple=True,
        metavar="SPEC",
        help="Run it with a package of its language, e.g. 'pandas>=2'. Repeatable.",
    ),
    options.add_pairs_option("--env", help="Set an environment variable. Repeatable."),
    options.add_size_option("--memory", "memory_bytes", help="Maximum memory"),
    click.option(
        "--show",
        multiple=True,
        metavar="FILE",
        help="Let it read a file that workspace.hide hides, e.g. .env. Repeatable.",
    ),
    click.option("--access", type=click.Choice(ACCESSES), help="Access to the workspace."),
    options.add_dir,
    options.add_network_option("Access to the network"),
    options.workspace,
    options.settings,
    options.as_json,
)


def add_program_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the shared options to a command, in their order."""
    for add in reversed(_OPTIONS):
        command = add(command)
    return command


def read_input(given: str) -> InputFile:
    """Read the file that `PATH[:NAME]` names; without a name it has its own."""
    path, _, name = given.partition(":") if not Path(given).exists() else (given, "", "")
    try:
        with Path(path).open("rb") as stream:
            data = stream.read(INPUT_BYTES + 1)
        return InputFile(path=name or Path(path).name, data=data)
    except OSError as problem:
        told = f"{path}: cannot read this file: {problem.strerror}"
        raise click.BadParameter(told, param_hint="--file-in") from None
    except ValidationError as problem:
        raise click.BadParameter(explain_request(problem), param_hint="--file-in") from None


def read_settings(workspace: Path, flags: dict[str, str], options: Mapping[str, Any]) -> Settings:
    """Return the settings with the grants that the person at the command line gives, unless a file decides on them."""
    merged = load(workspace, flags=flags)
    network: str | Sequence[str] | None = options["network"]
    hosts = () if network is None or isinstance(network, str) else network
    asked = {
        "runtimes.access": options["access"],
        "runtimes.network": "hosts" if hosts else network,
        "runtimes.environment": json.dumps([*options["env"]]) if options["env"] else None,
        "sessions.background": "true" if options.get("background") else None,
    }
    own = merged.settings.workspace
    if options.get("show"):
        flags = {"workspace.show": json.dumps([*own.show, *options["show"]]), **flags}
    if options.get("add_dir"):
        if options["access"] == "none":
            raise click.BadParameter("needs access to the workspace, not none", param_hint="--add-dir")
        added = [each.model_dump(mode="json") for each in (*own.directory, *options["add_dir"])]
        flags = {"workspace.directory": json.dumps(added), **flags}
    if options.get("show") or options.get("add_dir"):
        merged = load(workspace, flags=flags)
    given = {key: value for key, value in asked.items() if value and merged.sources[key] == BUILT_IN}
    settings = load(workspace, flags={**given, **flags}).settings if given else merged.settings
    if not hosts or settings.network.rule:
        return settings
    try:
        rules = tuple(NetworkRule(host=host, effect="allow") for host in hosts)
    except ValidationError as problem:
        raise click.BadParameter(explain_request(problem), param_hint="--network") from None
    return settings.model_copy(update={"network": settings.network.model_copy(update={"rule": rules})})


def explain_request(problem: ValidationError) -> str:
    """Return the faults of a request, one per line, without the given values."""
    return "\n".join(explain(problem, names={"work": "", "runtime": "", "output": ""}, limit=None))
