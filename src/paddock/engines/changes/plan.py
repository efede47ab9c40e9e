"""Which changes of a set are taken, what is left, and in which steps the workspace changes. No file is touched here."""

import itertools
import posixpath
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Literal, NamedTuple, TypeGuard

from paddock.model.change_set import Change, ChangeSet, FileFacts
from paddock.model.errors import ChangesCorrupted, ChangesError
from paddock.model.printable import make_printable

STAGING_PREFIX = ".paddock-accept-"
"""Beginning of the name of the directory in which new files wait, and replaced ones are kept until the end."""
_MAX_NAME_BYTES = 255
_MAX_PATH_BYTES = 4000
_OWNER_ACCESS = 0o700
_OBEYED_BY_GIT = frozenset({"hooks", "config", "config.worktree", "commondir"})
_INNER_REPOSITORIES = frozenset({"modules", "worktrees"})
"""Directories in the folder of a repository that hold others. gitrepository-layout(5)"""


class PathNote(NamedTuple):
    """A path that is not accepted, and why."""

    path: str
    why: str


class Selection(NamedTuple):
    """The changes to take, sorted by path, and what is left although it was asked for."""

    changes: tuple[Change, ...]
    left: tuple[PathNote, ...]


StepKind = Literal["put", "exchange", "take", "mode"]


class Step(NamedTuple):
    """One call that changes the workspace, and can be undone by another one."""

    kind: StepKind
    path: str
    name: str = ""
    """Name in the staging directory."""
    mode: tuple[int, int] = (0, 0)
    """Permission bits before and after, for the kind `mode`."""


def sort_key(path: str) -> list[str]:
    """Return a key that sorts a directory just before what is in it."""
    return path.split("/")


def list_above(path: str) -> list[str]:
    """Return the directories above a relative path, outer ones first."""
    parts = path.split("/")[:-1]
    return ["/".join(parts[: count + 1]) for count in range(len(parts))]


def is_at_or_below(path: str, folder: str) -> bool:
    """Return whether a path is a folder or in it, by name."""
    return path == folder or path.startswith(f"{folder}/")


def is_among(path: str, folders: Collection[str]) -> bool:
    """Return whether a path is one of the given ones or in one of them; `folders` should be fast to look up."""
    return path in folders or any(above in folders for above in list_above(path))


def check_set(set_id: str, change_set: ChangeSet) -> None:
    """Raise ChangesError unless a set can be accepted at all: complete, with sound paths and facts."""
    if change_set.incomplete:
        raise ChangesError(
            f"The change set {set_id} is incomplete and cannot be accepted: {change_set.incomplete}; "
            "let the program change less, and run it again"
        )
    seen: set[str] = set()
    for change in change_set.changes:
        wrong = _find_fault(change) or ("is listed twice" if change.path in seen else "")
        if wrong:
            raise ChangesCorrupted(
                f"The change set {set_id} cannot be accepted: {make_printable(change.path)!r} {wrong}; "
                f"remove it: paddock changes discard {set_id}"
            )
        seen.add(change.path)


def is_guarded(change: Change) -> bool:
    """Return whether a change is accepted only if its path is named."""
    target = None if change.after is None else change.after.target
    return change.protected or change.outward or (target is not None and leads_out(change.path, target))


def decides_for_git(path: str, after: FileFacts | None) -> bool:
    """Return whether a path becomes what git obeys in a repository, at any depth and in any case.

    `git status` also runs what the configuration of a submodule names.
    """
    parts = path.casefold().split("/")
    if after is None or ".git" not in parts:
        return False
    inner = parts[parts.index(".git") + 1 :]
    if not inner:
        return after.type != "directory"  # it names the folder of the repository
    return inner[0] in _OBEYED_BY_GIT or (
        inner[0] in _INNER_REPOSITORIES and not _OBEYED_BY_GIT.isdisjoint(inner)
    )


def leads_out(path: str, target: str) -> bool:
    """Return whether a link at a path of the workspace may lead out of it.

    Every `..` after a name counts, because that name may be a link to a directory higher up.
    """
    parts = [part for part in target.split("/") if part not in {"", "."}]
    ups = len([*itertools.takewhile(lambda part: part == "..", parts)])
    return target.startswith("/") or ".." in parts[ups:] or ups > path.count("/")


