"""Check that Paddock's own files on this machine belong to this user and are closed to others. Changes nothing."""

import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Literal, NamedTuple

from platformdirs import user_cache_path

from paddock.engines.javascript import parse_cache
from paddock.foundation.files import MAX_FILE_BYTES
from paddock.foundation.own_files import FileFinding, NotOursError, judge_directory, judge_file, read_trusted
from paddock.model.base import Value
from paddock.policy.settings.schema import Settings

_MAX_ENTRIES = 1000
"""Maximum number of checked files and directories per place."""


class PlaceReport(Value):
    """The result for one place where Paddock keeps its own files."""

    name: str
    path: str
    state: Literal["absent", "private", "open", "refused"]
    """`open`: the next use sets its mode. `refused`: Paddock does not use it until a person repairs it."""
    detail: str = ""
    """The first fault that was found."""
    fix: str = ""


class _StateDirectory(NamedTuple):
    name: str
    path: Path
    depth: int
    """How many levels down its files are checked; 0 for the directory alone."""


def check_places(settings: Settings) -> list[PlaceReport]:
    """Return a report for each place in the settings, and for the caches."""
    directories = (
        _StateDirectory("ledger", settings.audit.directory, 1),
        _StateDirectory("vault", settings.vault.directory, 2),
        _StateDirectory("approvals", settings.approvals.directory, 1),
        _StateDirectory("users of the server", settings.serve.directory, 4),
        _StateDirectory("logins to the page", settings.ui.directory, 1),
        _StateDirectory("artifacts", settings.artifacts.directory, 0),
        _StateDirectory("schedules", settings.sdk.temporals, 0),
        _StateDirectory("compiled programs", user_cache_path("paddock") / "programs", 0),
        _StateDirectory("parsed programs", parse_cache.find_directory(), 1),
        _StateDirectory("vectors of tools", user_cache_path("paddock") / "vectors", 1),
    )
    found = [_report_place(each.name, each.path, _find_faults(each)) for each in directories]
    found.append(
        _report_place("pins and logins", settings.servers.state, _find_memory_faults(settings.servers.state))
    )
    for name, path in (("signals", settings.sdk.signals), ("webhooks", settings.sdk.webhooks)):
        found.append(_report_place(name, path, _find_file_faults(path)))
    found.append(_report_trusted_file("trusted servers", settings.servers.trust))
    return [*found, _report_trusted_file("registry", settings.servers.registry)]


def _report_place(name: str, path: Path, findings: Iterator[tuple[str, FileFinding]]) -> PlaceReport:
    try:
        worst = sorted(islice(findings, _MAX_ENTRIES), key=lambda each: each[1].mode is not None)
    except FileNotFoundError:
        return PlaceReport(name=name, path=str(path), state="absent", detail=str(path))
    except OSError as error:
        detail = f"{error.filename or path}: {error.strerror}"
        return PlaceReport(name=name, path=str(path), state="refused", detail=detail)
    if not worst:
        return PlaceReport(name=name, path=str(path), state="private", detail=str(path))
    where, finding = worst[0]
    return PlaceReport(
        name=name,
        path=str(path),
        state="refused" if finding.mode is None else "open",
        detail=f"{where}: it {finding.why}",
        fix=finding.remedy,
    )


def _find_faults(place: _StateDirectory) -> Iterator[tuple[str, FileFinding]]:
    """Yield the faults of a directory and its contents. Raises OSError."""
    path = str(place.path)
    if (finding := judge_directory(os.lstat(path), path)) is not None:
        yield path, finding
        return
    if not place.depth:
        return
    with os.scandir(path) as entries:
        for entry in islice(entries, _MAX_ENTRIES):
            if place.depth > 1 and entry.is_dir(follow_symlinks=False):
                yield from _find_faults(_StateDirectory(place.name, Path(entry.path), place.depth - 1))
            elif (finding := judge_file(entry.stat(follow_symlinks=False), entry.path)) is not None:
                yield entry.path, finding


def _find_memory_faults(path: Path) -> Iterator[tuple[str, FileFinding]]:
    """Yield the faults of the facts about servers: a directory that others may read, with private ones in it."""
    if (finding := judge_directory(os.lstat(path), path, private=False)) is not None:
        yield str(path), finding
        return
    with os.scandir(path) as entries:
        for entry in islice(entries, _MAX_ENTRIES):
            if entry.is_dir(follow_symlinks=False):
                yield from _find_faults(_StateDirectory("", Path(entry.path), 1))


def _find_file_faults(path: Path) -> Iterator[tuple[str, FileFinding]]:
    if (finding := judge_file(os.lstat(path), path)) is not None:
        yield str(path), finding


def _report_trusted_file(name: str, path: Path) -> PlaceReport:
    """Report on a file that Paddock obeys; a person may write it, or link to it."""
    try:
        read_trusted(path, MAX_FILE_BYTES)
    except FileNotFoundError:
        return PlaceReport(name=name, path=str(path), state="absent", detail=str(path))
    except NotOursError as error:
        detail = f"{path}: it {error.why}"
        return PlaceReport(name=name, path=str(path), state="refused", detail=detail, fix=error.remedy)
    except OSError as error:
        return PlaceReport(name=name, path=str(path), state="refused", detail=f"{path}: {error.strerror}")
    return PlaceReport(name=name, path=str(path), state="private", detail=str(path))
