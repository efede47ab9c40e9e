"""Decide on a program in a language runtime: rules in order, each with its reason.

A rule is checked only if no earlier one objects. Rules 1 to 5 have exact texts; those on executables by path, memory,
workspace and network are Paddock's own. The gate checks the last one, the number of running programs.
"""

from collections.abc import Iterator
from fnmatch import fnmatchcase

from paddock.model.directories import find_uncovered
from paddock.model.fields import PROGRAM_FIELDS
from paddock.model.limits import Calls, LimitOverrides, narrower
from paddock.model.network import NETWORKS
from paddock.model.program import ACCESSES, Executables, ProgramGrants, ProgramLimits, ProgramTerms, file_name
from paddock.model.request import ExecutionRequest, RuntimeRun, ToolRun
from paddock.policy.decisions.kinds import FindExecutables, Reason
from paddock.policy.decisions.network import check_hosts, grant_hosts
from paddock.policy.decisions.package_requests import add_own_packages, check_packages
from paddock.policy.decisions.workdir import is_confined
from paddock.policy.settings.rules import Rule
from paddock.policy.settings.schema import Settings

DISABLED = "Runtime execution is disabled in configuration (runtime.enabled = false)"
_MAX_QUOTED_CHARS = 100
_PROGRAM_LIMITS = {field.name for field in PROGRAM_FIELDS if field.place == "limits"}
"""Limits that a program has, by their names in a request."""


def add_defaults(work: RuntimeRun, settings: Settings) -> RuntimeRun:
    """Return the program with its default access to the workspace (reading, if that is granted), and its packages.

    With access, it also has the directories of the settings.
    """
    work = add_own_packages(work, settings.packages)
    if settings.runtimes.access == "none" and "access" not in work.model_fields_set:
        work = work.model_copy(update={"access": "none"})
    given = settings.workspace.directory if work.access != "none" else ()
    if not given or "directories" in work.model_fields_set:
        return work
    return work.model_copy(update={"directories": given})


def judge_program(
    work: RuntimeRun,
    asked: LimitOverrides,
    settings: Settings,
    catalogue: FindExecutables,
    calls: Calls = "run",
) -> tuple[ProgramTerms, list[Reason], list[Reason]]:
    """Return the terms of a program, clamped limits, and objections; each with the name of its rule.

    A program whose request may make only some `calls` writes to none of the directories of the settings. Overlays stay.
    """
    limits, clamped, _ = _effective_limits(asked, settings)
    grants = ProgramGrants(
        access=work.access,
        network=work.network,
        hosts=grant_hosts(work, settings),
        executables=_list_allowed_names(work, settings, catalogue(work.runtime)),
        environment=settings.runtimes.environment,
        background=work.background,
        directories=work.directories
        if narrower(calls, settings.grants.calls) == "run"
        else tuple(
            each.replace(access="read-only") if each.access == "workspace-write" else each
            for each in work.directories
        ),
    )
    terms = ProgramTerms(limits=limits, grants=grants)
    for _, objections in list_stages(work, asked, settings, catalogue):
        if objections:
            return terms, clamped, objections
    return terms, clamped, []


def list_stages(
    work: RuntimeRun, asked: LimitOverrides, settings: Settings, catalogue: FindExecutables
) -> Iterator[tuple[str, list[Reason]]]:
    """Yield each rule's name and its objections, in order; the first rule with an objection decides."""
    known = catalogue(work.runtime)
    yield "programs run at all", list(_check_enabled(work, settings))
    yield "the runtime is allowed, the executable fits it", list(_check_runtime(work, settings, known))
    yield "the executable is allowed", list(_check_executable(work, settings, known))
    yield "the executable is a name", list(_check_path(work))
    yield "the working directory is inside of the workspace", list(_check_cwd(work))
    yield "the limits are within their maximum", _effective_limits(asked, settings)[2]
    yield "workspace and network are granted", list(_check_grants(work, settings))
    yield "the directories beside the workspace are granted", list(_check_directories(work, settings))
    yield "a rule allows the hosts", list(check_hosts(work, settings))
    yield "the environment variables are granted", list(_check_environment(work, settings))
    yield "the packages are allowed", list(check_packages(work, settings.packages))


