"""Run confined processes. `KernelSandbox.launch` starts every process; `run` also waits for its end.

    Paddock (asyncio, any size)         never forks, never waits for the end of a pipe
      fork server                       started once (`child.fork_server`)
        supervisor, one job at a time   enforces deadline and limits, ends every process (`child.supervisor`)
          shim, which becomes the job   gives up powers one after another (`child.shim`)

Each supervisor has a socket to Paddock, its parent. When Paddock closes it, or dies, the supervisor kills its job.
"""

import asyncio
import os
import tempfile
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NamedTuple, Self

from paddock.confinement.sandbox import spec, state_paths
from paddock.confinement.sandbox.child import landlock
from paddock.confinement.sandbox.child.cgroup import ControlGroup
from paddock.confinement.sandbox.child.hiding import HidingRules
from paddock.confinement.sandbox.child.messages import JobSpec
from paddock.confinement.sandbox.child.protection import BUILT_IN_RULES, ProtectionRules
from paddock.confinement.sandbox.fork_server import ForkServerClient, Slot, SupervisorHandle
from paddock.confinement.sandbox.job import GRACE_S, RunningProcess
from paddock.confinement.sandbox.protocol import Streams
from paddock.confinement.sandbox.state_paths import StateFile
from paddock.foundation.cancellation import call_when_set, run_shielded
from paddock.model.errors import EngineError, explain_start_failure
from paddock.model.outcome import SandboxFacts, Status
from paddock.model.process import ProcessGrants, ProcessLimits, ProcessResult
from paddock.model.sandbox import Tier
from paddock.policy.settings.hiding import ALWAYS_SHOWN, DEFAULT_HIDDEN
from paddock.policy.settings.schema import Protection

_MAX_IDLE_SUPERVISORS = 16
"""Maximum number of supervisors kept without a job; starting one costs a millisecond."""
_MAX_PREPARED_GRANTS = 8
"""Maximum sets of grants for which slots are kept. The least recently used set loses its slots first."""
MAX_PAUSE_S = 0.05
"""Programs come in a row if one starts within this time after the end of another, in seconds."""

DEFAULT_HIDING = HidingRules(DEFAULT_HIDDEN, ALWAYS_SHOWN)

_Key = tuple[int, str, tuple[object, ...]]


def _explain_refusal(error: OSError) -> EngineError:
    """Return the error to raise if the system refused something before a process could start."""
    where = f"{error.filename}: " if error.filename else ""
    return EngineError(explain_start_failure(f"no process can be started: {where}{error.strerror}"))


class SandboxState(NamedTuple):
    """What a sandbox holds at one moment, for reports and tests."""

    fork_server: ForkServerClient | None
    idle: tuple[SupervisorHandle, ...]
    """Supervisors without a job and without a prepared slot."""
    prepared: tuple[tuple[Slot, ...], ...]
    """The prepared slots of each set of grants; the set that was used last comes last."""
    jobs: tuple[RunningProcess, ...]
    workspaces: tuple[str, ...]
    """Workspaces to which running jobs may write."""


