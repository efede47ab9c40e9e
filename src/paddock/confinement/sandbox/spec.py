"""Turn grants and limits into a job spec: paths, user, environment. The only side effect is reading the file system."""

import contextlib
import functools
import os
import pwd
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path

from paddock.confinement.sandbox import state_paths
from paddock.confinement.sandbox.child import lockdown, namespaces, partial_grants, permissions
from paddock.confinement.sandbox.child.hiding import NOTHING, HidingRules
from paddock.confinement.sandbox.child.loopback import OWN_NETWORKS
from paddock.confinement.sandbox.child.messages import Ceilings, GuardedFolder, JobSpec
from paddock.confinement.sandbox.child.paths import list_links
from paddock.confinement.sandbox.child.protection import (
    BUILT_IN_RULES,
    PresentNames,
    ProtectionRules,
    list_protected_paths,
)
from paddock.confinement.sandbox.child.snapshot import TooLargeError
from paddock.confinement.sandbox.child.supervised_calls import METADATA_FILTER, SOCKET_FILTER, WATCH_FILTER
from paddock.confinement.sandbox.directories import explain_refusal, is_the_kernels, list_overlaid
from paddock.confinement.sandbox.repository import Repository
from paddock.foundation.files import SYSTEM_FOLDERS
from paddock.model.errors import ConfigurationError
from paddock.model.network import Network
from paddock.model.process import ProcessGrants, ProcessLimits
from paddock.model.sandbox import Tier

_ETC_FILES = (
    "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "alternatives", "ca-certificates", "crypto-policies",
    "passwd", "group", "nsswitch.conf", "localtime", "timezone", "mime.types", "os-release", "debian_version",
    "locale.alias", "inputrc", "terminfo", "magic", "fonts", "java", "perl", "python3", "R", "php", "ghc",
)  # fmt: skip
_ETC_CERTIFICATES = (
    "ssl/certs", "ssl/cert.pem", "ssl/openssl.cnf",
    "pki/ca-trust", "pki/java", "pki/tls/cert.pem", "pki/tls/certs", "pki/tls/openssl.cnf",
)  # fmt: skip
"""Without the folders `private` beside them: a program that runs as root may read their keys."""
_ETC_NAMES = ("hosts", "host.conf", "gai.conf", "protocols", "services")
_ETC_RESOLVER = ("resolv.conf",)
_MACHINE_FILES = ("/sys/devices/system/cpu", "/sys/kernel/mm/transparent_hugepage")
_READABLE_DEVICES = ("/dev/random", "/dev/urandom")
_DEVICES = ("/dev/null", "/dev/zero", "/dev/full")
_SCRATCH_VARIABLES = {
    "HOME": "home",
    "TMPDIR": "tmp",
    "TMP": "tmp",
    "TEMP": "tmp",
    "XDG_CACHE_HOME": "home/.cache",
    "XDG_CONFIG_HOME": "home/.config",
    "XDG_DATA_HOME": "home/.local/share",
}
_DEFAULTS = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8"}
_FILTERS: dict[Network, str] = {
    "none": "job", "loopback": "job-loopback", "hosts": "job-loopback", "full": "job-network",
}  # fmt: skip
_NO_OWN_NETWORK = (
    "network {network} needs the tier namespaces, which gives each program its own network; this is the tier "
    "{tier}. Make namespaces available (paddock doctor says how), or ask for another network: none, full"
)
_KEEP_ROOT = (
    'set job_user = "root" under [sandbox] in the settings of root; where calls are not supervised (paddock doctor), '
    "programs with a workspace can then change the mode, times and attributes of every file that root owns"
)
_OCCUPIED = "{path} is in {keeper}, where Paddock keeps its own files; work in another directory"


class GrantError(ValueError):
    """A grant is invalid or not permitted; nothing was started."""


