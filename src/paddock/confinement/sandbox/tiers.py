"""Find the strongest tier that holds on this machine: try each one, and trust only what a canary failed to do.

A tier is proved at run time by a child that starts as every job does and then attacks the tier. Nothing is concluded
from versions. A tier that is not proved is not used. The next weaker one is used only if the minimum allows it.
"""

import json
import os
import pwd
import resource
import shutil
import tempfile
from pathlib import Path

from paddock.confinement.sandbox import spec
from paddock.confinement.sandbox.canary_run import CanaryError, run_canary
from paddock.confinement.sandbox.child import (
    canary,
    cgroup,
    landlock,
    lockdown,
    namespaces,
    permissions,
    preflight,
)
from paddock.confinement.sandbox.child.hiding import HidingRules
from paddock.confinement.sandbox.child.messages import OUT_OF_MEMORY
from paddock.confinement.sandbox.child.protection import BUILT_IN_RULES, ProtectionRules
from paddock.confinement.sandbox.sandbox import DEFAULT_HIDING, KernelSandbox
from paddock.confinement.sandbox.state_paths import StateFile
from paddock.foundation.files import make_temporary_directory
from paddock.model.errors import NO_MORE_PROCESSES, EngineError, explain_start_failure
from paddock.model.outcome import SandboxFacts, Status
from paddock.model.process import ProcessGrants, ProcessLimits, ProcessResult
from paddock.model.sandbox import TIERS, Examination, Layer, Tier, TierReport
from paddock.policy.settings.schema import Protection

_SAMPLED = (
    "memory, CPU time, process count and scratch are sampled: a burst between two samples is noticed late"
)
_SAMPLED_BESIDE_GROUP = "CPU time and scratch are sampled: a burst between two samples is noticed late"
_UNSEEN = "memory of pipes, sockets and mappings is not counted without a control group"
_LOCKS = "memory of file locks is not counted"
_MADE_LATER = (
    "files with secrets that are made or replaced after the start of a program are not hidden from it"
)
_ALWAYS = (
    _SAMPLED,
    _UNSEEN,
    _LOCKS,
    "protected paths that a program makes are removed after the run, not prevented",
    _MADE_LATER,
)
_CHANGE_OWN = 'chmod 700 "$TMPDIR"'
"""What an honest program does after the canary: it needs supervised calls that work."""
_CANARY_MEMORY, _CANARY_TAKES = 32 * 1024 * 1024, 48 * 1024 * 1024
SIGNAL_RISK = "programs that run as the same user can end each other's processes (Landlock before ABI 6)"
_SUPERVISED = "supervised system calls"
_CALLS = "chmod, chown, utime, setxattr and inotify_add_watch"
_WITHOUT_LANDLOCK = "this kernel offers no Landlock: files are confined by the built root alone"
OWNED_FILES_RISK = (
    "programs can change mode, times and attributes of outside files that their user owns (chmod, utime)"
)
_ROOT_USER = (
    "programs with a workspace are root without its powers (sandbox.job_user): they can change mode, times and "
    "attributes of every file that root owns (chmod, utime)"
)
RESIDUAL_RISKS: dict[Tier, tuple[str, ...]] = {
    "namespaces": _ALWAYS,
    "landlock": (
        "programs can see names, sizes and owners of outside files (stat)",
        "programs can read the mounts and connections of the machine (/proc)",
        OWNED_FILES_RISK,
        "changes to protected paths of a writable workspace are undone after the run, not prevented",
        *_ALWAYS,
    ),
    "unconfined": ("everything: the program has all powers of its user", *_ALWAYS),
}
"""What each tier does not close. `_facts` adapts it to the machine, and adds `SIGNAL_RISK` before Landlock ABI 6.

One risk of `landlock` is not here, because only sessions have it: a frozen process that may not be traced can continue
itself (`child/freeze.py`)."""
_LAYERS: dict[Tier, tuple[str, ...]] = {
    "namespaces": ("pid, mount, network, ipc, uts, user and cgroup namespaces (bubblewrap)", "built root"),
    "landlock": (),
    "unconfined": (),
}


