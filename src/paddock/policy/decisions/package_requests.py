"""Decide whether a program may have packages: those that it is given, and those that it names itself.

What network their installer gets is the setting `packages.network`: see `engines/packages/installation.py`, `hosts.py`.
"""

from collections.abc import Iterator

from paddock.model.request import ExecutionRequest, RuntimeRun
from paddock.model.requirements import (
    INSTALLERS,
    PACKAGE_FILE,
    check_requirements,
    name_requirement,
    read_package_file,
    read_script_metadata,
)
from paddock.policy.decisions.kinds import Reason
from paddock.policy.settings.packages import PackageSettings

_MAX_QUOTED_CHARS = 100
_MAX_NAMED = 20
_OF_PEOPLE = frozenset({"cli", "library"})
"""Surfaces whose requests come from the user. All others are asked about, also HTTP, sequences and schedules."""


def add_own_packages(work: RuntimeRun, settings: PackageSettings) -> RuntimeRun:
    """Return the program with the packages that it names itself: script metadata (PEP 723), or its package.json.

    Without change if packages are off, or if what it names is invalid, which `check_packages` reports.
    """
    if settings.enabled == "off":
        return work
    try:
        own = _read_own(work)
        check_requirements(work.runtime, own)
    except ValueError:
        return work
    packages = tuple(dict.fromkeys((*own, *work.packages)))
    return work if packages == work.packages else work.model_copy(update={"packages": packages})


def may_name_packages(work: RuntimeRun) -> bool:
    """Return whether a program may name packages itself, so that decisions depend on its text or its files."""
    if not work.own_packages:
        return False
    if work.runtime == "python":
        return "# /// script" in (work.code or "")
    return INSTALLERS.get(work.runtime) == "npm" and any(file.path == PACKAGE_FILE for file in work.files)


def _read_own(work: RuntimeRun) -> tuple[str, ...]:
    """Return the packages that a program names itself, unless it is to be run without them. Raises ValueError."""
    if not work.own_packages:
        return ()
    match INSTALLERS.get(work.runtime):
        case "uv":
            return read_script_metadata(work.code or "").dependencies
        case "npm":
            data = next((file.data for file in work.files if file.path == PACKAGE_FILE), None)
            return () if data is None else read_package_file(data)
        case None:
            return ()


def check_packages(work: RuntimeRun, settings: PackageSettings) -> Iterator[Reason]:
    """Object to packages that the settings do not allow. Their dependencies are checked when they are known."""
    if settings.enabled == "off":
        if work.packages:
            yield (
                "packages.enabled",
                "packages are off; set `enabled` under [packages] in the settings to use them",
            )
        return
    try:
        own = _read_own(work)
        check_requirements(work.runtime, own)
    except ValueError as problem:
        yield "packages.requirements", str(problem)
    for requirement in work.packages:
        name = name_requirement(work.runtime, requirement)
        if rule := settings.find_objection(work.runtime, name):
            yield rule, f"the package {name[:_MAX_QUOTED_CHARS]} is not allowed by {rule}"


def list_package_questions(
    request: ExecutionRequest, work: RuntimeRun, settings: PackageSettings
) -> tuple[Reason, ...]:
    """Return the question whether a program gets its packages, if a person is to be asked."""
    if not work.packages or settings.enabled == "on":
        return ()
    if settings.enabled == "auto" and request.surface in _OF_PEOPLE and request.caller is None:
        return ()
    named = ", ".join(each[:_MAX_QUOTED_CHARS] for each in work.packages[:_MAX_NAMED])
    more = f" and {len(work.packages) - _MAX_NAMED} more" if len(work.packages) > _MAX_NAMED else ""
    return (("packages.enabled", f"using the packages {named}{more} needs a person's approval"),)
