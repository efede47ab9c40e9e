"""Packages for Node.js, by npm: resolve to a package-lock.json, then install exactly that.

A lock may be the program's own. Its addresses (`resolved`) are removed, so that each package comes from the configured
registry, and has the checksum of the lock. An entry without a checksum is a repository or a directory, and is refused.
"""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

from paddock.engines.packages.installation import Installation, run_step
from paddock.engines.packages.interface import PackagesError, WantedPackages
from paddock.engines.packages.registries import NodeRegistries
from paddock.engines.packages.store import Staging, TreeError, take_tree
from paddock.model.base import count
from paddock.model.outcome import Status
from paddock.model.requirements import LOCK_FILE, PACKAGE_FILE, split_node

_DEPENDENCIES = ("dependencies", "devDependencies", "optionalDependencies", "peerDependencies")
_MANIFEST_FIELDS = ("name", "version", "overrides", "engines", *_DEPENDENCIES)
"""Fields of a package.json that decide what is installed. `scripts` is not one: npm would run them."""
_FOLDER = "modules"
_PREPARE = f"npm=$1; shift; mkdir {_FOLDER}; mv package*.json {_FOLDER}; cd {_FOLDER}; "
_RESOLVE = f'{_PREPARE}"$npm" install --package-lock-only "$@" >&2; cat {LOCK_FILE}'
_INSTALL = f'{_PREPARE}"$npm" ci "$@" >&2'
_OPTIONS = (
    "--omit-lockfile-registry-resolved",
    "--no-audit",
    "--no-fund",
    "--omit=dev",
    "--loglevel=error",
    "--no-update-notifier",
)
_NAME = "node_modules/"


async def resolve(installation: Installation, wanted: WantedPackages, _staging: Staging) -> bytes:
    """Return package.json and package-lock.json as one JSON object. Raises PackagesError, EngineError."""
    manifest = _make_manifest(wanted)
    own = wanted.files.get(LOCK_FILE)
    if own is not None and manifest.get("dependencies") == _read_object(
        wanted.files.get(PACKAGE_FILE, b"{}"), PACKAGE_FILE
    ).get("dependencies"):
        return _join(manifest, _read_object(own, LOCK_FILE))
    words = [*_OPTIONS, "--ignore-scripts"]
    if installation.settings.exclude_newer:
        words.append(f"--before={installation.settings.exclude_newer}")
    files = {PACKAGE_FILE: json.dumps(manifest).encode(), **_make_files(installation)}
    what = f"resolving {count(len(wanted.requirements), 'package')}"
    async with run_step(
        installation, _RESOLVE, words, files=files, environment=_make_environment(installation), what=what
    ) as ended:
        lock = ended.stdout
    return _join(manifest, _read_object(lock, LOCK_FILE))


def _join(manifest: dict[str, Any], lock: dict[str, Any]) -> bytes:
    for _, entry in _list_entries(lock):
        entry.pop("resolved", None)
    lock.pop("dependencies", None)  # the list of version 2 for older npm, which nothing here checks
    return json.dumps({"package": manifest, "lock": lock}, sort_keys=True).encode()


def _make_manifest(wanted: WantedPackages) -> dict[str, Any]:
    """Return the package.json of an installation: what the program's own one depends on, and the requirements."""
    own = _read_object(wanted.files.get(PACKAGE_FILE, b"{}"), PACKAGE_FILE)
    kept = {name: own[name] for name in _MANIFEST_FIELDS if name in own}
    for group in _DEPENDENCIES:
        for name, versions in _read_group(kept, group):
            try:
                split_node(f"{name}@{versions}")
            except ValueError as problem:
                raise _refuse(str(problem)) from None
    if "overrides" in kept and not _is_plain(kept["overrides"]):
        raise _refuse(f"the overrides of {PACKAGE_FILE} name something else than versions")
    kept["dependencies"] = {
        **dict(_read_group(kept, "dependencies")),
        **dict(split_node(requirement) for requirement in wanted.requirements),
    }
    return {"name": "program", "version": "0.0.0", **kept, "private": True}


