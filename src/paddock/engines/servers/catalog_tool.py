"""A tool of an upstream server in the catalog."""

from dataclasses import dataclass

from paddock.engines.servers.result import ToolInfo, has_hidden
from paddock.model.invisible import spell_invisible


@dataclass(frozen=True, slots=True)
class CatalogTool:
    """A tool of an upstream server in the catalog."""

    server: str
    tool: ToolInfo
    changed: bool = False
    """The server's current definition differs from the pin; this is the pinned definition."""
    hides: bool = False
    """It was `changed` from the start: its definition contains invisible characters, which a person must accept."""
    alias: str = ""
    """A second name that is an identifier; empty if there is none."""

    @property
    def name(self) -> str:
        """Its name for people and programs: `server.tool`."""
        return f"{self.server}.{self.tool.name}"

    @property
    def warning(self) -> str:
        """Warning for readers of its definition; empty if there is none."""
        if not self.hides and not has_hidden(self.tool):
            return ""
        return (
            f"{spell_invisible(self.name)} has invisible characters in its definition; they are spelled out"
        )
