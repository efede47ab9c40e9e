"""`paddock policy`: the policy and its decisions; runs nothing."""

import json
from collections.abc import Callable
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import TYPE_CHECKING

import click
from pydantic import ValidationError

from paddock.engines.servers.methods import METHODS
from paddock.model.base import Json
from paddock.model.languages import read_language
from paddock.model.limits import LimitOverrides
from paddock.model.outcome import Decision
from paddock.model.program import ACCESSES
from paddock.model.request import ExecutionRequest, RuntimeRun, ServerCall
from paddock.model.texts import suggest
from paddock.policy.decisions.sentences import render_rule
from paddock.policy.settings.keys import leaves
from paddock.policy.settings.loader import load
from paddock.policy.settings.merge import FLOW_RULES_KEY, HOST_RULES_KEY, RULES_KEY, Merged
from paddock.policy.settings.schema import Settings
from paddock.surfaces.cli import options
from paddock.surfaces.cli.exec import EXIT_DENIED
from paddock.surfaces.cli.failure import CommandFailure
from paddock.surfaces.cli.flows import flows
from paddock.surfaces.cli.help import CommandGroup, render_examples
from paddock.surfaces.cli.opening import find_actor
from paddock.surfaces.cli.program_options import explain_request, read_settings
from paddock.surfaces.cli.table import print_json, print_lines, print_table

if TYPE_CHECKING:
    from paddock.gate.policy_trial import PolicyTrials, Trial

_GROUPS = ("grants", "runtimes", "sandbox", "workspace", "limits.timeout_policy")
"""Settings that grant something; `paddock config show limits` prints the limits of scripts."""
_NO_RULE = "default"
"""The rule of a decision without an objection (`paddock.policy.decisions.decision`)."""
_OWN_FLAGS = "no setting decides this, so the flags of your own command do"
_EXIT_ASKS = 3
"""Exit code for a request that a person would be asked about."""


@click.group(
    "policy",
    cls=CommandGroup,
    epilog=render_examples(
        "paddock policy show",
        "paddock policy check python --network full",
        "paddock policy explain node --executable bun",
        "paddock policy check github/delete_repository",
        "paddock policy flows",
    ),
)
def command() -> None:
    """Show the policy in force and explain its decisions. Runs no program."""


command.add_command(flows)


@command.command("show", epilog=render_examples("paddock policy show", "paddock policy show --json"))
@options.workspace
@options.settings
@options.as_json
def show(workspace: Path, flags: dict[str, str], *, as_json: bool) -> None:
    """Show the grants in force with their sources, and the rules."""
    merged = load(workspace, flags=flags)
    dumped = merged.settings.model_dump(mode="json")
    keys = [key for key in leaves(merged.settings) if key.startswith(_GROUPS)]
    values: dict[str, Json] = {key: reduce(getitem, key.split("."), dumped) for key in keys}
    rules, hosts = merged.settings.policy.rule, merged.settings.network.rule
    flow = merged.settings.flow
    if as_json:
        grants = {key: {"value": values[key], "source": merged.sources[key]} for key in keys}
        listed = [rule.model_dump(exclude_none=True) for rule in rules]
        print_json(
            {
                "grants": grants,
                "rules": listed,
                "network_rules": [rule.model_dump() for rule in hosts],
                "flow_labels": [label.model_dump(exclude_none=True) for label in flow.label],
                "flow_rules": [rule.model_dump() for rule in flow.rule],
            }
        )
        return
    rows = [(key, json.dumps(values[key]), merged.sources[key]) for key in keys]
    rows += [(RULES_KEY, render_rule(rule), rule.origin) for rule in rules]
    rows += [(HOST_RULES_KEY, render_rule(rule), rule.origin) for rule in hosts]
    rows += [("flow.label", render_rule(label), merged.sources["flow.label"]) for label in flow.label]
    rows += [(FLOW_RULES_KEY, render_rule(rule), rule.origin) for rule in flow.rule]
    print_table(("grant or rule", "value", "source"), rows)


def _request_options(function: Callable[..., None]) -> Callable[..., None]:
    """Add the options that describe a request to a command."""
    for option in reversed(
        (
            click.argument("target", metavar="RUNTIME|SERVER/TOOL"),
            click.option("--executable", metavar="NAME", help="Executable that runs the program."),
            click.option("--cwd", default=".", metavar="REL", help="Working directory of the program."),
            options.add_timeout_option("Wall time that is asked for"),
            options.timeout_ms,
            click.option(
                "--access",
                type=click.Choice(ACCESSES),
                help="Access of the program to the workspace. Default: read-only, if granted.",
            ),
            options.add_network_option("Access of the program to the network"),
            options.workspace,
            options.settings,
            options.as_json,
        )
    ):
        function = option(function)
    return function


@command.command(
    "check",
    epilog=render_examples(
        "paddock policy check python --access workspace-write", "paddock policy check git/git_log"
    ),
)
@_request_options
@click.pass_context
def check(
    context: click.Context, *, workspace: Path, flags: dict[str, str], as_json: bool, **asked: Json
) -> None:
    """Show whether a request would be allowed.

    Exit code: 0 allowed, 3 a person would be asked first, 126 denied.
    """
    merged = load(workspace, flags=flags)
    request = _build_request(workspace, merged.settings.runtimes.languages, **asked)
    trial = _open_trials(merged).try_request(request)
    request, decision = trial.request, trial.decision
    if as_json:
        print_json(_build_verdict(trial))
    else:
        verdict, further = _render_decision(decision), ()
        if granted := _exec_grants(request, decision, flags):
            verdict, further = f"denied to agents and programs; {granted}", (_OWN_FLAGS,)
        lines = (*decision.reasons, *trial.directories, *trial.flow.describe(), *further)
        print_lines([verdict, *(f"  {line}" for line in lines)])
    context.exit(_EXIT_ASKS if decision.asks else 0 if decision.allowed else EXIT_DENIED)


