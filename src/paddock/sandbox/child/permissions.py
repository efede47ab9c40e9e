"""What another user can get at: tells why a program or a folder that is there is out of a job's reach.

Toolchains and workspaces often stand below a home that is closed to others, and jobs of a root Paddock run as others.
"""

import os
import stat
from collections.abc import Mapping
from collections.abc import Set as AbstractSet


def find_barrier(path: str, user: int) -> str:
    """Return the first directory, of `path` and those it is in, that `user`, in the group of its number, may not enter.

    Empty when there is none.
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
    """Tell whether a user without capabilities may enter a directory or execute a file."""
    return _has_right(facts, user, groups, stat.S_IXOTH)


def may_read(facts: os.stat_result, user: int, groups: AbstractSet[int]) -> bool:
    """Tell whether a user without capabilities may read a file."""
    return _has_right(facts, user, groups, stat.S_IROTH)


def may_write(facts: os.stat_result, user: int, groups: AbstractSet[int]) -> bool:
    """Tell whether a user without capabilities may write to a file or a directory."""
    return _has_right(facts, user, groups, stat.S_IWOTH)


def _has_right(facts: os.stat_result, user: int, groups: AbstractSet[int], others: int) -> bool:
    """Tell whether a user has the right that is this bit for others."""
    if facts.st_uid == user:
        return bool(facts.st_mode & others << 6)
    if facts.st_gid in groups:
        return bool(facts.st_mode & others << 3)
    return bool(facts.st_mode & others)


def why_missing(program: str, environment: Mapping[str, str], user: int) -> str:
    """Return what to say of a program that could not be executed and that is there for others, or ""."""
    places = (
        [program]
        if "/" in program
        else [f"{folder}/{program}" for folder in environment.get("PATH", "").split(":")]
    )
    for place in places:
        if os.path.exists(place) and (closed := find_barrier(place, user)):
            return (
                f"; {place} is there, but programs run as user {user} here, who may not enter {closed}: "
                "install it where everybody may go, or set sandbox.job_user to a user who may"
            )
    return ""


def why_forbidden(program: str) -> str:
    """Return what to say of a program that stands where none may be executed, or ""."""
    try:
        flags = os.statvfs(program).f_flag if "/" in program else 0
    except OSError:
        return ""
    if not flags & os.ST_NOEXEC:
        return ""
    return (
        "; no program may run from its file system, which is mounted noexec: for what Paddock compiles, set TMPDIR to "
        "a directory of another one, or mount that of /tmp with exec (docker run --tmpfs /tmp:exec)"
    )
