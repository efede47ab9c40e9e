"""Script tools: the facts about the end of a run."""

from pydantic import ConfigDict, SerializerFunctionWrapHandler, model_serializer
from pydantic.alias_generators import to_camel

from paddock.model.base import Json, PositiveInt, Value
from paddock.model.limits import MIB
from paddock.model.program import Access, Network

EXIT_REFUSED = -1
"""Exit code of a script that did not run, or that did not end by itself."""


EXIT_SIGNAL_BASE = 128
"""A script that a signal ended has this and the signal's number as its exit code, as under a shell."""


class ToolTerms(Value):
    """The effective limits and grants of one run, as policy decided."""

    timeout_ms: PositiveInt = 30_000
    """Wall time in milliseconds; CPU time may be twice as much."""
    memory_bytes: PositiveInt = 1024 * MIB
    """Resident memory of the script and all it starts."""
    output_bytes: PositiveInt = 10 * MIB
    """Bytes of standard output, and of standard error; one more ends the script."""
    access: Access = "none"
    """How it may use the workspace."""
    network: Network = "none"
    """How it may use the network."""
    environment: tuple[str, ...] = ()
    """Variables of Paddock's own environment that `${NAME}` in a tool's `env` may stand for."""


class ToolEnd(Value):
    """What a script tool gave (`ScriptExecutionResult`)."""

    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True)

    success: bool
    """Whether its exit code is 0 and nothing else is wrong."""
    output: Json = None
    """Standard output as JSON; `{"output": text}` when it is none, null when there is none."""
    stdout: str = ""
    """Standard output, as text."""
    stderr: str = ""
    """Standard error, as text."""
    exit_code: int = EXIT_REFUSED
    """Its exit code."""
    duration_ms: float = 0.0
    """Wall time in milliseconds."""
    error: str | None = None
    """Why it failed; None when it did not."""
    violations: tuple[str, ...] = ()
    """Protected paths of the workspace that were changed, and have been put back. As JSON only where there are some."""

    def to_wire(self) -> dict[str, Json]:
        """Return the end as JSON has it, `output` with the digits of its numbers."""
        return {**self.model_dump(mode="json", by_alias=True), "output": self.output}

    @model_serializer(mode="wrap")
    def _without_nothing(self, write: SerializerFunctionWrapHandler) -> dict[str, Json]:
        """Leave out fields that say nothing."""
        found: dict[str, Json] = write(self)
        if not self.violations:
            found.pop("violations", None)
        return found
