"""Settings of the page `paddock ui`, `[ui]`."""

from platformdirs import user_state_path
from pydantic import Field

from paddock.model.base import Value
from paddock.policy.settings.narrowing import OwnersPath


class UiSettings(Value):
    """`[ui]`: the page that shows what runs and what happened."""

    directory: OwnersPath = Field(default_factory=lambda: user_state_path("paddock") / "ui")
    """Directory of the hashes of logins; by default `paddock/ui` in the user's state directory."""
