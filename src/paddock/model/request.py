"""What somebody asks Paddock to run. One request carries one kind of work."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from paddock.model.base import Json, Value
from paddock.model.ids import new_id
from paddock.model.limits import LimitOverrides

Profile = Literal["script", "execute", "compute"]
Language = Literal["auto", "javascript", "typescript"]


class GuestRun(Value):
    """A JavaScript or TypeScript program for the V8 guest."""

    kind: Literal["guest"] = "guest"
    source: str
    name: str = "program"
    """What people call the program in error texts; never a host path."""
    language: Language = "auto"
    profile: Profile = "execute"
    input: Json = None
    """JSON value the program reads as `input`."""
    vars: dict[str, str] = Field(default_factory=dict)
    """Read-only strings the program reads as `paddock.vars`."""
    raw_results: bool = False
    """Whether `servers.x.call()` resolves to the raw CallToolResult, as the seeds' code does."""


class ServerCall(Value):
    """One call of one tool of an upstream MCP server."""

    kind: Literal["server"] = "server"
    server: str
    tool: str
    arguments: dict[str, Json] = Field(default_factory=dict)
    raw: bool = False
    """Whether the value is the whole CallToolResult, with `isError` a value like any other (X27)."""


Work = Annotated[GuestRun | ServerCall, Field(discriminator="kind")]


class ExecutionRequest(Value):
    """One request to the gate. Child requests (host calls of a guest) name their parent."""

    id: str = Field(default_factory=new_id)
    parent: str | None = None
    actor: str = "local"
    """Who asked: a user, a client's name, a schedule."""
    surface: str = "library"
    """Where the request came in: `cli`, `mcp`, `http`, `library`, `guest`."""
    workspace: Path
    work: Work
    limits: LimitOverrides = LimitOverrides()
    jit: bool = False
    """Ask for the JIT grant."""
