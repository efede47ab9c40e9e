"""What follows a request while it runs."""

import asyncio
from typing import TYPE_CHECKING, NamedTuple, TypedDict

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from paddock.engines.live_run import LiveRun
    from paddock.foundation.fair_slots import Slot
    from paddock.gate.cluster_claims import RequestClaim
    from paddock.gate.program_calls import OnResult
    from paddock.model.outcome import OnConsole, OnProgress
    from paddock.policy.redaction.outgoing import OnCall
    from paddock.record.output.recording import OnOutput


class Listeners(TypedDict, total=False):
    """The arguments of `Gate.execute` that follow a request; surfaces hand them on. `Watchers` says what each does."""

    on_console: "OnConsole | None"
    on_output: "OnOutput | None"
    on_call: "OnCall | None"
    on_progress: "OnProgress | None"
    on_raw_stdout: "Callable[[bytes], None] | None"
    on_workdir: "Callable[[Path], None] | None"
    stop: asyncio.Event | None
    patient: bool
    max_wait_ms: int | None
    slot: "Slot | None"


class Watchers(NamedTuple):
    """What follows a request while it runs: that of its caller, and that of the gate."""

    on_console: "OnConsole | None" = None
    """Receives each console line of a script at once, without secrets."""
    on_output: "OnOutput | None" = None
    """Receives the output of a program at once, without secrets."""
    stop: asyncio.Event | None = None
    """Ends a program, or a single call, as `cancelled` when it is set. The outcome keeps the output until then."""
    on_call: "OnCall | None" = None
    """Receives each call of a script after the call has ended, without secrets."""
    on_progress: "OnProgress | None" = None
    """Receives what servers report of running calls, without secrets; None asks for no reports."""
    on_result: "OnResult | None" = None
    """Receives the raw result of each call of a server."""
    on_raw_stdout: "Callable[[bytes], None] | None" = None
    """Receives standard output before secrets are removed, to compare it inside of Paddock. It is never shown."""
    claim: "RequestClaim | None" = None
    """Its claim among the machines of a cluster."""
    waits: "dict[str, float] | None" = None
    """How long it waited for its turn (`queue_ms`) and for its claim (`claim_ms`), in milliseconds, once it has."""
    patient: bool = False
    """Whether a program is not refused under load: it waits for its slot as long as that takes."""
    max_wait_ms: int | None = None
    """Maximum wait of a program for its slot, in milliseconds; None for the maximum of the settings."""
    live: "LiveRun | None" = None
    """Shows the run while it lasts."""
    slot: "Slot | None" = None
    """A slot that its caller took for it; the request waits for no other with the same bound."""
    on_workdir: "Callable[[Path], None] | None" = None
    """Receives the separate working directory of a program that has ended, in a thread, before it is removed. The
    program may have left anything in it. Then no files are listed."""
    list_labels: "Callable[[], tuple[str, ...]]" = tuple
    """Returns what its run has read so far, as flow rules label it, for what is stored of it."""
