"""Settings of the access `overlay`, `[overlay]`: how much a program may change, and how much may be copied."""

from platformdirs import user_state_path
from pydantic import Field

from paddock.model.base import Value
from paddock.model.limits import MIB, Maximum
from paddock.policy.settings.narrowing import OwnersPath


class OverlaySettings(Value):
    """`[overlay]`: programs with the access `overlay`, whose changes wait until a person accepts them."""

    directory: OwnersPath = Field(default_factory=lambda: user_state_path("paddock") / "changes")
    """Directory of change sets; by default `paddock/changes` in the user's state directory."""
    bytes: Maximum = 256 * MIB
    """Maximum size of the contents that one program or session may change, in bytes. A program that writes more ends
    as `output_limit`, and its changes cannot be accepted."""
    changes: Maximum = 20_000
    """Maximum number of paths that one program or session may change. Further changes are left out, and none of them
    can be accepted."""
    copy_bytes: Maximum = 256 * MIB
    """Maximum size of a workspace that is copied where the kernel or the file system has no overlay, in bytes. A larger
    one is refused."""
    copy_files: Maximum = 20_000
    """Maximum number of files and directories of a workspace that is copied, as above."""
    undo_bytes: Maximum = 64 * MIB
    """Maximum size of the contents before that one change set keeps, in bytes: for differences, `--merge` and `paddock
    changes undo`. Paths beyond it can be accepted and not undone."""
    keep_days: Maximum = 14
    """Time after which a change set is deleted, in days, whether it was accepted or not."""
    keep_bytes: Maximum = 2048 * MIB
    """Maximum size of all change sets, in bytes. The oldest ones beyond it are deleted."""