def describe_guard(change: Change) -> str:
    """Return why a change is accepted only if its path is named."""
    return "protected" if change.protected else "a link out of the workspace"


def select_changes(
    changes: Sequence[Change], named: Collection[str] = (), *, guards: bool = True
) -> Selection:
    """Return the changes at or below the named paths (all if none is named), and those that must be left.

    A file takes the added directories above it. What is protected, or a link that leads out, is taken only if it is
    itself named, unless `guards` is false. A name may have the escapes with which its path is shown. Raises
    ChangesError for a name at and below which nothing changed.
    """
    by_path = {change.path: change for change in changes}
    known = {".", *by_path, *itertools.chain.from_iterable(map(list_above, by_path))}
    names = dict.fromkeys(_find_path(posixpath.normpath(name) if name else name, known) for name in named)
    wanted = {path for path in by_path if not names or "." in names or is_among(path, names)}
    left = {
        path: f"{describe_guard(by_path[path])}; name it to accept it"
        for path in wanted
        if guards and is_guarded(by_path[path]) and path not in names
    }
    taken = wanted - left.keys()
    for path in sorted(taken):
        for above in list_above(path):
            change = by_path.get(above)
            if change is None or above in taken or by_path[path].after is None or not makes_directory(change):
                continue
            if guards and is_guarded(change) and above not in names:
                left[path] = f"it needs {make_printable(above)}, which is left"
            else:
                taken.add(above)
    taken -= left.keys()
    _leave_full_directories(by_path, taken, left)
    order = sorted(taken, key=sort_key)
    return Selection(
        tuple(by_path[path] for path in order),
        tuple(PathNote(path, left[path]) for path in sorted(left, key=sort_key)),
    )


def plan_steps(changes: Iterable[Change]) -> list[Step]:
    """Return the steps that make some changes, sorted by path; what is in a moved directory needs no step.

    Raises ChangesCorrupted if the changes contradict each other.
    """
    steps: list[Step] = []
    root: Change | None = None
    numbers = itertools.count()
    for change in changes:
        if root is not None and is_at_or_below(change.path, root.path):
            _check_inner(root, change)
            continue
        kind = _find_kind(change)
        if kind != "mode":
            steps.append(Step(kind, change.path, str(next(numbers))))
            root = change
    return steps


def plan_modes(changes: Iterable[Change], present: Mapping[str, int]) -> tuple[list[Step], list[Step]]:
    """Return the steps before and after the others that set permission bits.

    `present` has the bits (with the special ones) of what exists now: the changed paths, and the directories that are
    moved or in which something is. Such a directory is opened up for its owner, and closed again at the end.
    """
    first: list[Step] = []
    last: list[Step] = []
    changed = {change.path: change for change in changes}
    for path, mode in sorted(present.items(), key=lambda item: sort_key(item[0])):
        change = changed.get(path)
        final = mode
        if change is not None and change.after is not None and _find_kind(change) == "mode":
            special = mode & 0o7000 if change.after.type == "directory" else 0
            final = special | change.after.mode
        opened = mode | _OWNER_ACCESS if change is None or _is_directory(change.before) else mode
        if opened != mode:
            first.append(Step("mode", path, mode=(mode, opened)))
        stays = change is None or not removes_directory(change)
        if final != opened and stays:
            last.append(Step("mode", path, mode=(opened, final)))
    for path, change in changed.items():
        if path not in present and makes_directory(change) and change.after is not None:
            staged = change.after.mode | _OWNER_ACCESS
            if staged != change.after.mode:
                last.append(Step("mode", path, mode=(staged, change.after.mode)))
    # Inner directories first: an outer one may be closed.
    return first, sorted(last, key=lambda step: sort_key(step.path), reverse=True)


def group_changes(changes: Iterable[Change], steps: Iterable[Step]) -> dict[str, list[Change]]:
    """Return the changes at and below the path of each step that moves something. The changes are sorted by path."""
    groups: dict[str, list[Change]] = {step.path: [] for step in steps if step.kind != "mode"}
    top = ""
    for change in changes:
        if not top or not is_at_or_below(change.path, top):
            top = change.path if change.path in groups else ""
        if top:
            groups[top].append(change)
    return groups


