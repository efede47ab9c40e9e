"""`paddock replay`: run a recorded script again, and print the first difference."""

import asyncio
from pathlib import Path
from typing import Any, Literal, cast

import click

from paddock.engines.saved_scripts import read
from paddock.model.base import Json, count
from paddock.model.errors import ScriptNotFound
from paddock.model.limits import LimitOverrides
from paddock.model.numbers import dumps
from paddock.model.request import ExecutionRequest, ReplayRun
from paddock.policy.settings.loader import load
from paddock.surfaces.cli import options
from paddock.surfaces.cli.failure import CommandFailure
from paddock.surfaces.cli.help import render_examples
from paddock.surfaces.cli.opening import find_actor
from paddock.surfaces.cli.run_request import carry_out, value_of
from paddock.surfaces.cli.table import print_json, print_output


@click.command(
    "replay",
    epilog=render_examples(
        "paddock replay 01JD3W0ZV6N4YQ1R2X5T7B8C9D",
        "paddock replay 01JD3W0ZV6N4YQ1R2X5T7B8C9D --code ./audit.ts",
        "paddock replay 01JD3W0ZV6N4YQ1R2X5T7B8C9D --against live --json",
        "paddock replay 01JD3W0ZV6N4YQ1R2X5T7B8C9D --actor claude",
    ),
)
@click.argument("run", metavar="RUN")
@click.option("--code", metavar="NAME|PATH", help="Run this script in place of the recorded one.")
@click.option(
    "--against",
    type=click.Choice(["recorded", "live"]),
    default="recorded",
    help="What answers its calls: the recording, or the servers themselves. Default: recorded.",
)
@click.option("--actor", default="", help="Whose run it was, if not yours: a client, a token or a schedule.")
@options.add_timeout_option("Longest wall time")
@options.workspace
@options.settings
@options.as_json
def command(
    run: str,
    code: str | None,
    against: Literal["recorded", "live"],
    actor: str,
    timeout: int | None,
    *,
    workspace: Path,
    flags: dict[str, str],
    as_json: bool,
) -> None:
    """Run a recorded script again, with its recorded clock and random numbers, and compare it with the recording.

    RUN is the id of a run that was recorded: with `paddock run --record`, or by the setting record.payloads. Its calls
    get their recorded results, and nothing leaves the machine. Exit code: 0 if it did the same, 1 at a difference.
    """
    try:
        script = None if code is None else read(code, workspace)
    except ScriptNotFound as problem:
        raise CommandFailure(str(problem)) from None
    work = ReplayRun(
        run=run,
        source=None if script is None else script.source,
        language="auto" if script is None else script.language,
        against=against,
        owner=actor,
    )
    request = ExecutionRequest(
        actor=find_actor(),
        surface="cli",
        workspace=workspace,
        limits=LimitOverrides(timeout_ms=timeout),
        work=work,
    )
    settings = load(workspace, flags=flags).settings
    report = value_of(*asyncio.run(carry_out(request, settings, stop=asyncio.Event())))
    if as_json:
        print_json(report)
    else:
        print_output(render_report(report))
    click.get_current_context().exit(0 if report["same"] else 1)


def render_report(report: Json) -> str:
    """Return the report of a replay as text."""
    lines = [_render_verdict(report)]
    if report["redacted"]:
        lines.append(f"compared without secrets: {', '.join(report['redacted'])}")
    return "\n".join(lines)


def _render_verdict(report: Json) -> str:
    did = f"{count(report['calls'], 'call')}, {count(report['lines'], 'line')} on the console"
    difference = cast("dict[str, Any] | None", report["difference"])
    if difference is None:
        ended = f", and both ended as {report['status']}" if "status" in report else ""
        return f"same: {did}{ended}"
    place = " ".join(str(part) for part in (difference["kind"], difference["number"]) if part is not None)
    at = f", {difference['at']}" if difference["at"] else ""
    lines = [f"different: {place}{at}"]
    for side in ("recorded", "replayed"):
        value = difference[side]
        lines.append(f"  {side}: {'nothing' if value is None else dumps(value, ensure_ascii=False)}")
    if difference.get("nearest") is not None:
        lines.append(f"  the nearest recorded call is call {difference['nearest']}")
    if "error" in difference:
        lines.append(f"  the replayed program failed: {difference['error']}")
    return "\n".join(lines)
