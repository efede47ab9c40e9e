"""Find out which clients are installed: by their commands, and by their files in the home directory.

`paddock install` may have created a client's directory itself. Therefore a configuration file with only Paddock in it,
and the backups beside it, do not count.
"""

import os
import re
import shutil
from pathlib import Path

from paddock.model.errors import ConfigurationError
from paddock.surfaces.cli.clients.entry import read_command
from paddock.surfaces.cli.clients.files import read_draft
from paddock.surfaces.cli.clients.table import CLIENTS, McpClient

_BACKUP = re.compile(r"\.backup(?:\.[0-9]+)?\Z")


def is_installed(client: McpClient) -> bool:
    """Return whether the client's command, or a file that the client has written, exists."""
    if client.program and shutil.which(client.program) is not None:
        return True
    return bool(client.sign) and _has_other_files(Path.home() / client.sign)


def _has_other_files(directory: Path) -> bool:
    configured = {
        Path.home() / name: about
        for about in CLIENTS.values()
        for names in about.user.values()
        for name in names
    }
    for folder, _, names in os.walk(directory):
        for name in names:
            about = configured.get(Path(folder, _BACKUP.sub("", name)))
            if about is None or not _holds_paddock_alone(Path(folder, name), about):
                return True
    return False


def _holds_paddock_alone(file: Path, client: McpClient) -> bool:
    """Return whether a configuration file has only entries of Paddock; a backup counts like its original."""
    if _BACKUP.search(file.name):
        return True
    try:
        draft = read_draft(file, None)
        entries = draft.read_entries(client.key)
    except ConfigurationError:
        return False
    return draft.holds_only(client.key) and all(read_command(entry) is not None for entry in entries.values())