def check(argv: Sequence[str], grants: ProcessGrants, own: Sequence[str] = ()) -> None:
    """Raise GrantError unless there is a program and every path is absolute, exists and fits its grant.

    No job may work in Paddock's `own` directories (`state_paths`).
    """
    if not argv or not argv[0]:
        raise GrantError("there is no program to run")
    if any("\0" in argument for argument in argv):
        raise GrantError("an argument contains a NUL character")
    if grants.access != "none" and grants.workspace is None:
        raise GrantError(f"access {grants.access} needs a workspace")
    folders = _folders(grants)
    for path in (*folders, *([grants.cwd] if grants.cwd else [])):
        if not path.is_absolute() or not path.is_dir():
            raise GrantError(f"{path} is not an absolute path of a directory")
    for path in grants.readable:
        if not path.is_absolute() or not path.exists():
            raise GrantError(f"{path} is not an absolute path of a file or directory that exists")
    for path in (*folders, *grants.readable):
        real = os.path.realpath(path)
        if real == "/" or is_the_kernels(real):
            raise GrantError(f"{path} can never be granted")
        if path in folders or path in grants.searched:
            _check_vacancy(path, real, grants, own)
    for path in grants.searched:
        if reason := explain_refusal(path, grants, folders):
            raise GrantError(reason)
    if grants.cwd:
        _check_vacancy(grants.cwd, str(grants.cwd), grants, own)
    for name, value in grants.environment.items():
        if not name or "=" in name or "\0" in name + value:
            raise GrantError(f"{name!r} is not the name of an environment variable with a value")


def _check_vacancy(path: Path, real: str, grants: ProcessGrants, own: Sequence[str]) -> None:
    """Raise GrantError for a directory in one of Paddock's own, except a script tool's beside the settings."""
    keeper = state_paths.keeper(own, real)
    if keeper and not any(state_paths.is_below(real, str(fixed)) for fixed in grants.fixed):
        raise GrantError(_OCCUPIED.format(path=path, keeper=keeper))


def read_protection(
    added: Sequence[str], removed: Sequence[str], environment: Mapping[str, str]
) -> ProtectionRules:
    """Return the rules of the settings, with the configuration that git reads for this user (git-config(1))."""
    home = environment.get("HOME") or os.path.expanduser("~")
    system = (
        ""
        if environment.get("GIT_CONFIG_NOSYSTEM")
        else environment.get("GIT_CONFIG_SYSTEM", "/etc/gitconfig")
    )
    own = environment.get("XDG_CONFIG_HOME") or f"{home}/.config"
    user = environment.get("GIT_CONFIG_GLOBAL")
    files = (system, *((f"{own}/git/config", f"{home}/.gitconfig") if user is None else (user,)))
    return ProtectionRules(tuple(added), tuple(removed), tuple(filter(os.path.isabs, files)), home)


def read_configured_user(name: str) -> int | None:
    """Return the user number for the setting `sandbox.job_user`; None if it is empty. Raises ConfigurationError.

    With 0, jobs with a workspace stay root, without any capability.
    """
    if not name:
        return None
    try:
        return int(name) if name.isdecimal() else pwd.getpwnam(name).pw_uid
    except KeyError:
        raise ConfigurationError(
            f"sandbox.job_user: there is no user {name} on this machine; name another, or make it: useradd -r {name}"
        ) from None


def check_reach(grants: ProcessGrants, job_user: int | None, tier: Tier) -> None:
    """Raise GrantError if the user that a job becomes cannot enter its directories, or not write to them."""
    number = user(grants, job_user, tier)
    if number is None:
        _check_reach_of_root(grants)
        return
    leaves_root = tier == "landlock" and not job_user
    for path in (*_folders(grants), *([grants.cwd] if grants.cwd else [])):
        if closed := permissions.find_barrier(str(path), number):
            remedy = (
                f"move it, make the tier namespaces available (paddock doctor says how), or {_KEEP_ROOT}"
                if leaves_root
                else "move it, or change sandbox.job_user"
            )
            raise GrantError(
                f"{path} is out of reach: programs run as user {number}, which may not enter {closed}; "
                f"let others through (chmod o+x {closed}), {remedy}"
            )
    if not leaves_root:
        return
    whole = [grants.workspace] if grants.workspace and grants.access == "workspace-write" else []
    for path in (*whole, *grants.writable):
        facts = path.stat()
        if permissions.may_write(facts, number, {number}):
            continue
        owner = facts.st_uid
        remedy = f'set job_user = "{owner}" under [sandbox]' if owner else _KEEP_ROOT
        raise GrantError(
            f"{path} cannot be granted for writing: it belongs to user {owner}, and programs run as user {number}, "
            "because Paddock is root, and in the tier landlock its programs run as a user that owns no other file; "
            "make the tier namespaces available (paddock doctor says how), give that user the "
            f"workspace (chown -R {number}:{number} {path}), or {remedy}"
        )


def check_tier(grants: ProcessGrants, tier: Tier) -> None:
    """Raise GrantError if the tier cannot give a job its own network, or overlays."""
    if tier != "namespaces" and grants.network in OWN_NETWORKS:
        raise GrantError(_NO_OWN_NETWORK.format(network=grants.network, tier=tier))
    if tier != "namespaces" and list_overlaid(grants):  # engines let a program work in a copy instead
        raise GrantError(
            f"access overlay needs the tier namespaces, which mounts it; this is the tier {tier}"
        )


