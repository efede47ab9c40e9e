"""The arguments with which a Paddock is made."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from paddock.model.errors import ConfigurationError
from paddock.policy.settings.loader import load
from paddock.policy.settings.schema import Settings
from paddock.surfaces.client.arguments import check_type


def find_workspace(given: object) -> Path:
    """Return the real path of a workspace. Raises ConfigurationError for one that is not a directory.

    A missing workspace has no settings that could narrow anything.
    """
    check_type(given, (str, Path), "workspace", "a path")
    try:
        workspace = Path(os.path.realpath(Path(str(given)).expanduser()))
        is_there = os.path.isdir(workspace)  # `Path` raises for an unreadable path
    except (ValueError, RuntimeError):  # a character that no path has; a user without a home
        raise ConfigurationError("the workspace is not a path") from None
    if not is_there:
        raise ConfigurationError(f"the workspace {workspace} is not a directory that can be read")
    return workspace


def choose_settings(settings: object, overrides: Mapping[str, Any] | None, workspace: Path) -> Settings:
    """Return the given settings, or those of files and environment. Raises ConfigurationError."""
    check_type(settings, (Settings, type(None)), "settings", "a Settings")
    check_type(overrides, (Mapping, type(None)), "overrides", "a dict")
    return settings if isinstance(settings, Settings) else load(workspace, flags=overrides).settings
