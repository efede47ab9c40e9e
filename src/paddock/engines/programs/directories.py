"""Directories of Paddock that programs read: installed toolchains and warm starts.

They are in the home of the user who runs Paddock. If Paddock is root, its programs run as another user, which cannot
read root's home; then the directories are the machine's.
"""

import os
from pathlib import Path

from platformdirs import user_cache_path, user_data_path

_OF_THE_MACHINE = Path("/var/lib/paddock/toolchains")


def warm(user: int | None) -> Path:
    """Return the directory of warm starts for programs of a user; None means this process's user."""
    return (user_cache_path("paddock") if _is_own(user) else Path("/var/cache/paddock")) / "warm"


def find_install_directory(user: int | None) -> Path:
    """Return the directory of toolchains that `paddock runtimes install` made for programs of a user."""
    return user_data_path("paddock") / "toolchains" if _is_own(user) else _OF_THE_MACHINE


def list_search_directories(user: int | None) -> tuple[Path, ...]:
    """Return the directories to search for toolchains: `find_install_directory`, then root's for the machine."""
    return tuple(dict.fromkeys((find_install_directory(user), _OF_THE_MACHINE)))


def _is_own(user: int | None) -> bool:
    return user is None or user == os.geteuid()