def _check_reach_of_root(grants: ProcessGrants) -> None:
    """Raise GrantError if a job that stays root, without root's powers, cannot enter another user's workspace."""
    if os.geteuid() != 0 or grants.workspace is None or grants.access == "none":
        return
    if closed := permissions.find_barrier(str(grants.workspace), 0):
        owner = Path(closed).stat().st_uid
        raise GrantError(
            f"{grants.workspace} is out of reach: programs run as root without its powers, and only its owner may "
            f'enter {closed}; set job_user = "{owner}" under [sandbox], or let others through '
            f"(chmod o+x {closed})"
        )


def foreign(grants: ProcessGrants, job_user: int | None) -> str:
    """Return a hint if a workspace is granted for writing but the user of jobs may not write to it; else "".

    `job_user` is the one that the job ran as, None for this process's.
    """
    if os.geteuid() != 0 or grants.workspace is None or grants.access not in {"overlay", "workspace-write"}:
        return ""
    try:
        number, facts = job_user or 0, grants.workspace.stat()
    except OSError:  # the program may have removed it
        return ""
    if number == facts.st_uid or facts.st_mode & stat.S_IWOTH or facts.st_mode & stat.S_IWGRP:
        return ""
    remedy = (
        f'set job_user = "{facts.st_uid}" under [sandbox]'
        if facts.st_uid
        else f"let user {number} write to it"
    )
    return (
        f"{grants.workspace} belongs to user {facts.st_uid}, and programs run as user {number}, which may not write "
        f"to it; {remedy}"
    )


def check_private(
    grants: ProcessGrants,
    own: tuple[str, ...],
    tier: Tier,
    files: Sequence[state_paths.StateFile] = (),
    rules: ProtectionRules = BUILT_IN_RULES,
) -> None:
    """Raise GrantError if the tier cannot protect Paddock's `files`, or `own` directories below writable ones."""
    folders = _folders(grants)
    whole = [grants.workspace] if grants.access == "workspace-write" and grants.workspace else []
    written = [_real(path, grants) for path in (*whole, *grants.writable)]
    given = [_real(path, grants) for path in (*folders, *grants.readable)] if files else []
    kept = [f"{written[0]}/{name}" for name in rules.paths] if whole and files else []
    for file in files:
        placed = f"{file.path}, Paddock's own file ({file.key}); move it to where no program has a grant"
        if file.readable and state_paths.is_exposed(file, written, kept):
            raise GrantError(
                f"a program that may write there could change {placed}, or grant the workspace read-only"
            )
        if not file.readable and state_paths.is_exposed(file, given):
            raise GrantError(f"a program with these grants could read {placed}")
    advice = "where Paddock keeps its own files; work in a directory that does not contain them"
    if tier == "landlock" and (found := state_paths.within(own, written)):
        raise GrantError(
            f"a program that may write there could change {found[0]}, {advice}, make the tier namespaces available "
            "(paddock doctor says how), or grant the workspace read-only"
        )
    if tier != "unconfined" and (
        link := next(filter(None, (state_paths.find_link(own, path) for path in written)), "")
    ):
        raise GrantError(
            f"a program that may write there could replace the link {link}, which leads to a directory {advice}, or "
            "grant the workspace read-only"
        )


def _folders(grants: ProcessGrants) -> list[Path]:
    """Return the directories that a job works in."""
    inside = grants.workspace is not None and grants.access != "none"
    own = [grants.workspace] if grants.workspace is not None and inside else []
    return [*own, *grants.writable, *grants.overlaid]


def user(grants: ProcessGrants, job_user: int | None, tier: Tier) -> int | None:
    """Return the user that a job becomes; None if it keeps the number of this process, without any capability.

    Only root can become another user. A job of root in a workspace stays root if its tier hides root's other files,
    or if `job_user` is 0: the workspace belongs to the caller. A user namespace may have no other user to become.
    """
    if os.geteuid() != 0 or not lockdown.is_mapped(job_user or lockdown.JOB_UID):
        return None
    if job_user:
        return job_user
    works = grants.access != "none" or bool(grants.writable)
    return None if works and (job_user == 0 or tier != "landlock") else lockdown.JOB_UID