@dataclass(slots=True)
class KernelSandbox:
    """Runs processes in one tier. Use it as an asynchronous context manager, or `close` it.

    `job_user` is the user that jobs become when Paddock runs as root; for None and 0, `spec.user` decides.
    With `protected_paths` "refuse", a job that could change a protected path does not start
    (`child.protected_paths`).
    """

    facts: SandboxFacts
    tier: Tier = "landlock"
    job_user: int | None = None
    protected_paths: Protection = "restore"
    protection: ProtectionRules = BUILT_IN_RULES
    """What is protected in addition to the built-in list, and what is not."""
    hiding: HidingRules = DEFAULT_HIDING
    """Which files of granted folders no program can read."""
    scratch_root: Path = field(default_factory=lambda: Path(tempfile.gettempdir()).absolute())
    group: ControlGroup | None = None
    """Control group of all jobs, if its limits hold (`paddock.confinement.sandbox.tiers`); this sandbox releases it."""
    own: tuple[str, ...] = ()
    """Paddock's own directories (`state_paths`). No program can access them, even if a parent is granted."""
    installed: tuple[str, ...] = ()
    """Where Paddock and its imports are installed. No program can write there, even if a parent is writable."""
    files: tuple[StateFile, ...] = ()
    """Paddock's own files in other directories. A program whose grants expose one does not start."""
    supervised: bool = True
    """Whether brokers change metadata of files for programs in the tier `landlock` (`child.supervised_calls`)."""
    spares: int = 0
    """Number of slots prepared for the next program of the same grants, after two programs used these grants."""
    _fork_server: ForkServerClient | None = None
    _idle: deque[SupervisorHandle] = field(default_factory=deque)
    _waiting: dict[_Key, deque[Slot]] = field(default_factory=dict)
    _jobs: set[RunningProcess] = field(default_factory=set)
    _known: dict[str, tuple[int, set[RunningProcess]]] = field(default_factory=dict)
    """For each workspace that running jobs may write to: the file that they share, and the jobs."""
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
        slot: Slot | None = None,
        stop: asyncio.Event | None = None,
        canary: str = "",
    ) -> ProcessResult:
        """Run a program to its end and return its result within the wall limit + 250 ms.

        A supervisor that does not report counts as lost after `GRACE_S`, and then the result is `lost`. The first turn
        of a job may take some seconds more, until the program has started (`paddock.confinement.sandbox.job`).

        Setting `stop` kills every process of the program, and the result is `cancelled`; nothing starts if it is set
        already. Cancelling the caller also kills the program before the cancellation continues. `slot` is a slot of
        the same grants and limits, which the caller releases.
        With `canary` the program is `child.canary` with that target.
        Raises EngineError only if Paddock's own machinery fails.
        """
        if stop is not None and stop.is_set():
            return ProcessResult(status=Status.CANCELLED, sandbox=self.facts)
        job = await self.launch(argv, grants, limits, streams, slot=slot, canary=canary)
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
        slot: Slot | None = None,
        canary: str = "",
    ) -> RunningProcess | ProcessResult:
        """Start a program and return it; if it may not start, return a result with the reason."""
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
            spec.check_network(grants, self.tier)
            spec.check_private(grants, own, self.tier, self.files, self.protection)
        except spec.GrantError as error:
            return ProcessResult(status=Status.INVALID, reason=str(error), sandbox=self.facts)
        if self.protected_paths == "refuse":
            try:
                spec.check_protection(grants, self.tier, self.protection)
            except spec.GrantError as error:
                return ProcessResult(
                    status=Status.DENIED, limit="protected", reason=str(error), sandbox=self.facts
                )
        kept = slot is not None
        slot = slot or await self._pick_slot(grants, limits)
        job = RunningProcess(slot, limits, streams, self.facts, jailed=self.tier == "namespaces", kept=kept)
        self._jobs.add(job)
        job.result.add_done_callback(lambda _: self._jobs.discard(job))
        try:
            slot_spec = slot.spec or self._build_slot_spec(grants, limits, slot.scratch)
            job_spec = spec.build_job_spec(slot_spec, list(argv), grants, limits, canary=canary)
            job.start(job_spec, *self._open_shared_file(job_spec.workspace, job))
        except OSError as error:
            job.result.cancel()
            if not kept:
                slot.release()
            raise _explain_refusal(error) from error
        return job

    def _open_shared_file(self, workspace: str, job: RunningProcess) -> tuple[int, ...]:
        """Return the file shared by all current jobs that may write to a workspace (`ProtectedPaths`)."""
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

    def describe_state(self) -> SandboxState:
        """Return what this sandbox holds now. The caller changes nothing in it."""
        prepared = tuple(tuple(slots) for slots in self._waiting.values())
        return SandboxState(
            self._fork_server, tuple(self._idle), prepared, tuple(self._jobs), tuple(self._known)
        )

    async def finish_refills(self) -> None:
        """Wait until the slots that are being prepared are ready. Raises EngineError if one cannot be prepared."""
        await asyncio.gather(*self._refills)

    async def prepare(self, grants: ProcessGrants, limits: ProcessLimits, count: int) -> None:
        """Prepare `count` slots for programs of these grants, each with its scratch and its jail.

        A slot is used once. It depends on the grants and the scratch limit, not on the program and its environment.
        """
        key = self._key(grants, limits)
        self._note(key)
        while len(self._waiting.get(key, ())) < count:
            slot = await self._open_slot(grants)
            self._prepare(slot, grants, limits)
            self._note(key).append(slot)

    def _prepare(self, slot: Slot, grants: ProcessGrants, limits: ProcessLimits) -> None:
        try:
            slot.prepare(self._build_slot_spec(grants, limits, slot.scratch))
        except OSError as error:
            slot.release()
            raise _explain_refusal(error) from error

    def _note(self, key: _Key) -> deque[Slot]:
        """Return the slots prepared for a key, and mark the key as the most recently used."""
        slots = self._waiting[key] = self._waiting.pop(key, deque[Slot]())
        while len(self._waiting) > _MAX_PREPARED_GRANTS:
            self._drop(next(iter(self._waiting)))
        return slots

    def _key(self, grants: ProcessGrants, limits: ProcessLimits) -> _Key:
        """Return what two programs must have in common to use the same slot."""
        text = grants.model_dump_json(exclude={"environment", "cwd", "folder"})
        own = (*self.own, *self._find_installation(grants))
        return limits.scratch_bytes, text, spec.state(grants, own, self.protection)

    def user(self, grants: ProcessGrants) -> int | None:
        """Return the user that jobs of these grants become; None for this process's user (`spec.user`)."""
        return spec.user(grants, self.job_user, self.tier)

    def _find_installation(self, grants: ProcessGrants) -> tuple[str, ...]:
        """Return the directories of Paddock's installation that a program with these grants could otherwise change."""
        workspace = [grants.workspace] if grants.workspace and grants.access == "workspace-write" else []
        return state_paths.find_exposed_installation(self.installed, [*workspace, *grants.writable])

    def _build_slot_spec(self, grants: ProcessGrants, limits: ProcessLimits, scratch: Path) -> JobSpec:
        return spec.build_slot_spec(
            grants,
            limits,
            tier=self.tier,
            abi=landlock.read_abi_version(),
            scratch=scratch,
            job_user=self.job_user,
            group=self.group.path if self.group else "",
            supervised=self.supervised,
            own=self.own,
            installed=self._find_installation(grants),
            rules=self.protection,
            hiding=self.hiding,
        )

    async def take_slot(self, grants: ProcessGrants, limits: ProcessLimits) -> Slot:
        """Return a slot for one program of these grants and limits; the caller fills and releases it.

        The supervisor prepares the slot while the caller fills it.
        """
        slot = await self._pick_slot(grants, limits)
        if slot.state == "empty":
            self._prepare(slot, grants, limits)
        return slot

    async def _pick_slot(self, grants: ProcessGrants, limits: ProcessLimits) -> Slot:
        if not self.spares and not self._waiting:
            return await self._open_slot(grants)
        key = self._key(grants, limits)
        again = key in self._waiting
        waiting = self._note(key)
        while waiting and not waiting[0].supervisor.alive:
            waiting.popleft().release()
        slot = waiting.popleft() if waiting else await self._open_slot(grants)
        if self.spares and again:
            self._refill_for(slot, key, grants, limits)
        return slot

    def _refill_for(self, slot: Slot, key: _Key, grants: ProcessGrants, limits: ProcessLimits) -> None:
        """Prepare the next slot after this slot's program ends, or during it if programs come in a row.

        Preparing takes processor time: during the program, from that program; afterwards, from an immediate next one.
        """
        now = asyncio.get_running_loop().time
        refill = partial(self._refill, key, grants, limits)

        def start() -> None:
            if now() - self._last_end < MAX_PAUSE_S:
                refill()

        def end() -> None:
            self._last_end = now()
            refill()

        slot.make_next, slot.on_start, slot.on_end = refill, start, end

    def _refill(self, key: _Key, grants: ProcessGrants, limits: ProcessLimits) -> None:
        if self._closing:  # `close` would not end a refill that starts from now on
            return
        if len(self._waiting.get(key, ())) >= self.spares:  # computing the current key would cost more
            return
        task = asyncio.create_task(self.prepare(grants, limits, self.spares))
        self._refills.add(task)
        task.add_done_callback(self._refills.discard)

    async def _open_slot(self, grants: ProcessGrants) -> Slot:
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
        for slot in self._waiting.pop(key):
            slot.release()

    async def close(self) -> None:
        """End every job, every prepared slot and the fork server. Removing large scratch directories may take longer.

        If the caller is cancelled, this finishes before the cancellation continues.
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
