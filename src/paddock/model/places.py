"""Texts that name files, as programs may read them: a program learns nothing of the machine that it runs on."""

import re
from pathlib import Path

_PATH_PATTERN = re.compile(r"(?<![\w.~:/])/(?:[^\s'\"`,;:()<>|/]+/)+([^\s'\"`,;:()<>|/]*)")
"""An absolute path of two and more names; a URL and a path within a text such as `a/b` are none."""


def in_workspace(text: str, workspace: Path) -> str:
    """Return a text whose paths in the workspace begin there, and those in the home directory with `~`."""
    for folder, stands_for in ((workspace.absolute(), ""), (Path.home(), "~/")):
        if folder.name:
            text = text.replace(f"{folder}/", stands_for)
    return text


def without_places(text: str, workspace: Path) -> str:
    """Return such a text in which every other file has its name alone."""
    return _PATH_PATTERN.sub(r"\1", in_workspace(text, workspace))
