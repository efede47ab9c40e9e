"""File names in texts for programs: a program must not learn about the machine that it runs on."""

import re
from pathlib import Path

_PATH_PATTERN = re.compile(r"(?<![\w.~:/])/(?:[^\s'\"`,;:()<>|/]+/)+([^\s'\"`,;:()<>|/]*)")
"""An absolute path of at least two names; it matches neither a URL nor a path such as `a/b`."""


def shorten_paths(text: str, workspace: Path) -> str:
    """Return a text with paths relative to the workspace, and `~` for the home directory."""
    for folder, stands_for in ((workspace.absolute(), ""), (Path.home(), "~/")):
        if folder.name:
            text = text.replace(f"{folder}/", stands_for)
    return text


def hide_paths(text: str, workspace: Path) -> str:
    """Return such a text in which every other file is reduced to its name."""
    return _PATH_PATTERN.sub(r"\1", shorten_paths(text, workspace))