def needs_supervised_calls(grants: ProcessGrants, job_user: int | None, tier: Tier) -> bool:
    """Return whether a job's user may own files outside, whose metadata Landlock does not protect."""
    return tier == "landlock" and user(grants, job_user, tier) != lockdown.JOB_UID


def _find_supervised(grants: ProcessGrants, job_user: int | None, tier: Tier, *, supervised: bool) -> str:
    """Return the name of the filter for the calls that a broker does for a job; "" for none.

    In a jail that is what reaches a socket of the machine, or leaves a set-group-id file in a granted directory.
    """
    if tier == "landlock":
        needed = supervised and needs_supervised_calls(grants, job_user, tier)
        return METADATA_FILTER if needed else WATCH_FILTER
    writes = grants.access == "workspace-write" or bool(grants.writable)
    return SOCKET_FILTER if tier == "namespaces" and (writes or grants.network in OWN_NETWORKS) else ""


def build_jail_spec(
    grants: ProcessGrants,
    limits: ProcessLimits,
    *,
    tier: Tier,
    abi: int,
    scratch: Path,
    job_user: int | None,
    group: str,
    supervised: bool = True,
    own: Sequence[str] = (),
    installed: Sequence[str] = (),
    rules: ProtectionRules = BUILT_IN_RULES,
    hiding: HidingRules = NOTHING,
    repository: Repository | None = None,
) -> JobSpec:
    """Return the job spec for these grants, which the caller has checked, without a program.

    With `supervised`, jobs that need supervised calls have them. The grants do not include Paddock's `own` directories
    (`state_paths`); where it is `installed`, they are read-only. `repository` is that of the workspace
    (`find_repository`).
    """
    workspace = _real(grants.workspace, grants) if grants.workspace else ""
    writes_workspace = grants.access == "workspace-write"
    readable = list(_present(system := _system(grants.network), namespaces.identify_paths(system)))
    overlaid = [_real(path, grants) for path in list_overlaid(grants)]
    given = [*(_real(path, grants) for path in grants.readable), *overlaid]
    given += [workspace] * (grants.access == "read-only")
    writable = [_real(path, grants) for path in grants.writable] + ([workspace] if writes_workspace else [])
    searched = () if tier == "unconfined" else list_searched(grants, [*given, *writable])
    guarded = list_guarded(grants, rules, repository)
    if repository is not None:
        given += repository.readable
        writable += repository.written
    number = user(grants, job_user, tier)
    hidden = state_paths.within(own, [*given, *writable])
    in_namespaces = tier == "namespaces"
    private = ("/tmp", "/dev/shm") if in_namespaces else ()  # noqa: S108
    pieces = partial_grants.pieces(given, () if in_namespaces else hidden)
    readable += pieces.granted
    jail = ""
    if in_namespaces:
        still = state_paths.within((*installed, *map(str, grants.still)), writable)
        covered = _list_covered_paths(guarded) + (repository.list_covered() if repository is not None else [])
        who = os.geteuid() if number is None else number
        # Before `list_parents`, which finds the directories that this makes.
        made = state_paths.list_hidden_paths(hidden, writable, who)
        jail = namespaces.build_command(
            readable=readable,
            writable=writable,
            covered=[*covered, *state_paths.list_hidden_paths(still, writable, who)],
            parents=state_paths.list_parents([*hidden, *still], writable, who),
            hidden=made,
            links=_links(grants, [*readable, *writable, str(scratch.parent)]),
            scratch=str(scratch),
            network=grants.network == "full",
            texts=() if repository is None else repository.texts,
        )
    return JobSpec(
        scratch=str(scratch),
        user=number,
        landlock_abi=0 if tier == "unconfined" else abi,
        filter="" if tier == "unconfined" else _FILTERS[grants.network],
        supervised=_find_supervised(grants, job_user, tier, supervised=supervised),
        network=grants.network,
        readable=["/"] if in_namespaces else [*readable, *_existing(_READABLE_DEVICES)],
        writable=[*writable, *overlaid, str(scratch), *private],
        overlays=tuple(overlaid),
        devices=_existing(_DEVICES),
        guarded=guarded,
        jail=jail,
        carried=_list_private_paths([*readable, *writable]) if private else (),
        listed=pieces.listed,
        pieces=pieces.found,
        searched=searched,
        hiding=(tuple(hiding.hidden), tuple(hiding.shown)) if searched else ((), ()),
        shown=(*given, *writable),
        fixed=[*map(str, grants.fixed), *(() if repository is None else repository.written)],
        group=group,
        ceilings=Ceilings(scratch_bytes=limits.scratch_bytes),
    )