def _check_enabled(work: RuntimeRun, settings: Settings) -> Iterator[Reason]:
    if not settings.runtimes.enabled:
        yield "runtimes.enabled", DISABLED
    if work.session is not None and not settings.sessions.enabled:
        yield "sessions.enabled", "Sessions are disabled in configuration (sessions.enabled = false)"


def _check_runtime(work: RuntimeRun, settings: Settings, known: Executables) -> Iterator[Reason]:
    if not settings.runtimes.allows(work.runtime):
        names = ", ".join(settings.runtimes.allowed)
        yield (
            "runtimes.allowed",
            f'Runtime "{work.runtime}" is not in the allowed runtimes list: [{names}]',
        )
    if work.executable is not None and file_name(work.executable) not in known.compatible:
        shown = work.executable[:_MAX_QUOTED_CHARS]
        yield (
            "runtimes.compatible",
            f'Executable "{shown}" is not compatible with runtime "{work.runtime}"',
        )


def _list_allowed_names(work: RuntimeRun, settings: Settings, known: Executables) -> tuple[str, ...]:
    """Return the executables that may run the program, preferred ones first; empty if there are none."""
    wanted = (work.executable.strip().strip("\"'"),) if work.executable is not None else known.candidates
    allowed = {file_name(name) for name in settings.runtimes.executables}
    return tuple(name for name in wanted if not allowed or file_name(name) in allowed)


def _check_executable(work: RuntimeRun, settings: Settings, known: Executables) -> Iterator[Reason]:
    if settings.runtimes.executables and not _list_allowed_names(work, settings, known):
        wanted = work.executable or next(iter(known.candidates), work.runtime)
        yield (
            "runtimes.executables",
            f'Executable "{wanted[:_MAX_QUOTED_CHARS]}" is not in the allowed executables list',
        )


def _check_path(work: RuntimeRun) -> Iterator[Reason]:
    """Object to paths: a request could choose a file that anyone with write access put into the workspace."""
    if "/" in (work.executable or ""):
        shown = (work.executable or "")[:_MAX_QUOTED_CHARS]
        yield "runtimes.executable", f'Executable "{shown}" must be a name; Paddock searches for it on PATH'


def _check_cwd(work: RuntimeRun) -> Iterator[Reason]:
    if not is_confined(work.cwd):
        shown = work.cwd[:_MAX_QUOTED_CHARS]
        yield (
            "runtimes.cwd",
            f'Relative CWD "{shown}" contains path traversal or absolute path components',
        )


def _effective_limits(
    asked: LimitOverrides, settings: Settings
) -> tuple[ProgramLimits, list[Reason], list[Reason]]:
    """Return the effective limits, the clamped ones, and the objections (rule 5)."""
    mine, stack_bytes = settings.runtimes, settings.limits.runtime.stack_bytes
    compiling: dict[str, int] = {}  # a compile step shares the limits of its program
    if asked.compile_timeout_ms is not None:
        compiling["compile_timeout_ms"] = min(asked.compile_timeout_ms, mine.timeout_ms)
        compiling["compile_memory_bytes"] = mine.memory_bytes
    limits = ProgramLimits(
        timeout_ms=min(asked.timeout_ms or mine.timeout_ms, mine.timeout_ms),
        memory_bytes=min(asked.memory_bytes or mine.memory_bytes, mine.memory_bytes),
        cpu_ms=asked.cpu_ms,
        # None for as much as its memory allows.
        stack_bytes=stack_bytes if stack_bytes < (asked.memory_bytes or mine.memory_bytes) else None,
        output_bytes=asked.output_bytes,
        **compiling,
        stdout_bytes=mine.stdout_bytes,
        stderr_bytes=mine.stderr_bytes,
    )
    over: list[Reason] = []
    if asked.timeout_ms is not None and asked.timeout_ms > mine.timeout_ms:
        text = f"Requested timeout ({asked.timeout_ms}ms) exceeds maximum ({mine.timeout_ms}ms)"
        over.append(("runtimes.timeout_ms", text))
    if asked.memory_bytes is not None and asked.memory_bytes > mine.memory_bytes:
        text = f"Requested memory ({asked.memory_bytes} bytes) exceeds maximum ({mine.memory_bytes} bytes)"
        over.append(("runtimes.memory_bytes", text))
    if asked.compile_timeout_ms is not None and asked.compile_timeout_ms > mine.timeout_ms:
        text = (
            f"Requested compile timeout ({asked.compile_timeout_ms}ms) exceeds maximum ({mine.timeout_ms}ms)"
        )
        over.append(("runtimes.timeout_ms", text))
    others = asked.model_dump(exclude=_PROGRAM_LIMITS, exclude_none=True)
    unknown = [(f"limits.{name}", f"Programs have no limit {name}") for name in others]
    if settings.limits.timeout_policy == "clamp":
        return limits, [(rule, f"{text}; the maximum holds instead") for rule, text in over], unknown
    return limits, [], over + unknown


