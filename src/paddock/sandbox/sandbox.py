"""The one way to run a child: `KernelSandbox.run`.

    server (asyncio, any size)          never forks, never waits for a pipe's end
      fork server                            started once (`child.fork_server`)
        supervisor, one job at a time       deadline, accounting, the end of every process (`child.supervisor`)
          shim, which becomes the job   the order in which powers are given up (`child.shim`)

Each supervisor has a socket to the server. Closing it, on purpose or by dying, is the order to kill.
"""

import asyncio
import os
import tempfile
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Self

from paddock.cancellation import call_when_set, run_shielded
from paddock.model.errors import EngineError, explain_start_failure
from paddock.model.outcome import SandboxFacts, Status
from paddock.model.process import ProcessGrants, ProcessLimits, ProcessResult
from paddock.model.sandbox import Tier
from paddock.sandbox import spec, state_paths
from paddock.sandbox.child import landlock
from paddock.sandbox.child.cgroup import Group
from paddock.sandbox.child.messages import JobSpec
from paddock.sandbox.fork_server import ForkServerClient, Slot, SupervisorHandle
from paddock.sandbox.job import GRACE_S, RunningProcess
from paddock.sandbox.protocol import Streams
from paddock.sandbox.state_paths import StateFile
from paddock.settings.schema import Protection

_MAX_IDLE_SUPERVISORS = 16
"""Supervisors without a job that are kept; the first fork costs a millisecond."""
_MAX_PREPARED_GRANTS = 8
"""Sets of grants for which places are kept; the one not used for longest loses its own."""
_PAUSE_S = 0.05
"""A program that starts so soon after another has ended comes in a row with it."""

_Key = tuple[int, str, tuple[object, ...]]


def _explain_refusal(error: OSError) -> EngineError:
    """Return the error for what the system refused before a process could start."""
    where = f"{error.filename}: " if error.filename else ""
    return EngineError(explain_start_failure(f"no process can be started: {where}{error.strerror}"))