def _is_plain(overrides: object) -> bool:
    """Return whether overrides name versions only, and no addresses or paths."""
    if isinstance(overrides, dict):
        return all(map(_is_plain, cast("dict[str, object]", overrides).values()))
    return isinstance(overrides, str) and not set(overrides) & set(":/\\")


def _read_group(manifest: dict[str, Any], group: str) -> list[tuple[str, str]]:
    found = manifest.get(group, {})
    if not isinstance(found, dict):
        raise _refuse(f"`{group}` of {PACKAGE_FILE} is not an object")
    return [(name, str(versions)) for name, versions in cast("dict[str, object]", found).items()]


def _read_object(data: bytes, name: str) -> dict[str, Any]:
    try:
        content: object = json.loads(data)
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        raise _refuse(f"{name} is not a JSON object")
    return cast("dict[str, Any]", content)


def _refuse(message: str) -> PackagesError:
    return PackagesError(message, status=Status.INVALID)


def list_packages(lock: bytes) -> list[str]:
    """Return the packages of a lock: `name==version`. Raises PackagesError for one that npm would take elsewhere."""
    found: dict[str, None] = {}
    for name, entry in _list_entries(json.loads(lock)["lock"]):
        version = entry.get("version")
        if entry.get("link") or not isinstance(version, str):
            raise _refuse(f"{LOCK_FILE}: {name} is not a package of a registry")
        if not entry.get("inBundle") and not entry.get("integrity"):
            raise _refuse(f"{LOCK_FILE}: {name} has no checksum (`integrity`)")
        found[f"{name}=={version}"] = None
    return sorted(found)


def _list_entries(lock: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the packages of a lock by name. Raises PackagesError for an older format."""
    packages = lock.get("packages")
    if lock.get("lockfileVersion") not in {2, 3} or not isinstance(packages, dict):
        raise _refuse(f"{LOCK_FILE} is not of version 2 or 3; write it again with npm 7 or later")
    for path, entry in cast("dict[str, Any]", packages).items():
        if path == "":
            continue
        if not path.startswith(_NAME) or ".." in path or not isinstance(entry, dict):
            raise _refuse(f"{LOCK_FILE}: {path} is not a package of a registry")
        typed = cast("dict[str, Any]", entry)
        yield str(typed.get("name") or path.rpartition(_NAME)[2]), typed


async def install(installation: Installation, lock: bytes, staging: Staging) -> None:
    """Install a lock into the staged environment. Raises PackagesError, EngineError, OSError."""
    content = json.loads(lock)
    files = {
        PACKAGE_FILE: json.dumps(content["package"]).encode(),
        LOCK_FILE: json.dumps(content["lock"]).encode(),
        **_make_files(installation),
    }
    words = [*_OPTIONS, *(() if installation.settings.builds else ("--ignore-scripts",))]
    async with run_step(
        installation,
        _INSTALL,
        words,
        files=files,
        environment=_make_environment(installation),
        what="installing packages",
    ) as ended:
        await asyncio.to_thread(_take, installation, ended.scratch / _FOLDER, staging)


def _take(installation: Installation, made: Path, staging: Staging) -> None:
    try:
        take_tree(made, staging.environment, installation.settings.max_bytes)
    except (TreeError, FileNotFoundError) as problem:
        raise PackagesError(f"the installed packages are refused: {problem}", status=Status.FAILED) from None
    modules = staging.environment / "node_modules"
    if modules.is_symlink():
        raise PackagesError(
            "the installed packages are refused: node_modules is a link", status=Status.FAILED
        )
    (modules / ".bin").mkdir(mode=0o755, parents=True, exist_ok=True)


def _of_node(installation: Installation) -> NodeRegistries:
    assert isinstance(installation.registries, NodeRegistries)
    return installation.registries


def _make_files(installation: Installation) -> dict[str, bytes]:
    return {"home/.npmrc": _of_node(installation).make_npmrc().encode()}


def _make_environment(installation: Installation) -> dict[str, str]:
    path = f"{installation.interpreter.executable.parent}:{installation.interpreter.installer.parent}"
    return {
        **(_of_node(installation).variables or {}),
        "PATH": f"{path}:/usr/local/bin:/usr/bin:/bin",
        "npm_config_globalconfig": "/dev/null",
    }
