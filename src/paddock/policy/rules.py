"""Hold a request against the rules of the settings, `[[policy.rule]]`: what they deny, what a person is asked."""

from collections.abc import Iterator
from fnmatch import fnmatchcase
from itertools import groupby

from paddock.model.request import ExecutionRequest, GuestRun, RuntimeRun, SdkCall, ServerCall, ToolRun
from paddock.model.rules import Rule
from paddock.model.settings import Settings
from paddock.policy import programs, scripts
from paddock.policy.reason import Reason, label


def denials(request: ExecutionRequest, settings: Settings) -> Iterator[Reason]:
    """Object as the rules say. Each file is judged by itself, so that no file can widen another one."""
    for origin, mine in _by_file(request, settings):
        named = [(number, rule) for number, rule in mine if _concerns(rule, request)]
        denying = [(number, rule) for number, rule in named if rule.effect == "deny"]
        if denying:
            number, rule = denying[0]
            name = f"{origin or 'policy'} rule {number}"
            yield name, rule.reason or f"{label(request)} is denied by {name}"
        elif any(rule.effect == "allow" for _, rule in mine) and not named:
            name = f"{origin or 'policy'} rules"
            yield name, f"{label(request)} is allowed by none of the {name}"


def questions(request: ExecutionRequest, settings: Settings) -> Iterator[Reason]:
    """Say which rule of each file has a person asked, and why."""
    for origin, mine in _by_file(request, settings):
        for number, rule in mine:
            if rule.effect == "ask" and _concerns(rule, request):
                name = f"{origin or 'policy'} rule {number}"
                yield name, rule.reason or f"{label(request)} needs a person's approval, says {name}"
                break


def _by_file(request: ExecutionRequest, settings: Settings) -> Iterator[tuple[str, list[tuple[int, Rule]]]]:
    """Yield the rules of each file that speak of this kind of work, with their numbers in the file."""
    for origin, rules in groupby(settings.policy.rule, key=lambda rule: rule.origin):
        kinds = (None, request.work.kind)
        yield origin, [(number, rule) for number, rule in enumerate(rules, 1) if rule.about in kinds]


def _concerns(rule: Rule, request: ExecutionRequest) -> bool:
    """Tell whether a rule of the right kind matches; `server/tool` globs match each part by itself."""
    if not fnmatchcase(str(request.workspace), rule.workspace or "*"):
        return False
    match request.work:
        case ServerCall(server=server, tool=tool):
            server_glob, _, tool_glob = (rule.tool or "*/*").partition("/")
            return (
                fnmatchcase(server, rule.server or "*")
                and fnmatchcase(server, server_glob)
                and fnmatchcase(tool, tool_glob)
            )
        case RuntimeRun() as work:
            return programs.concerns(rule, work)
        case SdkCall(method=method):
            return fnmatchcase(method, rule.method or "*")
        case ToolRun() as work:
            return scripts.concerns(rule, work)
        case GuestRun():
            return rule.jit is None or request.jit
