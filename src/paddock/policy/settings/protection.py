"""The notation of `sandbox.protected` and `sandbox.unprotected` (`paddock.confinement.sandbox.child.protection`)."""

from typing import Annotated

from pydantic import AfterValidator

_MAX_CHARS = 200
_MAX_RULES = 50
_WILDCARDS = frozenset("*?[")
_EXAMPLES = "write for example ci/deploy.sh, .github/workflows/** or **/.envrc"


def quote_rule(rule: str, examples: str) -> str:
    """Return an entry in quotes. Raises ValueError, with the examples, if it is too long or not printable."""
    shown = f"{rule[:_MAX_CHARS]!r}"
    if len(rule) > _MAX_CHARS:
        raise ValueError(f"{shown}... has more than {_MAX_CHARS} characters; {examples}")
    if not rule.isprintable():
        raise ValueError(f"{shown} contains a control character; {examples}")
    return shown


def check_rule(rule: str) -> str:
    """Return a path or pattern relative to the workspace. Raises ValueError if it is none."""
    shown = quote_rule(rule, _EXAMPLES)
    inner = rule.removeprefix("**/").removesuffix("/**")
    parts = inner.split("/")
    if rule.startswith(("/", "~")) or not {"", ".", ".."}.isdisjoint(parts):
        raise ValueError(f"{shown} is not a path below the workspace, without . and ..; {_EXAMPLES}")
    if any("**" in part for part in parts):
        raise ValueError(
            f"{shown} has ** elsewhere than at its beginning or end, between slashes; {_EXAMPLES}"
        )
    if rule.startswith("**/") and not _WILDCARDS.isdisjoint(inner):
        raise ValueError(f"{shown} has a wildcard after **/, where only a path may be; {_EXAMPLES}")
    return rule


def _check_count(rules: tuple[str, ...]) -> tuple[str, ...]:
    if len(rules) > _MAX_RULES:
        raise ValueError(f"there are {len(rules)} entries, and at most {_MAX_RULES} are allowed in a file")
    return rules


ProtectedRules = Annotated[
    tuple[Annotated[str, AfterValidator(check_rule)], ...], AfterValidator(_check_count)
]
"""Paths below the workspace, and patterns."""
