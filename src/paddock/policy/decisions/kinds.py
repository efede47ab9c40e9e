"""The part of a kind of work that policy needs. The kinds are in `paddock.gate.work`, one file each."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, Generic, NamedTuple, TypeVar

from paddock.model.base import Json
from paddock.model.program import Executables
from paddock.model.request import ExecutionRequest
from paddock.policy.settings.rules import Rule
from paddock.policy.settings.schema import Settings

W = TypeVar("W")

Reason = tuple[str, str]
"""Name of the deciding rule, and the reason for people."""
FindExecutables = Callable[[str], Executables]
"""Returns the executables that can run programs of a runtime."""


def empty_catalogue(_runtime: str) -> Executables:
    """Return an empty catalogue: no executable is compatible."""
    return Executables(candidates=(), compatible=frozenset())


class Judgement(NamedTuple):
    """The verdict of the settings on a request, without its rules."""

    terms: Mapping[str, object]
    """Fields of the decision: `limits` and `grants`, `program` or `tool`."""
    notes: list[Reason]
    objections: list[Reason]
    request: ExecutionRequest | None = None
    """The request for the rules, if it differs."""
    questions: tuple[Reason, ...] = ()
    """What a person is asked because of the settings, in addition to the rules."""


class WorkPolicy(ABC, Generic[W]):
    """The part of a kind of work that policy needs. All methods are pure."""

    @abstractmethod
    def label(self, work: W) -> str:
        """Return the name of the work in a reason."""

    @abstractmethod
    def identify(self, work: W) -> dict[str, Json]:
        """Return the ids and hashes for the audit hash of a decision, never a payload."""

    @abstractmethod
    def matches(self, rule: Rule, request: ExecutionRequest, work: W) -> bool:
        """Return whether a rule matches; its kind is this one, or none."""

    @abstractmethod
    def judge(
        self, request: ExecutionRequest, work: W, settings: Settings, catalogue: FindExecutables
    ) -> Judgement:
        """Return the terms of the work, notes on clamped limits, objections, and what a person is asked."""

    def list_circumstances(
        self, request: ExecutionRequest, work: W, settings: Settings
    ) -> tuple[object, ...] | None:
        """Return everything that `judge` and the rules read of the work; None if decisions are not cached."""
        del request, work, settings
        return None

    def add_defaults(self, work: W, settings: Settings) -> W:
        """Return the work with the defaults of the settings."""
        del settings
        return work

    def suggest_remedy(self, work: W, rule: str, settings: Settings, catalogue: FindExecutables) -> str:
        """Return the remedy for a refusal by `rule`; empty if the reason contains it."""
        del work, rule, settings, catalogue
        return ""


Kinds = Mapping[str, WorkPolicy[Any]]
"""The kinds of work, by the `kind` of their requests."""