async def examine(minimum: Tier, job_user: int | None = None) -> Examination:
    """Try every tier on this machine and return the findings. Takes about 0.2 s."""
    unconfined = _report_unconfined(job_user)
    async with KernelSandbox(unconfined.facts) as starter:
        tiers = (
            await prove("namespaces", job_user, starter),
            await prove("landlock", job_user, starter),
            unconfined,
        )
        allowed = [tier for tier in tiers if tier.proved or (tier.tier == minimum == "unconfined")]
        effective = allowed[0] if allowed else None
        async with KernelSandbox(
            tiers[0].facts,
            effective.tier if effective else minimum,
            job_user,
            supervised=effective is None or not effective.unsupervised,
        ) as sandbox:
            sandbox.adopt_fork_server(starter)
            group = await _limit_by_group(sandbox)
            if effective is not None:
                supervised = not effective.unsupervised
                facts = _facts(effective.tier, job_user, sandbox.group, supervised=supervised)
                effective = effective.model_copy(update={"facts": facts})
    layers = (
        _landlock(),
        _bubblewrap(),
        _user_namespaces(),
        *_examine_supervised_calls(tiers[1], job_user),
        group,
    )
    layers = (*layers, *find_job_user(job_user), *find_stack_limit())
    users = "" if effective is None else _users(effective.tier, job_user)
    return Examination(layers=layers, tiers=tiers, minimum=minimum, effective=effective, users=users)


def _users(tier: Tier, job_user: int | None) -> str:
    """Return which user programs run as in a tier, and the consequences for workspaces; "" unless Paddock is root."""
    if os.geteuid() != 0 or spec.user(ProcessGrants(), job_user, tier) is None:
        return ""
    number = spec.user(ProcessGrants(), job_user, tier)
    named = "sandbox.job_user" if job_user else "the default of sandbox.job_user"
    if spec.user(ProcessGrants(access="read-only"), job_user, tier) is None:
        return f"programs with a workspace run as root without its powers, others as user {number}"
    summary = f"programs run as user {number} ({named})"
    if job_user:
        return summary
    return (
        f"{summary}: in a workspace they read what every user may read, and a workspace of root's cannot be granted "
        'for writing; the tier namespaces, a workspace of that user, or job_user = "root" under [sandbox] allow it'
    )


async def choose(
    minimum: Tier,
    *,
    job_user: int | None = None,
    spares: int = 0,
    protected_paths: Protection = "restore",
    protection: ProtectionRules = BUILT_IN_RULES,
    hiding: HidingRules = DEFAULT_HIDING,
    repositories: bool = True,
    own: tuple[str, ...] = (),
    installed: tuple[str, ...] = (),
    files: tuple[StateFile, ...] = (),
) -> KernelSandbox:
    """Return a sandbox of the strongest proved tier.

    Its programs cannot access Paddock's `own` directories and `files`, nor write where it is `installed`.
    Raises EngineError, with the fix, if that tier is below `minimum`.
    """
    reports: list[TierReport] = []
    unconfined = _report_unconfined(job_user)
    async with KernelSandbox(unconfined.facts) as starter:
        for tier in reversed(TIERS[TIERS.index(minimum) :]):
            report = unconfined if tier == "unconfined" else await prove(tier, job_user, starter)
            if report.proved or tier == "unconfined":
                sandbox = KernelSandbox(
                    report.facts,
                    tier,
                    job_user,
                    protected_paths,
                    protection,
                    hiding,
                    repositories,
                    own=own,
                    installed=installed,
                    files=files,
                    supervised=not report.unsupervised,
                    spares=spares,
                )
                sandbox.adopt_fork_server(starter)
                try:
                    await _limit_by_group(sandbox)
                except BaseException:
                    await sandbox.close()
                    raise
                return sandbox
            reports.append(report)
    tiers: dict[str, list[str]] = {}
    for report in reports:
        tiers.setdefault(f"{report.why}{report.fix and f' (fix: {report.fix})'}", []).append(report.tier)
    reasons = "; ".join(f"{' and '.join(names)}: {why}" for why, names in tiers.items())
    raise EngineError(
        f"programs need at least the tier {minimum}, which is not available on this machine: {reasons}"
    )


async def prove(tier: Tier, job_user: int | None = None, starter: KernelSandbox | None = None) -> TierReport:
    """Run the canary in a tier, as every user that jobs run as, and then a program; return the findings.

    Supervised calls are proved, too, where programs need them. If they do not hold, the tier is proved without them.
    The fork server is the one of `starter`, if it has one, and `starter` has it after a proof.
    """
    report = await _prove(tier, job_user, starter, supervised=True)
    if report.proved or not _needs_supervised_calls(tier, job_user):
        return report
    plain = await _prove(tier, job_user, starter, supervised=False)
    return plain.replace(unsupervised=report.why)


