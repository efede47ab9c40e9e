"""`paddock compute`: one JSON object on standard input, one line of JSON as the answer."""

import asyncio
import contextlib
import logging
import sys
from pathlib import Path
from typing import Any, cast

import click

from paddock.model.base import Json
from paddock.model.errors import PaddockError
from paddock.model.json_meter import holds_more
from paddock.model.outcome import Status, write_outcome
from paddock.policy.settings.loader import load
from paddock.surfaces.cli import options
from paddock.surfaces.cli.help import render_examples
from paddock.surfaces.cli.opening import find_actor
from paddock.surfaces.cli.run_request import EXIT_SIGNAL_BASE, carry_out
from paddock.surfaces.cli.table import print_json, warn
from paddock.surfaces.rendering.computation import (
    ComputationRequest,
    Envelope,
    InvalidInput,
    build_envelope,
    build_refused_envelope,
    build_request_schema,
    convert_request,
    parse_json,
)


@click.command(
    "compute",
    epilog=render_examples(
        "paddock compute < request.json",
        """echo '{"source": "emit(read_input().length)", "input": "hello"}' | paddock compute""",
        """echo '{"source": "for(;;){}", "limits": {"timeout_ms": 100, "partial": true}}' | paddock compute""",
        """jq -n --rawfile source mean.js --rawfile input data.csv '$ARGS.named' | paddock compute""",
    ),
)
@options.workspace
@options.settings
@click.option("--json", "as_json", is_flag=True, help="Print the whole outcome to standard output instead.")
def command(workspace: Path, flags: dict[str, str], *, as_json: bool) -> None:
    """Run a pure computation: it reads one text with read_input() and writes one with emit().

    Standard input is one JSON object with `source`, `input` and `limits`. The limits are `timeout_ms` (1000),
    `output_bytes` (65536), `deterministic` (true: fixed clock and random numbers), `partial` (false: output before an
    error is dropped) and `jit` (false; true needs `grants.jit`). Prints {"output": "..."} to standard output. An error
    is one line on standard error, {"code": "...", "message": "..."}, with the code INVALID_INPUT, EVAL_ERROR, TIMEOUT
    or OUTPUT_LIMIT, and exit code 1.
    """
    logging.getLogger("paddock").addHandler(logging.NullHandler())  # standard error is for the one line
    number = 0
    try:
        settings = load(workspace, flags=flags).settings
        max_bytes = settings.limits.compute.frame_bytes
        raw = sys.stdin.buffer.read(max_bytes + 1)
        if len(raw) > max_bytes:
            raise InvalidInput(f"invalid JSON: the request is larger than {max_bytes} bytes")
        if holds_more(raw, values := settings.limits.compute.frame_values):
            how = "send less, or raise `limits.compute.frame_values`"
            raise InvalidInput(f"invalid JSON: the request has more than {values} values; {how}")
        computation = _read_request(parse_json(raw))
        request = computation.build_request(actor=find_actor(), surface="cli", workspace=workspace)
        outcome, number = asyncio.run(carry_out(request, settings))
    except PaddockError as problem:
        outcome, answer = None, build_refused_envelope(problem)
    else:
        answer = (
            Envelope(status=Status.CANCELLED, message="cancelled")
            if outcome is None
            else build_envelope(outcome)
        )
    if as_json and outcome is not None:
        click.echo(write_outcome(outcome))
    elif as_json:
        print_json({"error": {"code": answer.code, "message": answer.message}})
        click.echo(answer.stderr, err=True)
    else:
        for line, err in ((answer.stdout, False), (answer.stderr, True)):
            if line:
                click.echo(line, err=err)
        for warning in answer.warnings:
            warn(warning)
    click.get_current_context().exit(EXIT_SIGNAL_BASE + number if number else int(not answer.ok))


def _read_request(body: Json) -> ComputationRequest:
    """Return the computation in a request; null counts as missing. Raises InvalidInput."""
    wanted = build_request_schema(jit=True)
    if _has_only_known(body, wanted):
        with contextlib.suppress(InvalidInput):
            return convert_request(body)
    from paddock.surfaces.mcp_server.computation_request import read_computation_request

    return read_computation_request(body, jit=True)


def _has_only_known(value: Json, wanted: dict[str, Any]) -> bool:
    if not isinstance(value, dict):
        return True
    known = wanted.get("properties", {})
    members = cast("dict[str, Json]", value).items()
    return all(name in known and _has_only_known(each, known[name]) for name, each in members)
