"""Tell whether a decision permits effects: changes that outlive the request.

A request without effects may run twice. Therefore it needs no claim that other machines see, and an engine that lost
its answer may send it again.
"""

from collections.abc import Iterator
from typing import Literal

from paddock.model.network import Network
from paddock.model.outcome import Decision
from paddock.model.program import ProgramTerms
from paddock.model.request import (
    ChangeSetRun,
    ExecutionRequest,
    GuestRun,
    ReplayRun,
    RuntimeRun,
    SdkCall,
    ServerCall,
    ToolRun,
)
from paddock.policy.settings.schema import Settings

_OWN_NETWORKS: frozenset[Network] = frozenset({"none", "loopback"})
"""Networks that end with the program."""

Effect = Literal["workspace", "network", "session", "servers", "sdk", "unconfined"]
"""What a request may change: files of the workspace; other machines; the state of a session; what servers keep; what
methods of the SDK keep; everything, because nothing confines programs."""


def has_effects(request: ExecutionRequest, decision: Decision, settings: Settings) -> bool:
    """Return whether a request may have effects, as policy decided it under these settings."""
    return any(list_effects(request, decision, settings))


def list_effects(request: ExecutionRequest, decision: Decision, settings: Settings) -> Iterator[Effect]:
    """Yield each effect that a request may have, as policy decided it under these settings.

    Entries of caches, stored output, change sets and the record do not count: a second run adds nothing that a caller
    sees. Tools count as their servers mark them.
    """
    work = request.work
    if isinstance(work, GuestRun | RuntimeRun) and work.session is not None:
        yield "session"
    if isinstance(work, ChangeSetRun):
        yield "workspace"
    elif isinstance(work, RuntimeRun | ToolRun):
        program = (decision.program or ProgramTerms()).grants
        granted = decision.tool or program
        if granted.access == "workspace-write" or (decision.tool is None and program.writes_files):
            yield "workspace"
        if granted.network not in _OWN_NETWORKS:
            yield "network"
        if settings.sandbox.minimum_tier == "unconfined":
            yield "unconfined"
    elif isinstance(work, SdkCall):
        if not work.reads:
            yield "sdk"
    elif decision.grants.calls != "run" or (isinstance(work, ReplayRun) and work.against == "recorded"):
        return
    elif isinstance(work, ServerCall):
        if not work.only_reads:
            yield "servers"
    else:  # the calls that a program may make; a computation makes none
        if decision.grants.servers:
            yield "servers"
        if settings.sdk.list_granted(work.profile):
            yield "sdk"