def list_guarded(
    grants: ProcessGrants, rules: ProtectionRules, repository: Repository | None = None
) -> list[GuardedFolder]:
    """Return the folders whose protected paths are watched: a writable workspace, others, and the folder of git."""
    found: dict[str, GuardedFolder] = {}
    if grants.access == "workspace-write" and grants.workspace is not None:
        workspace = _real(grants.workspace, grants)
        own = rules
        if repository is not None and repository.begins_above(workspace):
            own = rules._replace(repository=(repository.own, repository.tree))
        found[workspace] = GuardedFolder(workspace, rules=tuple(own))
    for path in grants.writable:
        if path in grants.searched and (real := _real(path, grants)) not in found:
            found[real] = GuardedFolder(real, f"{real}/", tuple(rules))
    if repository is not None and repository.written:
        git = repository.make_rules(rules)
        found[repository.folder] = GuardedFolder(repository.folder, f"{repository.folder}/", tuple(git))
    return list(found.values())


def move_jail_spec(jail_spec: JobSpec, scratch: str) -> JobSpec:
    """Return the same job spec for another scratch directory in the same folder."""
    writable = [scratch if path == jail_spec.scratch else path for path in jail_spec.writable]
    return jail_spec._replace(scratch=scratch, writable=writable)


def list_granted(grants: ProcessGrants) -> list[str]:
    """Return the real paths that a job may read or write."""
    return [_real(path, grants) for path in (*_folders(grants), *grants.readable)]


def list_searched(grants: ProcessGrants, granted: Sequence[str]) -> list[str]:
    """Return the real paths of the granted folders in which files are hidden, without those below another one.

    These are not the prefix of a toolchain, or a path that a person names: what they hold is meant.
    """
    named = [*_folders(grants), *grants.searched]
    found = list(dict.fromkeys(real for path in named if (real := _real(path, grants)) in granted))
    return [
        path
        for path in found
        if os.path.isdir(path)
        and not any(path != other and state_paths.is_below(path, other) for other in found)
    ]


def _real(path: Path, grants: ProcessGrants) -> str:
    return str(path if path in grants.fixed else path.resolve())


def _links(grants: ProcessGrants, visible: list[str]) -> list[str]:
    """Return the links on granted paths that no visible directory contains.

    Leaves out links in directories that each jail has for itself.
    """
    known = tuple(f"{path}/" for path in (*visible, *namespaces.PRIVATE_FOLDERS, "/proc", "/dev"))
    through = [link for path in grants.readable if path not in grants.fixed for link in list_links(str(path))]
    return [link for link in dict.fromkeys(through) if not f"{link}/".startswith(known)]


def build_job_spec(
    jail_spec: JobSpec,
    argv: list[str],
    grants: ProcessGrants,
    limits: ProcessLimits,
    *,
    canary: str = "",
    repository: Repository | None = None,
) -> JobSpec:
    """Return the job spec of a program in a jail that was prepared for its grants, and for this `repository`."""
    cwd = Path(jail_spec.scratch, grants.folder) if grants.folder else grants.cwd
    if cwd is None and grants.workspace is not None and grants.access != "none":
        cwd = grants.workspace.resolve()
    own = {name: f"{jail_spec.scratch}/{folder}" for name, folder in _SCRATCH_VARIABLES.items()}
    if repository is not None and not repository.refused:
        # A jail has the workspace as a mount below the work tree; without one, git fails at what it may not read.
        own["GIT_DISCOVERY_ACROSS_FILESYSTEM" if jail_spec.jail else "GIT_CONFIG_NOSYSTEM"] = "1"
    return jail_spec._replace(
        argv=argv,
        environment={**_DEFAULTS, **grants.environment, **own},
        cwd=str(cwd or jail_spec.scratch),
        ceilings=Ceilings(
            timeout_ms=limits.timeout_ms,
            cpu_ms=limits.cpu_ms,
            memory_bytes=limits.memory_bytes,
            stack_bytes=limits.stack_bytes or 0,
            processes=limits.processes,
            open_files=limits.open_files,
            file_bytes=limits.file_bytes,
            scratch_bytes=limits.scratch_bytes,
        ),
        canary=canary,
    )