def _needs_supervised_calls(tier: Tier, job_user: int | None) -> bool:
    grants = ProcessGrants(access="read-only")
    return not preflight.find_missing() and spec.needs_supervised_calls(grants, job_user, tier)


async def _prove(
    tier: Tier, job_user: int | None, starter: KernelSandbox | None, *, supervised: bool
) -> TierReport:
    facts = _facts(tier, job_user, supervised=supervised)
    layer = _bubblewrap() if tier == "namespaces" else _landlock()
    if not layer.available:
        return TierReport(tier=tier, proved=False, why=layer.detail, fix=layer.fix, facts=facts)
    needed = preflight.FOR_PROGRAMS
    if (
        why := preflight.find_missing()
        or preflight.powers_lacking(needed)
        or _explain_closed_directory(job_user)
    ):
        return TierReport(tier=tier, proved=False, why=why, facts=facts)
    try:
        with make_temporary_directory("paddock-canary-") as folder:
            sandbox = KernelSandbox(facts, tier, job_user, supervised=supervised)
            attempts = await attack(folder, sandbox, starter)
    except EngineError as error:
        return TierReport(tier=tier, proved=False, why=explain_start_failure(str(error)), facts=facts)
    except CanaryError as error:
        why = explain_start_failure(str(error))
        fix = _user_namespaces().fix if tier == "namespaces" and why != NO_MORE_PROCESSES else ""
        return TierReport(tier=tier, proved=False, why=why, fix=fix, facts=facts)
    accepted = () if supervised else (canary.CHANGE_METADATA,)
    worked = [name for name, refused in attempts.items() if not refused and name not in accepted]
    if worked:
        why = f"the canary could {', '.join(worked)}"
        return TierReport(
            tier=tier, proved=False, attempts=attempts, why=why, fix=_find_fix(worked), facts=facts
        )
    return TierReport(tier=tier, proved=True, attempts=attempts, facts=facts)


def _explain_closed_directory(job_user: int | None) -> str:
    """Return an error text if the user of programs may not enter the directory for temporary files; else ""."""
    number, folder = spec.user(ProcessGrants(), job_user, "landlock"), tempfile.gettempdir()
    closed = "" if number is None else permissions.find_barrier(folder, number)
    return closed and (
        f"programs run as user {number}, which may not enter {closed}, and Paddock keeps what they write in {folder}"
        "; set TMPDIR to a directory that every user may enter, such as /tmp"
    )


async def attack(
    folder: Path, sandbox: KernelSandbox, starter: KernelSandbox | None = None
) -> dict[str, bool]:
    """Return for each attempt of the canary whether it was refused. Raises CanaryError if the canary cannot run.

    Closes `sandbox`, except for its fork server if `starter` takes that over.
    """
    limits = ProcessLimits(timeout_ms=10_000)

    async def run(grants: ProcessGrants, target: str) -> ProcessResult:
        return await sandbox.run(["canary"], grants, limits, canary=target)

    async with sandbox:
        if starter is not None:
            sandbox.adopt_fork_server(starter)
        attempts, workspace = await run_canary(folder, run)
        ran = await sandbox.run(["/bin/true"], limits=limits)
        reading = ProcessGrants(workspace=workspace, access="read-only")
        changed = await sandbox.run(["/bin/sh", "-c", _CHANGE_OWN], reading, limits)
        if starter is not None:
            starter.adopt_fork_server(sandbox)
    for program, result in (("/bin/true", ran), (_CHANGE_OWN, changed)):
        if result.status is not Status.OK:
            raise CanaryError(f"{program}: {result.reason or result.stderr.head.strip() or result.status}")
    return attempts


def _find_fix(worked: list[str]) -> str:
    if worked == ["truncate a file outside"]:
        return "run Linux 6.2 or later (Landlock ABI 3), or install bubblewrap: apt install bubblewrap"
    if set(worked) <= {"signal Paddock", "truncate a file outside"}:
        return (
            "run Linux 6.12 or later (Landlock ABI 6), or install bubblewrap: apt install bubblewrap; "
            "as root, leave sandbox.job_user empty, or name a user that is not root"
        )
    return ""


