"""Script tools: what is known of a run's end, under the names of the original (seed 003)."""

from pydantic import ConfigDict
from pydantic.alias_generators import to_camel

from paddock.model.base import Json, Value

REFUSED = -1
"""Exit code of a script that did not run, or that did not end by itself."""


class ToolEnd(Value):
    """What a script tool gave (`ScriptExecutionResult`)."""

    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True)

    success: bool
    output: Json = None
    """Standard output as JSON; `{"output": text}` when it is none, null when there is none."""
    stdout: str = ""
    stderr: str = ""
    exit_code: int = REFUSED
    duration_ms: float = 0.0
    error: str | None = None
