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
from paddock.confinement.sandbox.child import landlock, overlay
from paddock.confinement.sandbox.child.cgroup import ControlGroup
from paddock.confinement.sandbox.child.hiding import HidingRules
from paddock.confinement.sandbox.child.messages import GuardedFolder, JobSpec
from paddock.confinement.sandbox.child.protection import BUILT_IN_RULES, ProtectionRules
from paddock.confinement.sandbox.fork_server import ForkServerClient, Jail, SupervisorHandle
from paddock.confinement.sandbox.process import GRACE_S, RunningProcess
from paddock.confinement.sandbox.protocol import Streams
from paddock.confinement.sandbox.repository import Repository, find_repository
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
"""Maximum sets of grants for which spare jails are kept. The least recently used set loses its own first."""
_MAX_SPECS = 16
"""Maximum number of jail specs that are kept for other jails."""
_SPEC_AGE_S = 1.0
"""Maximum age of such a spec, in seconds. Building one takes a tenth of this process's time for a program."""
_PREPARED_S, _LOOK_S = 10.0, 0.001
"""Maximum time to wait for the preparation of a jail, and the time between two looks at it, in seconds."""
MAX_PAUSE_S = 0.05
"""Programs come in a row if one starts within this time after the end of another, in seconds."""

DEFAULT_HIDING = HidingRules(DEFAULT_HIDDEN, ALWAYS_SHOWN)

_Key = tuple[int, str, tuple[object, ...]]
_GuardKey = tuple[str, tuple[object, ...]]
"""A folder, and what is protected there: the fields of `ProtectionRules`."""


def _explain_refusal(error: OSError) -> EngineError:
    """Return the error to raise if the system refused something before a process could start."""
    where = f"{error.filename}: " if error.filename else ""
    return EngineError(explain_start_failure(f"no process can be started: {where}{error.strerror}"))