def _check_grants(work: RuntimeRun, settings: Settings) -> Iterator[Reason]:
    mine = settings.runtimes
    fix = "in the paddock.toml of the user or the system"
    if ACCESSES.index(work.access) > ACCESSES.index(mine.access):
        text = f"access {work.access} to the workspace is not granted (granted: {mine.access})"
        yield "runtimes.access", f'{text}; set `access = "{work.access}"` under [runtimes] {fix}'
    if NETWORKS.index(work.network) > NETWORKS.index(mine.network):
        text = f"network {work.network} is not granted (granted: {mine.network})"
        text = f'{text}; set `network = "{work.network}"` under [runtimes] {fix}'
        yield "runtimes.network", text
    if work.background and not settings.sessions.background:
        text = "a session that runs between two programs is not granted"
        yield "sessions.background", f"{text}; set `background = true` under [sessions] {fix}"
    if work.access == "none" and (copied := next((each for each in work.files if each.workspace), None)):
        shown = copied.path[:_MAX_QUOTED_CHARS]
        yield (
            "runtimes.access",
            f"the file {shown} is to be copied from the workspace, which needs access to it",
        )
    if work.access == "none" and work.cwd != ".":
        yield "runtimes.cwd", f'Relative CWD "{work.cwd[:_MAX_QUOTED_CHARS]}" needs access to the workspace'


def _check_directories(work: RuntimeRun, settings: Settings) -> Iterator[Reason]:
    if work.directories and work.access == "none":
        yield "workspace.directory", "directories beside the workspace need access to the workspace"
    if other := find_uncovered(work.directories, settings.workspace.directory):
        fix = "add a [[workspace.directory]] to the paddock.toml of the user or the system"
        yield "workspace.directory", f"the directory {str(other)[:_MAX_QUOTED_CHARS]} is not granted; {fix}"


def _check_environment(work: RuntimeRun, settings: Settings) -> Iterator[Reason]:
    granted = settings.runtimes.environment
    for name in work.env:
        if not any(fnmatchcase(name, pattern) for pattern in granted):
            text = f"the environment variable {name[:_MAX_QUOTED_CHARS]} is not granted"
            fix = "in the paddock.toml of the user or the system"
            yield (
                "runtimes.environment",
                f"{text}; add its name, or a pattern, to `environment` under [runtimes] {fix}",
            )


def match_program(rule: Rule, work: RuntimeRun) -> bool:
    """Return whether a rule matches a program; case is ignored, as for all executables."""
    return (
        fnmatchcase(work.runtime, (rule.runtime or "*").lower())
        and fnmatchcase(file_name(work.executable or ""), (rule.executable or "*").lower())
        and rule.access in (None, work.access)
        and rule.network in (None, work.network)
        and (
            rule.directory is None
            or any(fnmatchcase(str(each.path), rule.directory) for each in work.directories)
        )
    )


def check_read_only(
    request: ExecutionRequest, work: RuntimeRun | ToolRun, settings: Settings
) -> Iterator[Reason]:
    """Object to programs and script tools with write access if the request may only read."""
    calls = narrower(request.calls, settings.grants.calls)
    reaches_out = NETWORKS.index(work.network) > NETWORKS.index("loopback")
    if calls != "run" and (work.access == "workspace-write" or reaches_out):
        yield "grants.calls", f"this run may only read ({calls}); ask for read-only access and no network"
