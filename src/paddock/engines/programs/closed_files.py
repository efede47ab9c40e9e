"""Find the file of the workspace that a failed program may not use, or was not given, by its last output.

The output is hostile. Therefore only paths below the workspace are checked, no link is followed, and nothing is
revealed about a directory that the program cannot enter. The program learns only what it could have found out itself.
"""

import os
import re
import shlex
import stat
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple

from paddock.confinement.sandbox.child import permissions
from paddock.confinement.sandbox.child.hiding import HidingRules, is_hidden
from paddock.engines.programs.task import ProgramTask
from paddock.engines.programs.toolchain import identity_of
from paddock.engines.programs.workdir import open_in_workspace
from paddock.model.late_pattern import compile_late
from paddock.model.work_files import check_relative

_DENIED_PATTERN = compile_late(
    r"permission denied|permissiondenied|eacces|accessdenied|access to the path .* is denied", re.IGNORECASE
)
"""Messages of runtimes that may not open a file."""
_ABSENT_PATTERN = compile_late(r"no such file or directory|enoent|cannot open file", re.IGNORECASE)
"""Messages of runtimes that do not find one."""
_QUOTED_PATTERN = compile_late("['\"`\u2018\u201c]([^'\"`\u2019\u201d]++)['\"`\u2019\u201d]")
_WORD_PATTERN = compile_late(r"""[^\s:,;()'"`]++""")
_MAX_LINES = 20
_MAX_NAMES = 64
"""Maximum number of lines that are searched, and of names in each."""
_COMMANDS = {"read": "chmod o+r", "enter": "chmod o+x", "write to": "chown {user}"}


class _Closed(NamedTuple):
    name: str
    """Path relative to the workspace."""
    facts: os.stat_result
    what: str
    """The denied action, such as `read`."""


def find_closed_file(stderr_text: str, task: ProgramTask, user: int | None) -> str:
    """Return which file a program may not use, why, and what to do; "" if its output names none.

    `user` is the user that it runs as, None for this process's.
    """
    if task.terms.grants.access == "none":
        return ""
    for name in _list_names(stderr_text, _DENIED_PATTERN):
        if (found := _find_closed(name, task, user)) is None:
            continue
        number, owner = identity_of(user)[0], found.facts.st_uid
        command = _COMMANDS[found.what].format(user=number)
        setting = f', or set job_user = "{owner}" under [sandbox]' if owner and os.geteuid() == 0 else ""
        return (
            f"{found.name} belongs to user {owner} and has mode {stat.S_IMODE(found.facts.st_mode):04o}; programs run "
            f"as user {number}, which may not {found.what} it. Let that user {found.what} it: "
            f"{command} {shlex.quote(found.name)}{setting}"
        )
    return ""


def find_left_file(stderr_text: str, task: ProgramTask, user: int | None, rules: HidingRules) -> str:
    """Return how to get the file of the workspace that a program did not find in its separate directory, or "".

    Files that the `rules` hide are left out.
    """
    if task.terms.grants.access == "none" or not task.work.has_workdir:
        return ""
    for name in _list_names(stderr_text, _ABSENT_PATTERN):
        if os.path.isabs(name) or _find_closed(name, task, user) is not None:
            continue
        try:
            check_relative(name)
            with open_in_workspace(task.workspace, name) as file:
                real, top = os.readlink(f"/proc/self/fd/{file}"), os.path.realpath(task.workspace)
                if not stat.S_ISREG(os.fstat(file).st_mode) or is_hidden(real, top, rules):
                    continue
        except (OSError, ValueError):
            continue
        shown = shlex.quote(name)
        return (
            f"{shown} is in the workspace, and this program works in a separate directory: give it the file "
            f"(--file-in {shown}, or `files` of a call), or let it open the file by its absolute path"
        )
    return ""


def _list_names(stderr_text: str, pattern: re.Pattern[str]) -> Iterator[str]:
    """Yield the parts of the last lines with a message that may be a path."""
    for line in islice(filter(pattern.search, reversed(stderr_text.splitlines())), _MAX_LINES):
        parts = chain(_QUOTED_PATTERN.findall(line), line.split(": "), _WORD_PATTERN.findall(line))
        yield from islice(parts, _MAX_NAMES)


def _find_closed(name: str, task: ProgramTask, user: int | None) -> _Closed | None:
    """Return the first directory of a path, or its file, that the program may not use."""
    try:
        path = os.path.relpath(os.path.join(task.cwd, name), task.workspace.resolve())
        parts = Path(path).parts
        if "\0" in name or os.pardir in parts or path == os.curdir:
            return None
        return _walk_path(parts, task, user)
    except (OSError, ValueError):
        return None


def _walk_path(parts: Sequence[str], task: ProgramTask, user: int | None) -> _Closed | None:
    number, groups = identity_of(user)
    writes = task.terms.grants.access == "workspace-write"
    folder = os.open(task.workspace, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    above = os.fstat(folder)
    try:
        for depth, part in enumerate(parts, 1):
            name = os.path.join(*parts[:depth])
            try:
                facts = os.stat(part, dir_fd=folder, follow_symlinks=False)
            except FileNotFoundError:
                if (
                    depth < len(parts)
                    or depth == 1
                    or not writes
                    or permissions.may_write(above, number, groups)
                ):
                    return None
                return _Closed(os.path.join(*parts[:-1]), above, "write to")
            if depth == len(parts):
                if not (stat.S_ISREG(facts.st_mode) or stat.S_ISDIR(facts.st_mode)):
                    return None
                if not permissions.may_read(facts, number, groups):
                    return _Closed(name, facts, "read")
                if writes and not permissions.may_write(facts, number, groups):
                    return _Closed(name, facts, "write to")
                return None
            if not stat.S_ISDIR(facts.st_mode):
                return None
            if not permissions.may_pass(facts, number, groups):
                return _Closed(name, facts, "enter")
            inner = os.open(part, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
            os.close(folder)
            folder, above = inner, facts
    finally:
        os.close(folder)
    return None
