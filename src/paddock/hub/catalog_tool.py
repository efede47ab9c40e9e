"""A tool of an upstream server, as the catalog shows it."""

from dataclasses import dataclass

from paddock.hub.result import ToolInfo, has_hidden
from paddock.model.invisible import spell_invisible


@dataclass(frozen=True, slots=True)
class CatalogTool:
    """A tool of an upstream server, as the catalogue shows it."""

    server: str
    tool: ToolInfo
    changed: bool = False
    """The server now says something else than what was pinned; this is the pinned definition."""
    hides: bool = False
    """It was `changed` from the start: its definition holds invisible characters, which a person has to accept."""
    alias: str = ""
    """A second name, which is an identifier; empty where there is none."""

    @property
    def name(self) -> str:
        """The name by which people and programs call it: `server.tool`."""
        return f"{self.server}.{self.tool.name}"

    @property
    def warning(self) -> str:
        """Warning for readers of its definition; empty when there is none."""
        if not self.hides and not has_hidden(self.tool):
            return ""
        return (
            f"{spell_invisible(self.name)} has invisible characters in its definition; they are spelled out"
        )