@command.command(
    "explain",
    epilog=render_examples(
        "paddock policy explain rust", "paddock policy explain node --executable bun --json"
    ),
)
@_request_options
def explain(*, workspace: Path, flags: dict[str, str], as_json: bool, **asked: Json) -> None:
    """Show the rules that apply to a request, in order, and the answer of each.

    The first objection decides. Without one, a rule may still ask a person.
    """
    merged = load(workspace, flags=flags)
    request = _build_request(workspace, merged.settings.runtimes.languages, **asked)
    trial = _open_trials(merged).try_request(request)
    decision, steps, hidden = trial.decision, trial.steps, _find_hidden(trial.request, merged.settings)
    if as_json:
        print_json(
            {
                **_build_verdict(trial),
                "steps": [{"asks": asks, "objects": list(objections)} for asks, objections in steps],
                "hidden": hidden,
                "source": trial.source,
            }
        )
        return
    rows = [
        (asks, "objects" if objections else "agrees", "; ".join(objections)) for asks, objections in steps
    ]
    if decision.asks:
        rows.append(("a person", "is asked", "; ".join(decision.asks)))
    why = "no rule and no grant of the settings objects" if decision.rule == _NO_RULE else trial.source
    rows.append(("decided by", decision.rule, why))
    rows += [("flow rules", "say", line) for line in trial.flow.describe()]
    rows += [("workspace.directory", "gives", line) for line in trial.directories]
    if hidden:
        rows.append(("workspace.hide", "hides", ", ".join(hidden)))
    print_table(("rule", "says", "why"), rows)


def _find_hidden(request: ExecutionRequest, settings: Settings) -> list[str]:
    """Return the files that the program could not read. Raises CommandFailure."""
    from paddock.gate.policy_trial import find_hidden

    try:
        return find_hidden(request, settings)
    except OSError as problem:
        raise CommandFailure(str(problem)) from problem


def _build_request(
    workspace: Path,
    runtimes: tuple[str, ...],
    *,
    target: str,
    executable: str | None,
    cwd: str,
    timeout: int | None,
    timeout_ms: int | None,
    access: str | None,
    network: str | list[str] | None,
) -> ExecutionRequest:
    server, _, tool = target.rpartition(
        "/"
    )  # names of servers may contain slashes, names of tools should not
    method = next((each for each in METHODS if target.endswith(f"/{each}")), "")
    if method:
        work = ServerCall(server=target.removesuffix(f"/{method}"), tool=method, is_method=True)
    elif server and tool:
        work = ServerCall(server=server, tool=tool)
    elif (runtime := read_language(target)) in runtimes:
        fields: dict[str, Json] = {"executable": executable, "cwd": cwd, "network": network or "none"}
        fields |= {"access": access} if access else {}
        try:
            work = RuntimeRun.model_validate({"runtime": runtime, "code": "", **fields})
        except ValidationError as problem:
            raise click.UsageError(explain_request(problem)) from None
    else:
        known = f"neither a runtime ({', '.join(runtimes)}) nor SERVER/TOOL"
        raise click.BadParameter(f"{target} is {known}{suggest(target, runtimes)}", param_hint="TARGET")
    limits = LimitOverrides(timeout_ms=options.choose_timeout_ms(timeout, timeout_ms))
    try:
        return ExecutionRequest(
            actor=find_actor(), surface="cli", workspace=workspace, work=work, limits=limits
        )
    except ValidationError as problem:
        raise click.UsageError(explain_request(problem)) from None


def _render_decision(decision: Decision) -> str:
    return "ask" if decision.asks else "allowed" if decision.allowed else "denied"


def _exec_grants(request: ExecutionRequest, decision: Decision, flags: dict[str, str]) -> str:
    """Return the command by which a person gets what was denied, and its decision; "" if it is denied, too."""
    work = request.work
    if not isinstance(work, RuntimeRun) or decision.allowed or decision.asks:
        return ""
    network = work.hosts or work.network
    own = read_settings(
        request.workspace, flags, {"access": work.access, "network": network, "env": work.env}
    )
    granted = _open_trials(Merged(own, {})).policy.decide(request)
    if not (granted.allowed or granted.asks):
        return ""
    shown = ",".join(work.hosts) if work.hosts else work.network
    command = f"paddock exec --access {work.access} --network {shown}"
    return f"for a person's own `{command}`: {_render_decision(granted)}"


def _open_trials(merged: Merged) -> "PolicyTrials":
    from paddock.gate.policy_trial import PolicyTrials  # not needed for the help page

    return PolicyTrials(merged.settings, merged.sources)


def _build_verdict(trial: "Trial") -> dict[str, Json]:
    shown = {"allowed", "reasons", "asks", "rule", "audit_hash", "program"}
    return {**trial.decision.model_dump(mode="json", include=shown), "flow": trial.flow.as_json()}
