"""Packages that a program asks for: requirements, and the environment that holds them."""

import json
import re
from collections.abc import Iterable
from typing import Annotated, Any, Literal, NamedTuple, cast

from pydantic import Field

from paddock.model.late_pattern import compile_late

MAX_PACKAGES = 100
REQUIREMENT_CHARS = 1000

Installer = Literal["uv", "npm"]
INSTALLERS: dict[str, Installer] = {"python": "uv", "node": "npm", "typescript": "npm"}
"""The program that installs packages, by language."""

Requirement = Annotated[str, Field(min_length=1, max_length=REQUIREMENT_CHARS)]
"""A package with its versions, as its language writes them: `pandas>=2` (PEP 508), `left-pad@^1`."""

PACKAGE_FILE, LOCK_FILE = "package.json", "package-lock.json"
"""Input files of a program for Node.js that name its packages."""

_METADATA_MARK = "# /// script"
_METADATA_PATTERN = compile_late(r"(?m)^# /// script$\s(?P<content>(^#(| .*)$\s)+)^# ///$")
"""Inline script metadata (PEP 723); the expression is the one of the specification."""
_NODE_NAME_PATTERN = compile_late(r"(?:@[a-z0-9~-][a-z0-9._~-]*/)?[a-z0-9~-][a-z0-9._~-]*", re.IGNORECASE)
_NODE_VERSIONS_PATTERN = compile_late(r"[A-Za-z0-9 .*+<>=^~|_-]*")
"""Versions, ranges and tags. Addresses, paths, repositories and aliases have a colon or a slash."""


class PackageEnvironment(NamedTuple):
    """An installed environment, as the record names it."""

    key: str
    """Its name in the store: SHA-256 (hex) over interpreter, lock, registries, and whether builds were allowed."""
    lock_sha256: str
    """SHA-256 (hex) of its lock."""
    packages: tuple[str, ...]
    """Every package in it: `name==version`."""


def name_requirement(language: str, requirement: str) -> str:
    """Return the name of a required package in the spelling of its registry.

    Raises ValueError for a requirement that is malformed, or that names an address, a path or an option instead of a
    package of the configured registries.
    """
    match INSTALLERS.get(language):
        case "uv":
            return _name_python(requirement)
        case "npm":
            return split_node(requirement)[0]
        case None:
            known = ", ".join(INSTALLERS)
            raise ValueError(f"there are no packages for {language}; Paddock installs them for {known}")


def _name_python(requirement: str) -> str:
    from packaging.requirements import InvalidRequirement
    from packaging.requirements import Requirement as Parsed  # most programs have no packages
    from packaging.utils import canonicalize_name

    try:
        parsed = Parsed(requirement)
    except InvalidRequirement:
        raise ValueError(f"{requirement!r} is not a requirement such as 'pandas>=2'") from None
    if parsed.url:
        raise ValueError(
            f"{requirement!r} names an address; packages come from the configured index, as in '{parsed.name}'"
        )
    if any(character in requirement for character in "\r\n\0"):
        raise ValueError(f"{requirement!r} has more than one line")
    return canonicalize_name(parsed.name)


def split_node(requirement: str) -> tuple[str, str]:
    """Return name and versions of a package for Node.js. Raises ValueError as `name_requirement` does."""
    at = requirement.find("@", 1)
    name, versions = (requirement, "*") if at < 0 else (requirement[:at], requirement[at + 1 :])
    if not _NODE_NAME_PATTERN.fullmatch(name):
        raise ValueError(f"{requirement!r} is not a package such as 'left-pad@^1'")
    if not _NODE_VERSIONS_PATTERN.fullmatch(versions):
        raise ValueError(
            f"{requirement!r} does not name versions; packages come from the configured registry, as in '{name}@^1'"
        )
    return name.lower(), versions or "*"


class ScriptMetadata(NamedTuple):
    """What a Python program says of itself (PEP 723)."""

    dependencies: tuple[str, ...] = ()
    requires_python: str = ""
    """Versions of Python that it runs with, such as `>=3.11` (PEP 440); empty for all."""


def read_script_metadata(code: str) -> ScriptMetadata:
    """Return the inline metadata of a Python program (PEP 723). Raises ValueError for metadata that cannot be read."""
    if _METADATA_MARK not in code:
        return ScriptMetadata()
    found = list(_METADATA_PATTERN.finditer(code))
    if not found:
        return ScriptMetadata()
    if len(found) > 1:
        raise ValueError("the program has more than one block of script metadata (PEP 723)")
    import tomllib  # few programs have metadata

    lines = found[0]["content"].splitlines(keepends=True)
    text = "".join(line[2:] if line.startswith("# ") else line[1:] for line in lines)
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as problem:
        raise ValueError(f"the script metadata (PEP 723) is not TOML: {problem}") from None
    named = _check_texts(data.get("dependencies", []), "dependencies of the script metadata (PEP 723)")
    versions = data.get("requires-python", "")
    if not isinstance(versions, str) or (versions and not _is_specifier(versions)):
        raise ValueError(
            "`requires-python` of the script metadata (PEP 723) is not a version such as '>=3.11'"
        )
    return ScriptMetadata(named, versions)


def _is_specifier(text: str) -> bool:
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    try:
        SpecifierSet(text)
    except InvalidSpecifier:
        return False
    return True


def satisfies_python(version: str, required: str) -> bool:
    """Return whether a version of Python is one of the required ones, as `ScriptMetadata` has them."""
    from packaging.specifiers import SpecifierSet
    from packaging.version import InvalidVersion

    try:
        return SpecifierSet(required).contains(version, prereleases=True)
    except InvalidVersion:
        return False


def read_package_file(data: bytes) -> tuple[str, ...]:
    """Return the dependencies that a `package.json` names. Raises ValueError if it cannot be read."""
    try:
        content: Any = json.loads(data)
        named: Any = content.get("dependencies", {})
        pairs = [(str(name), versions) for name, versions in named.items()]
    except (ValueError, RecursionError, AttributeError):
        raise ValueError(f"{PACKAGE_FILE} is not a JSON object with an object `dependencies`") from None
    return _check_texts([f"{name}@{versions}" for name, versions in pairs], f"dependencies of {PACKAGE_FILE}")


def _check_texts(values: Any, what: str) -> tuple[str, ...]:  # noqa: ANN401 - from a file of a program
    entries = cast("list[object]", values if isinstance(values, list) else [None])
    texts = [each for each in entries if isinstance(each, str)]
    if len(texts) != len(entries):
        raise ValueError(f"the {what} are not a list of strings")
    if len(texts) > MAX_PACKAGES or any(not 0 < len(text) <= REQUIREMENT_CHARS for text in texts):
        raise ValueError(f"the {what} are more than {MAX_PACKAGES}, or one is empty or too long")
    return tuple(texts)


def check_requirements(language: str, requirements: Iterable[str]) -> None:
    """Raise ValueError for the first requirement that `name_requirement` rejects."""
    for requirement in requirements:
        name_requirement(language, requirement)


def needs_own_folder(language: str, packages: Iterable[str]) -> bool:
    """Return whether a program with packages cannot run in place, because they must be beside it."""
    return any(packages) and INSTALLERS.get(language) == "npm"
