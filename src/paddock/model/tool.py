"""Script tools: the facts about the end of a run."""

from pydantic import ConfigDict, SerializerFunctionWrapHandler, model_serializer
from pydantic.alias_generators import to_camel

from paddock.model.base import Json, PositiveInt, Value
from paddock.model.limits import MIB
from paddock.model.network import HostGrant, Network
from paddock.model.program import Access

EXIT_REFUSED = -1
"""Exit code of a script that did not run, or did not exit by itself."""


EXIT_SIGNAL_BASE = 128
"""Added to the signal's number for the exit code of a script that a signal ended, as in a shell."""


class ToolTerms(Value):
    """The effective limits and grants of one run, as policy decided."""

    timeout_ms: PositiveInt = 30_000
    """Wall time in milliseconds; CPU time may be twice as long."""
    memory_bytes: PositiveInt = 1024 * MIB
    """Resident memory of the script and everything that it starts."""
    output_bytes: PositiveInt = 10 * MIB
    """Maximum size of standard output, and of standard error; beyond it the script ends."""
    access: Access = "none"
    """Access to the workspace."""
    network: Network = "none"
    """Access to the network."""
    hosts: HostGrant | None = None
    """The hosts that it may connect to, with the network `hosts`."""
    environment: tuple[str, ...] = ()
    """Variables of Paddock's own environment that `${NAME}` in a tool's `env` may name."""


class ToolEnd(Value):
    """The result of a script tool (`ScriptExecutionResult`)."""

    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True)

    success: bool
    """Whether it exited with code 0 and without other errors."""
    output: Json = None
    """Standard output as JSON; `{"output": text}` if it is not JSON, null if it is empty."""
    stdout: str = ""
    """Standard output, as text."""
    stderr: str = ""
    """Standard error, as text."""
    exit_code: int = EXIT_REFUSED
    """Its exit code."""
    duration_ms: float = 0.0
    """Wall time in milliseconds."""
    error: str | None = None
    """Why it failed; None if it did not."""
    violations: tuple[str, ...] = ()
    """Protected paths of the workspace that were changed and have been restored. JSON contains this only if there are
    some."""

    def to_wire(self) -> dict[str, Json]:
        """Return the end as JSON, with the digits of the numbers in `output`."""
        return {**self.model_dump(mode="json", by_alias=True), "output": self.output}

    @model_serializer(mode="wrap")
    def _without_nothing(self, write: SerializerFunctionWrapHandler) -> dict[str, Json]:
        """Leave out empty optional fields."""
        found: dict[str, Json] = write(self)
        if not self.violations:
            found.pop("violations", None)
        return found