class SandboxState(NamedTuple):
    """What a sandbox holds at one moment, for reports and tests."""

    fork_server: ForkServerClient | None
    idle: tuple[SupervisorHandle, ...]
    """Supervisors without a job and without a spare jail."""
    prepared: tuple[tuple[Jail, ...], ...]
    """The spare jails of each set of grants; the set that was used last comes last."""
    processes: tuple[RunningProcess, ...]
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
    repositories: bool = True
    """Whether programs may use the git repository of their workspace if its `.git` is elsewhere (`repository`)."""
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
    """Number of spare jails for the next program of the same grants, after two programs used these grants."""
    _fork_server: ForkServerClient | None = None
    _idle: deque[SupervisorHandle] = field(default_factory=deque)
    _spare_jails: dict[_Key, deque[Jail]] = field(default_factory=dict)
    _specs: dict[tuple[_Key, Path], tuple[float, JobSpec]] = field(default_factory=dict)
    """Jail specs for the supervisor of a folder, each with the time until which it may be used."""
    _processes: set[RunningProcess] = field(default_factory=set)
    _known: dict[_GuardKey, tuple[int, set[RunningProcess]]] = field(default_factory=dict)
    """For each folder that running jobs may write to: the file that they share, and the jobs."""
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
        slot: Jail | None = None,
        stop: asyncio.Event | None = None,
        canary: str = "",
    ) -> ProcessResult:
        """Run a program to its end and return its result within the wall limit + 250 ms.

        A supervisor that does not report counts as lost after `GRACE_S`, and then the result is `lost`. The first turn
        of a job may take some seconds more, until the program has started (`paddock.confinement.sandbox.process`).

        Setting `stop` kills every process of the program, and the result is `cancelled`; nothing starts if it is set
        already. Cancelling the caller also kills the program before the cancellation continues. `slot` is a slot of
        the same grants and limits, which the caller releases.
        With `canary` the program is `child.canary` with that target.
        Raises EngineError only if Paddock's own machinery fails.
        """
        if stop is not None and stop.is_set():
            return ProcessResult(status=Status.CANCELLED, sandbox=self.facts)
        process = await self.launch(argv, grants, limits, streams, slot=slot, canary=canary)
        if isinstance(process, ProcessResult):
            return process
        with call_when_set(stop, process.kill):
            try:
                return await asyncio.shield(process.result)
            except asyncio.CancelledError:
                process.kill()
                await asyncio.wait({process.result}, timeout=GRACE_S)
                raise

    async def has_overlay(self, slot: Jail) -> bool:
        """Return whether the overlay of a prepared slot is mounted, not refused by the kernel or a file system.

        Waits until that is known. If the jail cannot be prepared for another reason, `run` reports it.
        """
        deadline = asyncio.get_running_loop().time() + _PREPARED_S
        while (state := overlay.read_state(str(slot.scratch))) == "pending":
            if asyncio.get_running_loop().time() > deadline:
                break
            await asyncio.sleep(_LOOK_S)
        return state != "refused"

    async def launch(
        self,
        argv: Sequence[str],
        grants: ProcessGrants | None = None,
        limits: ProcessLimits | None = None,
        streams: Streams | None = None,
        *,
        slot: Jail | None = None,
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
            spec.check_tier(grants, self.tier)
            spec.check_private(grants, own, self.tier, self.files, self.protection)
            repository = self._find_repository(grants)
        except spec.GrantError as error:
            return ProcessResult(status=Status.INVALID, reason=str(error), sandbox=self.facts)
        if self.protected_paths == "refuse":
            try:
                spec.check_protection(grants, self.tier, self.protection, repository)
            except spec.GrantError as error:
                return ProcessResult(
                    status=Status.DENIED, limit="protected", reason=str(error), sandbox=self.facts
                )
        kept = slot is not None
        slot = slot or await self._pick_jail(grants, limits)
        process = RunningProcess(
            slot, limits, streams, self.facts, in_namespaces=self.tier == "namespaces", kept=kept
        )
        if repository is not None:
            process.withheld = repository.refused or repository.read_only
        self._processes.add(process)
        process.result.add_done_callback(lambda _: self._processes.discard(process))
        try:
            jail_spec = slot.spec or self._build_jail_spec(grants, limits, slot.scratch)
            job_spec = spec.build_job_spec(
                jail_spec, list(argv), grants, limits, canary=canary, repository=repository
            )
            process.start(job_spec, *self._open_shared_files(job_spec.guarded, process))
        except OSError as error:
            process.result.cancel()
            if not kept:
                slot.release()
            raise _explain_refusal(error) from error
        if streams.on_start is not None:
            streams.on_start(process.measure)
        return process

    def _open_shared_files(self, guarded: Sequence[GuardedFolder], process: RunningProcess) -> list[int]:
        """Return the file of each guarded folder, shared by all current jobs that may write there."""
        return [self._open_shared_file((each.path, tuple(each.rules)), process) for each in guarded]

    def _open_shared_file(self, key: _GuardKey, process: RunningProcess) -> int:
        """Return the file shared by all current jobs that may write to a folder (`ProtectedPaths`)."""
        file, processes = self._known.get(key) or (
            os.memfd_create("known", os.MFD_CLOEXEC),
            set[RunningProcess](),
        )
        self._known[key] = file, processes
        processes.add(process)

        def forget(_: object) -> None:
            processes.discard(process)
            if not processes:
                os.close(file)
                del self._known[key]

        process.result.add_done_callback(forget)
        return os.dup(file)

    def describe_state(self) -> SandboxState:
        """Return what this sandbox holds now. The caller changes nothing in it."""
        prepared = tuple(tuple(jails) for jails in self._spare_jails.values())
        return SandboxState(
            self._fork_server,
            tuple(self._idle),
            prepared,
            tuple(self._processes),
            tuple(folder for folder, _ in self._known),
        )

    async def finish_refills(self) -> None:
        """Wait until the spare jails are ready. Raises EngineError if one cannot be prepared."""
        await asyncio.gather(*self._refills)

    async def prepare(self, grants: ProcessGrants, limits: ProcessLimits, count: int) -> None:
        """Prepare `count` spare jails for programs of these grants, each with its scratch.

        A jail is used once. It depends on the grants and the scratch limit, not on the program and its environment.
        """
        key = self._key(grants, limits)
        self._note(key)
        while len(self._spare_jails.get(key, ())) < count:
            jail = await self._open_jail(grants)
            self._prepare(jail, grants, limits, key)
            self._note(key).append(jail)

    def _prepare(
        self, jail: Jail, grants: ProcessGrants, limits: ProcessLimits, key: _Key | None = None
    ) -> None:
        try:
            jail.prepare(
                self._build_jail_spec(grants, limits, jail.scratch)
                if key is None
                else self._find_jail_spec(grants, limits, jail.scratch, key)
            )
        except OSError as error:
            jail.release()
            raise _explain_refusal(error) from error

    def _note(self, key: _Key) -> deque[Jail]:
        """Return the spare jails of a key, and mark the key as the most recently used."""
        jails = self._spare_jails[key] = self._spare_jails.pop(key, deque[Jail]())
        while len(self._spare_jails) > _MAX_PREPARED_GRANTS:
            self._drop(next(iter(self._spare_jails)))
        return jails

    def _key(self, grants: ProcessGrants, limits: ProcessLimits) -> _Key:
        """Return what two programs must have in common to use the same jail."""
        text = grants.model_dump_json(exclude={"environment", "cwd", "folder"})
        own = (*self.own, *self._find_installation(grants))
        repository = self._find_repository(grants)
        return limits.scratch_bytes, text, spec.state(grants, own, self.protection, repository)

    def user(self, grants: ProcessGrants) -> int | None:
        """Return the user that jobs of these grants become; None for this process's user (`spec.user`)."""
        return spec.user(grants, self.job_user, self.tier)

    def _find_repository(self, grants: ProcessGrants) -> Repository | None:
        """Return the git repository of a granted workspace whose `.git` is elsewhere, unless settings withhold it."""
        if (
            not self.repositories
            or self.tier == "unconfined"
            or grants.workspace is None
            or grants.access == "none"
        ):
            return None
        found = find_repository(
            os.path.realpath(grants.workspace),
            writes=grants.access == "workspace-write",
            in_namespaces=self.tier == "namespaces",
        )
        if found is None or found.refused:
            return found
        exposed = state_paths.keeper(self.own, found.folder) or state_paths.within(self.own, [found.folder])
        if exposed or any(state_paths.is_exposed(file, [found.folder]) for file in self.files):
            return Repository("", "", "", refused="Paddock keeps its own files in it")
        return found

    def _find_installation(self, grants: ProcessGrants) -> tuple[str, ...]:
        """Return the directories of Paddock's installation that a program with these grants could otherwise change."""
        workspace = [grants.workspace] if grants.workspace and grants.access == "workspace-write" else []
        return state_paths.find_exposed_installation(self.installed, [*workspace, *grants.writable])

    def _build_jail_spec(self, grants: ProcessGrants, limits: ProcessLimits, scratch: Path) -> JobSpec:
        return spec.build_jail_spec(
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
            repository=self._find_repository(grants),
        )

    def _find_jail_spec(
        self, grants: ProcessGrants, limits: ProcessLimits, scratch: Path, key: _Key
    ) -> JobSpec:
        """Return a jail spec like a recent one of the same key, or build it.

        One with write access is always built, because that may make directories to hide.
        """
        if grants.access == "workspace-write" or grants.writable:
            return self._build_jail_spec(grants, limits, scratch)
        now, index = asyncio.get_running_loop().time(), (key, scratch.parent)
        until, known = self._specs.pop(index, (now, None))
        if known is None or now >= until:
            until, known = now + _SPEC_AGE_S, self._build_jail_spec(grants, limits, scratch)
        self._specs[index] = until, known
        while len(self._specs) > _MAX_SPECS:
            del self._specs[next(iter(self._specs))]
        return spec.move_jail_spec(known, str(scratch))

    async def take_slot(self, grants: ProcessGrants, limits: ProcessLimits) -> Jail:
        """Return a jail for one program of these grants and limits; the caller fills and releases it.

        The supervisor prepares the jail while the caller fills it.
        """
        jail = await self._pick_jail(grants, limits)
        if jail.state == "empty":
            self._prepare(jail, grants, limits)
        return jail

    async def _pick_jail(self, grants: ProcessGrants, limits: ProcessLimits) -> Jail:
        if not self.spares and not self._spare_jails:
            return await self._open_jail(grants)
        key = self._key(grants, limits)
        again = key in self._spare_jails
        spares = self._note(key)
        while spares and not spares[0].supervisor.alive:
            spares.popleft().release()
        jail = spares.popleft() if spares else await self._open_jail(grants)
        if self.spares and again:
            self._refill_for(jail, key, grants, limits)
        return jail

    def _refill_for(self, jail: Jail, key: _Key, grants: ProcessGrants, limits: ProcessLimits) -> None:
        """Prepare a spare jail after this one's program ends, or during it if programs come in a row.

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

        jail.make_next, jail.on_start, jail.on_end = refill, start, end

    def _refill(self, key: _Key, grants: ProcessGrants, limits: ProcessLimits) -> None:
        if self._closing:  # `close` would not end a refill that starts from now on
            return
        if len(self._spare_jails.get(key, ())) >= self.spares:  # computing the current key would cost more
            return
        task = asyncio.create_task(self.prepare(grants, limits, self.spares))
        self._refills.add(task)
        task.add_done_callback(self._refills.discard)

    async def _open_jail(self, grants: ProcessGrants) -> Jail:
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
            return Jail(supervisor, supervisor.next_scratch(self.user(grants)), self._take_back)
        except OSError as error:
            if supervisor is not None:
                self._take_back(supervisor)
            raise _explain_refusal(error) from error

    def _take_back(self, supervisor: SupervisorHandle) -> None:
        if self._fork_server is not None and len(self._idle) < _MAX_IDLE_SUPERVISORS:
            self._idle.append(supervisor)
        else:
            supervisor.socket.close()

    def adopt_fork_server(self, other: "KernelSandbox") -> None:
        """Take the fork server of another sandbox, which then has none; its supervisors stay there.

        Starting one takes half of the processor time of a proof.
        """
        self._fork_server, other._fork_server = other._fork_server, None  # noqa: SLF001 - the same class

    def _close_idle(self) -> None:
        while self._idle:
            self._idle.popleft().socket.close()

    def _drop(self, key: _Key) -> None:
        for jail in self._spare_jails.pop(key):
            jail.release()

    async def close(self) -> None:
        """End every job, every spare jail and the fork server. Removing large scratch directories may take longer.

        If the caller is cancelled, this finishes before the cancellation continues.
        """
        await run_shielded(self._close())

    async def _close(self) -> None:
        self._closing = True
        processes = list(self._processes)
        for process in processes:
            process.kill()
        if processes:
            await asyncio.wait({process.result for process in processes}, timeout=GRACE_S)
        for task in self._refills:
            task.cancel()
        await asyncio.gather(*self._refills, return_exceptions=True)
        for key in list(self._spare_jails):
            self._drop(key)
        self._close_idle()
        fork_server, self._fork_server = self._fork_server, None
        if fork_server is not None:
            await fork_server.close()
        if self.group is not None:
            self.group.release()
