"""What another user may access; explains why a job cannot reach a program or a folder that exists.

Toolchains and workspaces are often in a home that other users may not enter. If Paddock is root, its jobs run as
another user.
"""

import os
import stat
from collections.abc import Mapping
from collections.abc import Set as AbstractSet


def find_barrier(path: str, user: int) -> str:
    """Return the first directory on a path that `user` may not enter; "" without one.

    The user is in the group of the same number only.
    """
    here = ""
    for name in os.path.realpath(path).split("/")[1:]:
        here = f"{here}/{name}"
        try:
            facts = os.stat(here)  # pathlib would be copied by every fork
        except OSError:
            return here
        if stat.S_ISDIR(facts.st_mode) and not may_pass(facts, user, {user}):
            return here
    return ""


def may_pass(facts: os.stat_result, user: int, groups: AbstractSet[int]) -> bool:
    """Return whether a user without capabilities may enter a directory or execute a file."""
    return _has_right(facts, user, groups, stat.S_IXOTH)


def may_read(facts: os.stat_result, user: int, groups: AbstractSet[int]) -> bool:
    """Return whether a user without capabilities may read a file."""
    return _has_right(facts, user, groups, stat.S_IROTH)


def may_write(facts: os.stat_result, user: int, groups: AbstractSet[int]) -> bool:
    """Return whether a user without capabilities may write to a file or a directory."""
    return _has_right(facts, user, groups, stat.S_IWOTH)


def _has_right(facts: os.stat_result, user: int, groups: AbstractSet[int], others: int) -> bool:
    """Return whether a user has a right, given as the mode bit for other users."""
    if facts.st_uid == user:
        return bool(facts.st_mode & others << 6)
    if facts.st_gid in groups:
        return bool(facts.st_mode & others << 3)
    return bool(facts.st_mode & others)


def why_missing(program: str, environment: Mapping[str, str], user: int) -> str:
    """Return an explanation if a program could not be executed because `user` cannot reach it; else ""."""
    candidates = (
        [program]
        if "/" in program
        else [f"{folder}/{program}" for folder in environment.get("PATH", "").split(":")]
    )
    for path in candidates:
        if os.path.exists(path) and (closed := find_barrier(path, user)):
            return (
                f"; {path} exists, but programs run as user {user}, which may not enter {closed}: "
                "install it where every user may enter, or set sandbox.job_user to a user that may"
            )
    return ""


def why_forbidden(program: str) -> str:
    """Return an explanation if a program is on a file system without execution; else ""."""
    try:
        flags = os.statvfs(program).f_flag if "/" in program else 0
    except OSError:
        return ""
    if not flags & os.ST_NOEXEC:
        return ""
    return (
        "; its file system is mounted noexec, so that no program can run from it: for programs that Paddock compiles, "
        "set TMPDIR to a directory of another file system, or mount /tmp with exec (docker run --tmpfs /tmp:exec)"
    )