@dataclass(slots=True)
class KernelSandbox:
    """Runs processes in one tier. Use it as an asynchronous context manager, or `close` it.

    `job_user` is the user that jobs become when Paddock runs as root; without it, and for 0, `plan.user` decides.
    With `protected_paths` "refuse", a job that could change one does not start (`child.protected_paths`).
    """

    facts: SandboxFacts
    tier: Tier = "landlock"
    job_user: int | None = None
    protected_paths: Protection = "restore"
    scratch_root: Path = field(default_factory=lambda: Path(tempfile.gettempdir()).absolute())
    group: Group | None = None
    """Control group of all jobs, where one holds (`paddock.sandbox.tiers`); it is this sandbox's to release."""
    own: tuple[str, ...] = ()
    """Paddock's own directories (`private.known`), which no program gets at, whatever it is granted above them."""
    installed: tuple[str, ...] = ()
    """Where Paddock and what it imports are, which no program changes, whatever it may write to above them."""
    files: tuple[StateFile, ...] = ()
    """Paddock's own files elsewhere: what would get at one does not start."""
    spares: int = 0
    """Confined processes (in their jails) that wait for the next program of the same grants, once there were two."""
    _fork_server: ForkServerClient | None = None
    _idle: deque[SupervisorHandle] = field(default_factory=deque)
    _waiting: dict[_Key, deque[Slot]] = field(default_factory=dict)
    _jobs: set[RunningProcess] = field(default_factory=set)
    _known: dict[str, tuple[int, set[RunningProcess]]] = field(default_factory=dict)
    """What is known of each workspace that jobs write to, and these."""
    _refills: set[asyncio.Task[None]] = field(default_factory=set)
    _last_end: float = 0.0
    _closing: bool = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def run(
        self,
        argv: Sequence[str],
        grants: ProcessGrants | None = None,
        limits: ProcessLimits | None = None,
        streams: Streams | None = None,
        *,
        place: Slot | None = None,
        stop: asyncio.Event | None = None,
        canary: str = "",
    ) -> ProcessResult:
        """Run a program to its end and return what became of it, no later than wall limit + 250 ms.

        Setting `stop` kills the program, to the last process, and the result is `cancelled`; one that was set before
        starts nothing. Cancelling the caller kills it likewise before the cancellation goes on. A `place` of the
        same grants and limits serves one program and stays until it is released.
        With `canary` the program is `child.canary` with that target.
        Raises EngineError only when Paddock's own machinery fails.
        """
        if stop is not None and stop.is_set():
            return ProcessResult(status=Status.CANCELLED, sandbox=self.facts)
        job = await self.launch(argv, grants, limits, streams, place=place, canary=canary)
        if isinstance(job, ProcessResult):
            return job
        with call_when_set(stop, job.cancel):
            try:
                return await asyncio.shield(job.result)
            except asyncio.CancelledError:
                job.cancel()
                await asyncio.wait({job.result}, timeout=GRACE_S)
                raise

    async def launch(
        self,
        argv: Sequence[str],
        grants: ProcessGrants | None = None,
        limits: ProcessLimits | None = None,
        streams: Streams | None = None,
        *,
        place: Slot | None = None,
        canary: str = "",
    ) -> RunningProcess | ProcessResult:
        """Start a program and return it, or the result that says why it may not start."""
        grants, limits, streams = grants or ProcessGrants(), limits or ProcessLimits(), streams or Streams()
        if len(streams.stdin) > limits.stdin_bytes:
            reason = (
                f"standard input has {len(streams.stdin)} bytes, and at most {limits.stdin_bytes} are allowed"
            )
            return ProcessResult(status=Status.INVALID, limit="stdin", reason=reason, sandbox=self.facts)
        try:
            own = (*self.own, *self._find_installation(grants))
            spec.check(argv, grants, own)
            spec.check_reach(grants, self.job_user, self.tier)
            spec.check_private(grants, own, self.tier, self.files)
        except spec.GrantError as error:
            return ProcessResult(status=Status.INVALID, reason=str(error), sandbox=self.facts)
        if self.protected_paths == "refuse":
            try:
                spec.check_protection(grants, self.tier)
            except spec.GrantError as error:
                return ProcessResult(
                    status=Status.DENIED, limit="protected", reason=str(error), sandbox=self.facts
                )
        kept = place is not None
        place = place or await self._take_place(grants, limits)
        job = RunningProcess(place, limits, streams, self.facts, jailed=self.tier == "namespaces", kept=kept)
        self._jobs.add(job)
        job.result.add_done_callback(lambda _: self._jobs.discard(job))
        try:
            room = place.room or self._room(grants, limits, place.scratch)
            order = spec.order(room, list(argv), grants, limits, canary=canary)
            job.start(order, *self._open_shared_file(order.workspace, job))
        except OSError as error:
            job.result.cancel()
            if not kept:
                place.release()
            raise _explain_refusal(error) from error
        return job

    def _open_shared_file(self, workspace: str, job: RunningProcess) -> tuple[int, ...]:
        """Return a file that all jobs share that write to a workspace at the same time (`protected.Before`)."""
        if not workspace:
            return ()
        file, jobs = self._known.get(workspace) or (
            os.memfd_create("known", os.MFD_CLOEXEC),
            set[RunningProcess](),
        )
        self._known[workspace] = file, jobs
        jobs.add(job)

        def forget(_: object) -> None:
            jobs.discard(job)
            if not jobs:
                os.close(file)
                del self._known[workspace]

        job.result.add_done_callback(forget)
        return (os.dup(file),)

    async def prepare(self, grants: ProcessGrants, limits: ProcessLimits, count: int) -> None:
        """Have `count` confined processes wait for programs of these grants, each with its scratch and its jail.

        A place is used once. It depends on grants and on the room in scratch, not on program and environment.
        """
        key = self._key(grants, limits)
        self._note(key)
        while len(self._waiting.get(key, ())) < count:
            place = await self._new_place(grants)
            self._prepare(place, grants, limits)
            self._note(key).append(place)

    def _prepare(self, place: Slot, grants: ProcessGrants, limits: ProcessLimits) -> None:
        try:
            place.prepare(self._room(grants, limits, place.scratch))
        except OSError as error:
            place.release()
            raise _explain_refusal(error) from error

    def _note(self, key: _Key) -> deque[Slot]:
        """Return what waits for programs with this in common, which are then the last to be forgotten."""
        places = self._waiting[key] = self._waiting.pop(key, deque[Slot]())
        while len(self._waiting) > _MAX_PREPARED_GRANTS:
            self._drop(next(iter(self._waiting)))
        return places

    def _key(self, grants: ProcessGrants, limits: ProcessLimits) -> _Key:
        """Return what two programs must have in common to use the same jail."""
        text = grants.model_dump_json(exclude={"environment", "cwd", "folder"})
        return limits.scratch_bytes, text, spec.state(grants, (*self.own, *self._find_installation(grants)))

    def user(self, grants: ProcessGrants) -> int | None:
        """Return the user that jobs of these grants become, None for this process's (`plan.user`)."""
        return spec.user(grants, self.job_user, self.tier)

    def _find_installation(self, grants: ProcessGrants) -> tuple[str, ...]:
        """Return where Paddock is installed that a program with such grants could otherwise change."""
        workspace = [grants.workspace] if grants.workspace and grants.access == "workspace-write" else []
        return state_paths.find_exposed_installation(self.installed, [*workspace, *grants.writable])

    def _room(self, grants: ProcessGrants, limits: ProcessLimits, scratch: Path) -> JobSpec:
        return spec.room(
            grants,
            limits,
            tier=self.tier,
            abi=landlock.read_abi_version(),
            scratch=scratch,
            job_user=self.job_user,
            group=self.group.path if self.group else "",
            own=self.own,
            installed=self._find_installation(grants),
        )

    async def place(self, grants: ProcessGrants, limits: ProcessLimits) -> Slot:
        """Return a place for one program of these grants and limits; it is the caller's to fill and to release.

        What does not depend on the program is done while the caller fills it.
        """
        place = await self._take_place(grants, limits)
        if place.state == "empty":
            self._prepare(place, grants, limits)
        return place

    async def _take_place(self, grants: ProcessGrants, limits: ProcessLimits) -> Slot:
        if not self.spares and not self._waiting:
            return await self._new_place(grants)
        key = self._key(grants, limits)
        again = key in self._waiting
        waiting = self._note(key)
        while waiting and not waiting[0].supervisor.alive:
            waiting.popleft().release()
        place = waiting.popleft() if waiting else await self._new_place(grants)
        if self.spares and again:
            self._refill_for(place, key, grants, limits)
        return place

    def _refill_for(self, place: Slot, key: _Key, grants: ProcessGrants, limits: ProcessLimits) -> None:
        """Have the next place prepared after the program of this one, or beside it when programs come in a row.

        Beside it, it takes processor time from the program; after it, from the next one that does not wait.
        """
        now = asyncio.get_running_loop().time
        refill = partial(self._refill, key, grants, limits)

        def start() -> None:
            if now() - self._last_end < _PAUSE_S:
                refill()

        def end() -> None:
            self._last_end = now()
            refill()

        place.make_next, place.on_start, place.on_end = refill, start, end

    def _refill(self, key: _Key, grants: ProcessGrants, limits: ProcessLimits) -> None:
        if self._closing:  # nobody would end what a place that is released from now on had begun
            return
        if len(self._waiting.get(key, ())) >= self.spares:  # to look what the key is by now would cost more
            return
        task = asyncio.create_task(self.prepare(grants, limits, self.spares))
        self._refills.add(task)
        task.add_done_callback(self._refills.discard)

    async def _new_place(self, grants: ProcessGrants) -> Slot:
        supervisor: SupervisorHandle | None = None
        try:
            if self._fork_server is None or not self._fork_server.alive:
                self._close_idle()
                if self._fork_server is not None:
                    self._fork_server.forget()
                self._fork_server = ForkServerClient()
            await self._fork_server.ready()
            while self._idle and not self._idle[0].alive:
                self._idle.popleft().socket.close()
            supervisor = (
                self._idle.popleft()
                if self._idle
                else self._fork_server.start_supervisor(self.scratch_root.resolve())
            )
            return Slot(supervisor, supervisor.next_scratch(self.user(grants)), self._take_back)
        except OSError as error:
            if supervisor is not None:
                self._take_back(supervisor)
            raise _explain_refusal(error) from error

    def _take_back(self, supervisor: SupervisorHandle) -> None:
        if self._fork_server is not None and len(self._idle) < _MAX_IDLE_SUPERVISORS:
            self._idle.append(supervisor)
        else:
            supervisor.socket.close()

    def _close_idle(self) -> None:
        while self._idle:
            self._idle.popleft().socket.close()

    def _drop(self, key: _Key) -> None:
        for place in self._waiting.pop(key):
            place.release()

    async def close(self) -> None:
        """End every job, every waiting place and the fork server; scratch is gone but for what takes long to remove.

        That is done when the caller is cancelled, too, before the cancellation goes on.
        """
        await run_shielded(self._close())

    async def _close(self) -> None:
        self._closing = True
        jobs = list(self._jobs)
        for job in jobs:
            job.cancel()
        if jobs:
            await asyncio.wait({job.result for job in jobs}, timeout=GRACE_S)
        for task in self._refills:
            task.cancel()
        await asyncio.gather(*self._refills, return_exceptions=True)
        for key in list(self._waiting):
            self._drop(key)
        self._close_idle()
        fork_server, self._fork_server = self._fork_server, None
        if fork_server is not None:
            await fork_server.close()
        if self.group is not None:
            self.group.release()
