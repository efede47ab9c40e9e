"""Match a request against the rules of the settings, `[[policy.rule]]`: denials, and questions to a person."""

from collections.abc import Iterator
from fnmatch import fnmatchcase
from itertools import groupby
from typing import Any, NamedTuple

from paddock.model.request import ExecutionRequest
from paddock.policy.decisions.kinds import Reason, WorkPolicy
from paddock.policy.settings.merge import RULES_KEY, name_rule, name_rules
from paddock.policy.settings.rules import Rule
from paddock.policy.settings.schema import Settings


class _FileRules(NamedTuple):
    """The rules of one file that concern a request, with their numbers in the file."""

    origin: str
    rules: list[tuple[int, Rule]]
    what: str
    """The name of the request in reasons."""


def list_denials(request: ExecutionRequest, kind: WorkPolicy[Any], settings: Settings) -> Iterator[Reason]:
    """Yield the denials. Each file is judged separately, so that no file can widen another one."""
    for origin, mine, what in _group_by_file(request, kind, settings):
        named = [(number, rule) for number, rule in mine if _match_rule(rule, request, kind)]
        denying = [(number, rule) for number, rule in named if rule.effect == "deny"]
        if denying:
            number, rule = denying[0]
            name = name_rule(RULES_KEY, origin, number)
            yield name, rule.reason or f"{what} is denied by {name}"
        elif any(rule.effect == "allow" for _, rule in mine) and not named:
            name = name_rules(RULES_KEY, origin)
            yield name, f"{what} is not allowed by any of the {name}"


def list_questions(request: ExecutionRequest, kind: WorkPolicy[Any], settings: Settings) -> Iterator[Reason]:
    """Yield the rule of each file that asks a person, and why."""
    for origin, mine, what in _group_by_file(request, kind, settings):
        for number, rule in mine:
            if rule.effect == "ask" and _match_rule(rule, request, kind):
                name = name_rule(RULES_KEY, origin, number)
                yield name, rule.reason or f"{what} needs a person's approval, says {name}"
                break


def list_matching_rules(
    request: ExecutionRequest, kind: WorkPolicy[Any], settings: Settings
) -> list[tuple[str, Rule]]:
    """Return the rules that match a request, whatever their effects are, with their names."""
    return [
        (name_rule(RULES_KEY, origin, number), rule)
        for origin, mine, _ in _group_by_file(request, kind, settings)
        for number, rule in mine
        if _match_rule(rule, request, kind)
    ]


def match_request(rule: Rule, request: ExecutionRequest, kind: WorkPolicy[Any]) -> bool:
    """Return whether a rule concerns a request and matches it, whatever its effect is."""
    about = {None, request.work.kind} if request.caller is None else {None, request.work.kind, "sdk"}
    return rule.about in about and _match_rule(rule, request, kind)


def _group_by_file(
    request: ExecutionRequest, kind: WorkPolicy[Any], settings: Settings
) -> Iterator[_FileRules]:
    """Yield the rules of each file that concern this kind of work.

    A program's request through the SDK, such as `exec`, is also matched against the rules about methods.
    """
    name, caller = request.work.kind, request.caller
    for origin, rules in groupby(settings.policy.rule, key=lambda rule: rule.origin):
        numbered = list(enumerate(rules, 1))
        own = [(number, rule) for number, rule in numbered if rule.about in (None, name)]
        yield _FileRules(origin, own, kind.label(request.work))
        if caller is not None and name != "sdk":
            methods = [(number, rule) for number, rule in numbered if rule.about == "sdk"]
            yield _FileRules(origin, methods, f"paddock.{caller.method}")


def _match_rule(rule: Rule, request: ExecutionRequest, kind: WorkPolicy[Any]) -> bool:
    """Return whether a rule of the right kind matches."""
    if not fnmatchcase(str(request.workspace), rule.workspace or "*"):
        return False
    if rule.about == "sdk" and request.work.kind != "sdk":
        return request.caller is not None and fnmatchcase(request.caller.method, rule.method or "*")
    return kind.matches(rule, request, request.work)
