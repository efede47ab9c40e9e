"""Run pure programs through the gate: wait for a slot for a bounded time, and collect all output.

The time in the queue is no time of the program. A request that gets no slot in time is refused with 504, which clients
of this contract understand as "send it again"; then nothing has started.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from paddock.model.approval import Answer, Question
from paddock.model.limits import LimitOverrides
from paddock.model.outcome import Outcome
from paddock.model.request import ExecutionRequest, RuntimeRun
from paddock.policy.redaction.stream import StreamRedactor
from paddock.surfaces.http_api.sandboxfusion.errors import Refused
from paddock.surfaces.http_api.sandboxfusion.responses import ProgramOutput
from paddock.surfaces.tenants.errors import TenantBusy, UnknownToken
from paddock.surfaces.tenants.tenant import SlotNeeds

if TYPE_CHECKING:
    from paddock.model.artifact import Stream
    from paddock.surfaces.tenants.tenant import Tenant

MAX_WAIT_S = 8.0
"""Maximum time in the queue, in seconds. verl allows 10 seconds beyond the time limits, and tries again after a 504."""


@dataclass
class PureRunner:
    """Runs the programs of one request."""

    tenant: "Tenant"
    workspace: Path
    arrived: float = field(default_factory=lambda: asyncio.get_running_loop().time())
    """When the request arrived, on the clock of the event loop."""

    def hide_secrets(self, data: bytes) -> bytes:
        """Return the content of a file without secrets, if it is text."""
        if b"\0" in data:
            return data
        redactor = StreamRedactor(self.tenant.opened.outgoing.output)
        return redactor.feed(data) + redactor.end()

    @property
    def _wait_ms(self) -> int:
        left_s = self.arrived + MAX_WAIT_S - asyncio.get_running_loop().time()
        return max(1, round(left_s * 1000))

    async def run(
        self,
        work: RuntimeRun,
        limits: LimitOverrides,
        *,
        patient: bool = False,
        on_workdir: Callable[[Path], None] | None = None,
        on_raw_stdout: Callable[[bytes], None] | None = None,
    ) -> tuple[Outcome, ProgramOutput]:
        """Run one program; return its outcome and its output, without secrets.

        A `patient` program waits for its slot as long as necessary. Cancelling the task ends the program. Raises
        Refused if no slot became free in time, or the token was revoked.
        """
        request = ExecutionRequest(
            actor=self.tenant.actor, surface="http", workspace=self.workspace, work=work, limits=limits
        )
        pieces: dict[Stream, list[bytes]] = {"stdout": [], "stderr": []}

        def collect(stream: "Stream", data: bytes) -> None:
            pieces[stream].append(data)

        try:
            wait_ms, needs = None if patient else self._wait_ms, SlotNeeds.from_work(request.work)
            async with self.tenant.admit(wait_ms, _refuse_question, needs) as admission:
                outcome = await self.tenant.opened.gate.execute(
                    request,
                    on_output=collect,
                    asker=admission.ask,
                    on_raw_stdout=on_raw_stdout,
                    patient=patient,
                    max_wait_ms=wait_ms,
                    on_workdir=on_workdir,
                    slot=admission.slot,
                )
        except TenantBusy as error:
            raise Refused(504, str(error)) from None
        except UnknownToken as error:
            raise Refused(401, str(error)) from None
        return outcome, ProgramOutput(*map(b"".join, pieces.values()))


async def _refuse_question(_question: Question) -> Answer:
    """Answer that no person is asked: a client of this contract waits for seconds, not for a person."""
    told = "no person is asked about programs that come by these endpoints"
    return Answer(verdict="unasked", by="paddock", told=told)