def _report_unconfined(job_user: int | None) -> TierReport:
    fix = 'opt in with minimum_tier = "unconfined" below [sandbox] in paddock.toml'
    facts = _facts("unconfined", job_user)
    return TierReport(tier="unconfined", proved=False, why="nothing is confined", fix=fix, facts=facts)


_SAMPLES = (
    "therefore Paddock samples the memory and processes of programs, and ends a program that went beyond between two "
    "samples late, and does not see memory in sockets and mappings; with cgroup v2 the kernel refuses both at once"
)
_DELEGATE = (
    "under systemd, run Paddock in a separate group: systemd-run --user --scope -p Delegate=yes paddock ...; "
    "in a container, give it a writable cgroup v2 hierarchy"
)


async def _limit_by_group(sandbox: KernelSandbox) -> Layer:
    """Give a sandbox a control group for its jobs if one is delegated and its limit holds; return the findings."""
    name = "cgroup v2"
    try:
        group = sandbox.group = cgroup.ControlGroup(cgroup.find_delegated_folder())
    except (cgroup.GroupRefusal, OSError) as error:
        why = f"{error.filename}: {error.strerror}" if isinstance(error, OSError) else str(error)
        return Layer(name=name, available=False, detail=f"{why}; {_SAMPLES}", fix=_DELEGATE)
    limits = ProcessLimits(timeout_ms=10_000, memory_bytes=_CANARY_MEMORY)
    target = json.dumps({"take": _CANARY_TAKES})
    result = await sandbox.run(["canary"], limits=limits, canary=target)
    if (result.limit, result.reason) != ("memory", OUT_OF_MEMORY):
        sandbox.group = None
        group.release()
        outcome = result.reason or result.status
        detail = f"the memory limit of a control group was tried and did not hold ({outcome}); {_SAMPLES}"
        return Layer(name=name, available=False, detail=detail)
    sandbox.facts = _facts(sandbox.tier, sandbox.job_user, group, supervised=sandbox.supervised)
    return Layer(name=name, available=True, detail="memory and processes are limited by the kernel")


def _facts(
    tier: Tier, job_user: int | None, group: cgroup.ControlGroup | None = None, *, supervised: bool = True
) -> SandboxFacts:
    """Return the layers of a tier, and its residual risks as they are on this machine."""
    supervised = supervised and _needs_supervised_calls(tier, job_user)
    layers = list(_LAYERS[tier])
    if tier != "unconfined":
        layers += [f"Landlock ABI {version}"] if (version := landlock.read_abi_version()) else []
        layers += ["system call filter"]
    layers += [_SUPERVISED] if supervised else []
    layers += ["no_new_privs, no capabilities", "resource limits", "subreaper"]
    layers += ["control group (memory, processes)"] if group else []
    scoped = tier != "landlock" or landlock.read_abi_version() >= landlock.SCOPE_ABI
    residual = RESIDUAL_RISKS[tier]
    if supervised:  # the broker refuses those calls
        residual = tuple(risk for risk in residual if risk != OWNED_FILES_RISK)
    has_built_in_user = not job_user and not preflight.find_missing()
    # Paddock is root: programs run as user 65531, which may own files, or as root without its powers.
    if has_built_in_user and spec.user(ProcessGrants(), job_user, "landlock") is not None:
        owned = (OWNED_FILES_RISK,) if _is_an_account(lockdown.JOB_UID) else ()
        actual = (_ROOT_USER,) if job_user is not None else owned
        residual = tuple(
            kept for risk in residual for kept in (actual if risk == OWNED_FILES_RISK else (risk,))
        )
    # An old kernel, or one without Landlock, leaves more.
    residual = residual if scoped else (SIGNAL_RISK, *residual)
    if tier == "namespaces" and not landlock.read_abi_version():
        residual = (_WITHOUT_LANDLOCK, *residual)
    if group:  # the kernel limits memory and processes, and counts all memory
        residual = tuple(
            _SAMPLED_BESIDE_GROUP if risk == _SAMPLED else risk for risk in residual if risk != _UNSEEN
        )
    own = os.geteuid()
    # The settings ask for a user that only root can become.
    if job_user not in {None, 0, own} and spec.user(ProcessGrants(), job_user, "landlock") is None:
        residual = (
            f"programs run as user {own}: only root of the machine can make them user {job_user} (sandbox.job_user)",
            *residual,
        )
    return SandboxFacts(tier=tier, layers=tuple(layers), residual=residual)