def expect_before(group: Iterable[Change]) -> dict[str, FileFacts]:
    """Return what must be at the path of a step and below it when it is moved away: directories are open by then."""
    return _open_directories({change.path: change.before for change in group})


def expect_staged(group: Iterable[Change]) -> dict[str, FileFacts]:
    """Return what is staged for a step: directories are open to their owner until the end."""
    return _open_directories({change.path: change.after for change in group})


def _open_directories(facts: Mapping[str, FileFacts | None]) -> dict[str, FileFacts]:
    return {
        path: each.replace(mode=each.mode | _OWNER_ACCESS) if each.type == "directory" else each
        for path, each in facts.items()
        if each is not None
    }


def _find_fault(change: Change) -> str:
    """Return what is wrong with a change; "" if nothing is."""
    parts = change.path.split("/")
    size = len(change.path.encode("utf-8", "surrogateescape")) if _is_encodable(change.path) else -1
    if size < 0 or "\0" in change.path or size > _MAX_PATH_BYTES:
        return "is not a path"
    if any(
        part in {"", ".", ".."} or len(part.encode("utf-8", "surrogateescape")) > _MAX_NAME_BYTES
        for part in parts
    ):
        return "is not a path in the workspace"
    if parts[0].startswith(STAGING_PREFIX):
        return "has a name that Paddock uses"
    for facts in (change.before, change.after):
        if facts is not None and (
            (facts.type == "file") != (facts.sha256 is not None)
            or (facts.type == "link") != bool(facts.target)
        ):
            return "lacks facts of its file"
    target = change.after.target if change.after is not None else None
    if target is not None and (not _is_encodable(target) or "\0" in target or len(target) > _MAX_PATH_BYTES):
        return "has a target that is not a path"
    return "has no change" if change.before == change.after else ""


def _is_encodable(text: str) -> bool:
    try:
        text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return False
    return True


def _is_directory(facts: FileFacts | None) -> TypeGuard[FileFacts]:
    return facts is not None and facts.type == "directory"


def makes_directory(change: Change) -> bool:
    """Return whether a change puts a directory where none was."""
    return _is_directory(change.after) and not _is_directory(change.before)


def removes_directory(change: Change) -> bool:
    """Return whether a change removes a directory, or puts something else in its place."""
    return _is_directory(change.before) and not _is_directory(change.after)


def _find_path(name: str, known: Collection[str]) -> str:
    """Return the path that a name stands for. Raises ChangesError."""
    if name in known:
        return name
    shown_so = [path for path in known if make_printable(path, len(path)) == name] if "\\" in name else []
    if len(shown_so) != 1:
        raise ChangesError(
            f"Nothing changed at {make_printable(name)!r}; `paddock changes show` lists the paths of a change set"
        )
    return shown_so[0]


def _leave_full_directories(by_path: Mapping[str, Change], taken: set[str], left: dict[str, str]) -> None:
    """Leave the directories that would be removed although something in them is not."""
    full = {above: path for path in by_path if path not in taken for above in list_above(path)}
    for path in sorted(taken, key=sort_key, reverse=True):
        if path not in full or not removes_directory(by_path[path]):
            continue
        taken.discard(path)
        left[path] = f"it holds {make_printable(full[path])}, which is left"
        full |= dict.fromkeys(list_above(path), path)
        # What would have taken its place cannot be there either.
        for inner in [p for p in taken if p.startswith(f"{path}/") and by_path[p].after is not None]:
            taken.discard(inner)
            left[inner] = f"it needs {make_printable(path)}, which is left"


def _find_kind(change: Change) -> StepKind:
    before, after = change.before, change.after
    if before is None:
        return "put"
    if after is None:
        return "take"
    if before.type == after.type and (
        before.type == "directory" or before.sha256 == after.sha256 is not None
    ):
        return "mode"
    return "exchange"


def _check_inner(root: Change, change: Change) -> None:
    """Raise ChangesCorrupted unless a change below another one is moved with it."""
    goes = change.after is None and _is_directory(root.before)
    comes = change.before is None and _is_directory(root.after)
    # A name may be in both directories: a directory that was replaced by a link, and later by another directory.
    if not goes and not comes:
        raise ChangesCorrupted(
            f"The change set contradicts itself at {make_printable(change.path)!r}; remove it: paddock changes discard"
        )