def state(
    grants: ProcessGrants,
    own: Sequence[str] = (),
    rules: ProtectionRules = BUILT_IN_RULES,
    repository: Repository | None = None,
) -> tuple[object, ...]:
    """Return the present state of the file system that a job spec for these grants depends on; `own` as above.

    If a path has come to lead elsewhere, a jail prepared earlier would lack the new target or expose the old one.
    """
    granted = [*map(str, (*_folders(grants), *grants.readable))]
    covered = _list_covered_paths(list_guarded(grants, rules, repository))
    pieces = partial_grants.pieces(granted, state_paths.within(own, granted))
    return (
        *namespaces.identify_paths((*_system(grants.network), *granted)),
        *covered,
        *pieces.found,
        *(() if repository is None else (*repository, *repository.list_covered())),
    )


def is_system_path(path: str) -> bool:
    """Return whether every program can read a path, because it is the system's."""
    return any(
        state_paths.is_below(os.path.realpath(path), folder)
        for folder in (*SYSTEM_FOLDERS, *(f"/etc/{name}" for name in _ETC_CERTIFICATES))
    )


@functools.lru_cache
def _system(network: Network) -> tuple[str, ...]:
    names = (
        _ETC_FILES
        + _ETC_CERTIFICATES
        + (_ETC_NAMES if network != "none" else ())
        + (_ETC_RESOLVER if network == "full" else ())
    )
    return (*SYSTEM_FOLDERS, *(f"/etc/{name}" for name in names), *_MACHINE_FILES)


@functools.lru_cache(maxsize=4)
def _present(paths: tuple[str, ...], _: namespaces.PathIdentities) -> tuple[str, ...]:
    """Return those of `paths` that exist; cached by the identities of the paths."""
    return tuple(path for path in paths if os.path.exists(path))


def _list_private_paths(paths: list[str]) -> list[str]:
    """Return the paths below directories that each jail has for itself, except paths below another one of them."""
    owned = tuple(f"{own}/" for own in namespaces.PRIVATE_FOLDERS)
    inside = sorted({path for path in paths if f"{path}/".startswith(owned)})
    return [path for path in inside if not any(path.startswith(f"{other}/") for other in inside)]


def _existing(paths: tuple[str, ...]) -> list[str]:
    return [path for path in paths if os.path.exists(path)]


def _list_protected_paths(workspace: str, rules: ProtectionRules, *, nested: bool) -> list[str]:
    """Return the protected paths of a workspace that exist. Raises OSError, and TooLargeError."""
    root = os.open(workspace, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        paths, present = list_protected_paths(root, rules, nested=nested), PresentNames(root)
        there = [f"{workspace}/{path}" for path in paths if present.may_hold(path)]
    finally:
        os.close(root)
    return [path for path in there if os.path.lexists(path)]


def _list_covered_paths(guarded: Sequence[GuardedFolder]) -> list[str]:
    """Return the protected paths that a mount can cover: those that exist and involve no link.

    Leaves out what only `**/` finds, which would take too long here; such paths are restored.
    """
    found: list[str] = []
    for folder in guarded:
        with contextlib.suppress(OSError):  # the supervisor, which also looks, reports it
            found += _list_protected_paths(folder.path, ProtectionRules._make(folder.rules), nested=False)
    return [path for path in found if os.path.realpath(path) == path]


def check_protection(
    grants: ProcessGrants,
    tier: Tier,
    rules: ProtectionRules = BUILT_IN_RULES,
    repository: Repository | None = None,
) -> None:
    """Raise GrantError if the tier cannot prevent changes to the protected paths that exist."""
    guarded = list_guarded(grants, rules, repository)
    if not guarded:
        return
    refused = "sandbox.protected_paths is refuse, and"
    if tier != "namespaces":
        raise GrantError(
            f"{refused} the tier {tier} can only restore protected paths of a writable workspace after the run; "
            "make the tier namespaces available (paddock doctor says how), or grant the workspace read-only"
        )
    covered = _list_covered_paths(guarded)
    paths: dict[str, str] = {}
    for folder in guarded:
        try:
            listed = _list_protected_paths(folder.path, ProtectionRules._make(folder.rules), nested=True)
        except TooLargeError as error:
            raise GrantError(f"{refused} {error}; grant the workspace read-only") from error
        paths |= {path: folder.shown + path.removeprefix(f"{folder.path}/") for path in listed}
    for path, name in paths.items():
        if path in covered:
            continue
        if os.path.realpath(path) == path:
            raise GrantError(
                f"{refused} {name} can only be restored after the run, because only a pattern with **/ names it; "
                "take the pattern away with sandbox.unprotected, or grant the workspace read-only"
            )
        raise GrantError(
            f"{refused} {name} of the workspace is a link or behind one, which no mount can protect; replace the "
            "link with its target, or grant the workspace read-only"
        )
