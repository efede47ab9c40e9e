"""Hold a request against the rules of the settings, `[[policy.rule]]`: what they deny, what a person is asked."""

from collections.abc import Iterator
from fnmatch import fnmatchcase
from itertools import groupby
from typing import NamedTuple

from paddock.model.aliases import write_alias
from paddock.model.request import ExecutionRequest, GuestRun, RuntimeRun, SdkCall, ServerCall, ToolRun
from paddock.policy import programs, script_tools
from paddock.policy.reason import Reason, label_request
from paddock.settings.rules import Rule
from paddock.settings.schema import Settings


class _FileRules(NamedTuple):
    """Rules of one file that speak of a request, with their numbers in the file."""

    origin: str
    rules: list[tuple[int, Rule]]
    what: str
    """What reasons call the request."""


def list_denials(request: ExecutionRequest, settings: Settings) -> Iterator[Reason]:
    """Object as the rules say. Each file is judged by itself, so that no file can widen another one."""
    for origin, mine, what in _group_by_file(request, settings):
        named = [(number, rule) for number, rule in mine if _match_rule(rule, request)]
        denying = [(number, rule) for number, rule in named if rule.effect == "deny"]
        if denying:
            number, rule = denying[0]
            name = f"{origin or 'policy'} rule {number}"
            yield name, rule.reason or f"{what} is denied by {name}"
        elif any(rule.effect == "allow" for _, rule in mine) and not named:
            name = f"{origin or 'policy'} rules"
            yield name, f"{what} is allowed by none of the {name}"


def list_questions(request: ExecutionRequest, settings: Settings) -> Iterator[Reason]:
    """Say which rule of each file has a person asked, and why."""
    for origin, mine, what in _group_by_file(request, settings):
        for number, rule in mine:
            if rule.effect == "ask" and _match_rule(rule, request):
                name = f"{origin or 'policy'} rule {number}"
                yield name, rule.reason or f"{what} needs a person's approval, says {name}"
                break


def _group_by_file(request: ExecutionRequest, settings: Settings) -> Iterator[_FileRules]:
    """Yield the rules of each file that speak of this kind of work.

    What a program has asked for through its SDK, such as `exec`, is also held against the rules about methods.
    """
    kind, caller = request.work.kind, request.caller
    for origin, rules in groupby(settings.policy.rule, key=lambda rule: rule.origin):
        numbered = list(enumerate(rules, 1))
        own = [(number, rule) for number, rule in numbered if rule.about in (None, kind)]
        yield _FileRules(origin, own, label_request(request))
        if caller is not None and kind != "sdk":
            methods = [(number, rule) for number, rule in numbered if rule.about == "sdk"]
            yield _FileRules(origin, methods, f"paddock.{caller.method}")


def _match_rule(rule: Rule, request: ExecutionRequest) -> bool:
    """Tell whether a rule of the right kind matches."""
    if not fnmatchcase(str(request.workspace), rule.workspace or "*"):
        return False
    if rule.about == "sdk" and request.work.kind != "sdk":
        return request.caller is not None and fnmatchcase(request.caller.method, rule.method or "*")
    match request.work:
        case ServerCall(server=server, tool=tool):
            # An `allow` means the tool's own name alone: a server could list another tool with the same alias.
            alias = write_alias(tool) if rule.effect != "allow" else ""
            return fnmatchcase(server, rule.server or "*") and any(
                _match_tool_glob(rule.tool or "*/*", server, name) for name in (tool, alias) if name
            )
        case RuntimeRun() as work:
            return programs.match_program(rule, work)
        case SdkCall(method=method):
            return fnmatchcase(method, rule.method or "*")
        case ToolRun() as work:
            return script_tools.match_tool(rule, work)
        case GuestRun():
            return rule.jit is None or request.jit


def _match_tool_glob(glob: str, server: str, tool: str) -> bool:
    """Tell whether a `server/tool` glob matches, each part by itself; the name of a server may hold slashes, too."""
    ends = [at for at, character in enumerate(glob) if character == "/"]
    return any(fnmatchcase(server, glob[:end]) and fnmatchcase(tool, glob[end + 1 :]) for end in ends)
