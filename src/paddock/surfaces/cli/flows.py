"""`paddock policy flows`: labels for the tools of the configured servers, to paste into a settings file."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import click

from paddock.model.errors import ServerError
from paddock.policy.settings.loader import load
from paddock.surfaces.cli import options
from paddock.surfaces.cli.help import render_examples
from paddock.surfaces.cli.opening import open_for_command
from paddock.surfaces.cli.signals import run_until_signal
from paddock.surfaces.cli.table import print_json, print_text, warn

if TYPE_CHECKING:
    from paddock.engines.servers.result import ToolInfo


@click.command("flows", epilog=render_examples("paddock policy flows", "paddock policy flows --json"))
@options.workspace
@options.settings
@options.as_json
def flows(workspace: Path, flags: dict[str, str], *, as_json: bool) -> None:
    """Propose labels and a rule for flows of data between tools, as TOML. Starts the servers.

    The labels follow from names of well-known servers, and from the annotations `readOnlyHint` and `openWorldHint` of
    other tools. Check them before you paste them into paddock.toml. Exit code: 1 if a server did not list its tools.
    """
    from paddock.gate.flow.proposal import propose_labels, render_rule  # not needed for the help page

    settings = load(workspace, flags=flags).settings
    failures: list[str] = []

    async def collect() -> "dict[str, list[ToolInfo]]":
        found: dict[str, list[ToolInfo]] = {}
        async with open_for_command(settings, workspace) as opened:
            names = list(opened.servers.config.servers)
            asking = (opened.servers.list_tools(name) for name in names)
            answers = await asyncio.gather(*asking, return_exceptions=True)
        for name, answer in zip(names, answers, strict=True):
            if isinstance(answer, ServerError):
                failures.append(f"{name}: {answer}")
            elif isinstance(answer, BaseException):
                raise answer
            else:
                found[name] = answer
        return found

    labels = propose_labels(run_until_signal(collect()))
    for failure in failures:
        warn(failure)
    if as_json:
        print_json(
            {
                "labels": [{**each.fields, "why": each.why} for each in labels],
                "rule": {"source": ["private", "untrusted"], "sink": "external", "effect": "ask"},
                "failures": failures,
            }
        )
    else:
        print_text("\n\n".join([*(each.render() for each in labels), render_rule(labels)]))
    if failures:
        raise SystemExit(1)
