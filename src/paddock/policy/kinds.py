"""What policy asks of a kind of work. The kinds themselves are in `paddock.app.work`, one file each."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, Generic, NamedTuple, TypeVar

from paddock.model.base import Json
from paddock.model.program import Executables
from paddock.model.request import ExecutionRequest
from paddock.settings.rules import Rule
from paddock.settings.schema import Settings

W = TypeVar("W")

Reason = tuple[str, str]
"""Name of the rule that decided, and the reason for people."""
Catalogue = Callable[[str], Executables]
"""Returns what can run the programs of a runtime."""


def empty_catalogue(_runtime: str) -> Executables:
    """Return an empty catalogue: no executable is compatible."""
    return Executables(candidates=(), compatible=frozenset())


class Judgement(NamedTuple):
    """What the settings say about a request, without its rules."""

    terms: Mapping[str, object]
    """Fields of the decision: `limits` and `grants`, `program` or `tool`."""
    notes: list[Reason]
    objections: list[Reason]
    request: ExecutionRequest | None = None
    """The request as the rules see it, where that is another one."""


class WorkPolicy(ABC, Generic[W]):
    """The part of a kind of work that policy needs. All methods are pure."""

    @abstractmethod
    def label(self, work: W) -> str:
        """Return what a reason calls the work."""

    @abstractmethod
    def identify(self, work: W) -> dict[str, Json]:
        """Return the ids and hashes that the audit hash of a decision covers, never a payload."""

    @abstractmethod
    def matches(self, rule: Rule, request: ExecutionRequest, work: W) -> bool:
        """Tell whether a rule about this kind, or about any, matches."""

    @abstractmethod
    def judge(
        self, request: ExecutionRequest, work: W, settings: Settings, catalogue: Catalogue
    ) -> Judgement:
        """Return the terms on which the work would run, what was clamped, and what is refused."""

    def list_circumstances(
        self, request: ExecutionRequest, work: W, settings: Settings
    ) -> tuple[object, ...] | None:
        """Return what `judge` and the rules look at in the work; None when decisions are not remembered."""
        del request, work, settings
        return None

    def add_defaults(self, work: W, settings: Settings) -> W:
        """Return the work with what it leaves to the settings."""
        del settings
        return work

    def suggest_remedy(self, work: W, rule: str, settings: Settings, catalogue: Catalogue) -> str:
        """Return what to do about a refusal by `rule`; empty where its reason says it."""
        del work, rule, settings, catalogue
        return ""


Kinds = Mapping[str, WorkPolicy[Any]]
"""The kinds of work by the `kind` of their requests."""