def _is_an_account(number: int) -> bool:
    """Return whether a user number belongs to an account, which may own files."""
    try:
        pwd.getpwuid(number)
    except KeyError:
        return False
    return True


def _landlock() -> Layer:
    version = landlock.read_abi_version()
    if version:
        return Layer(name="landlock", available=True, detail=f"ABI {version}")
    return Layer(
        name="landlock",
        available=False,
        detail="this kernel offers no Landlock",
        fix="run Linux 5.13 or later with CONFIG_SECURITY_LANDLOCK=y, and add `landlock` to the lsm= boot parameter",
    )


def _examine_supervised_calls(report: TierReport, job_user: int | None) -> list[Layer]:
    """Return whether system calls that change metadata are supervised; nothing if no program needs that."""
    name, tier = "supervised calls", report.tier
    if not report.proved or not _needs_supervised_calls(tier, job_user):
        return []
    if not report.unsupervised:
        return [Layer(name=name, available=True, detail=f"{_CALLS} in the tier {tier}")]
    detail = (
        f"{report.unsupervised}; programs in the tier {tier} can change files outside that their user owns"
    )
    fix = (
        "run Linux 5.6 or later, and allow seccomp(2) with a listener; as root, leave sandbox.job_user empty"
    )
    return [Layer(name=name, available=False, detail=detail, fix=fix)]


def _bubblewrap() -> Layer:
    found = shutil.which(namespaces.BUBBLEWRAP)
    if found:
        return Layer(name="bubblewrap", available=True, detail=found)
    detail = f"{namespaces.BUBBLEWRAP} does not exist"
    return Layer(name="bubblewrap", available=False, detail=detail, fix="apt install bubblewrap")


def _user_namespaces() -> Layer:
    for name, off, value in (
        ("user.max_user_namespaces", "0", "15000"),
        ("kernel.unprivileged_userns_clone", "0", "1"),
        ("kernel.apparmor_restrict_unprivileged_userns", "1", "0"),
    ):
        path = Path("/proc/sys", *name.split("."))
        try:
            is_off = path.read_text().strip() == off
        except OSError:
            continue
        if is_off:
            fix = f"sysctl -w {name}={value}"
            return Layer(name="user namespaces", available=False, detail=f"{name} is {off}", fix=fix)
    return Layer(
        name="user namespaces",
        available=True,
        detail="not switched off",
        fix="in a container, allow unshare, setns and mount in the seccomp profile: "
        "docker run --security-opt seccomp=unconfined --security-opt apparmor=unconfined",
    )


def find_job_user(job_user: int | None) -> list[Layer]:
    """Return whether the user that jobs become, if another, can enter every directory of the search path."""
    number = None if preflight.find_missing() else spec.user(ProcessGrants(), job_user, "landlock")
    if number is None:
        return []
    whose = "programs" if job_user is not None else "compilers, and programs without the workspace,"
    name = f"{whose} run as user {number}"
    folders = [folder for folder in os.environ.get("PATH", "").split(":") if Path(folder).is_dir()]
    closed = {folder: barrier for folder in folders if (barrier := permissions.find_barrier(folder, number))}
    if not closed:
        return [Layer(name="PATH of programs", available=True, detail=f"{name}, which can enter all of PATH")]
    detail = f"{name}, which cannot enter {', '.join(closed)} of PATH"
    fix = f"install toolchains outside of {', '.join(sorted(set(closed.values())))}, for instance with apt"
    return [Layer(name="PATH of programs", available=False, detail=detail, fix=fix)]


def find_stack_limit() -> list[Layer]:
    """Return the inherited hard limit of the stack, if this process cannot raise it (getrlimit(2))."""
    lockdown.lift_stack_limit()
    _, hard_bytes = resource.getrlimit(resource.RLIMIT_STACK)
    if hard_bytes == resource.RLIM_INFINITY:
        return []
    detail = (
        f"the hard limit is {hard_bytes} bytes, and Paddock cannot raise it; therefore a program with a larger stack "
        "is ended by SIGSEGV, although its memory limit allows more"
    )
    fix = "start Paddock where `ulimit -Hs` prints unlimited; under systemd, set LimitSTACK=infinity"
    return [Layer(name="stack of programs", available=False, detail=detail, fix=fix)]
