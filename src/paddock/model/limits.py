"""Limits (ceilings) and grants (permissions) after policy's decision. A request may ask for others."""

from collections.abc import Callable
from operator import ge
from typing import Annotated, Any, Literal, NamedTuple, get_args

from pydantic import Field

from paddock.model.base import PositiveInt, Value
from paddock.model.json_meter import MAX_VALUES

Calls = Literal["run", "read_only", "dry_run"]
"""Which calls a program may make, widest first: all; those that their servers mark as read-only, with all others
refused; the same, with all others answered by a stub and listed."""
_WIDEST_FIRST: tuple[Calls, ...] = get_args(Calls)

KIB = 1024
MIB = 1024 * KIB

SCRIPT_BYTES = 16 * MIB
"""Maximum size of a script tool's program, in bytes: a larger one would fill memory."""
OWN_SERVERS_FILE, SHARED_SERVERS_FILE = ".paddock/servers.json", ".mcp.json"
"""The servers files of a workspace: one for Paddock alone, and one that other MCP clients read, too."""
SERVERS_FILE_BYTES = 4 * MIB
"""Maximum size of a servers file, in bytes, for the same reason."""


class Narrows(NamedTuple):
    """Annotation of a setting: which values a source may set that may not allow more than an earlier one."""

    narrows: Callable[[Any, Any], bool]
    """Returns whether the second value allows no more than the first."""
    relation: str = "allows more than"
    """What another value does, in errors."""


SMALLER = Narrows(ge)
Maximum = Annotated[PositiveInt, SMALLER]
"""A maximum: a smaller one allows less."""


class GuestLimits(Value):
    """Ceilings of one guest execution."""

    timeout_ms: Maximum = 120_000
    """Maximum time from the start of the program to its result, in milliseconds."""
    code_bytes: Maximum = 50 * KIB
    """Maximum size of the program, in bytes of UTF-8. A larger program does not start."""
    output_bytes: Maximum = 10 * MIB
    """Maximum console output, in bytes without line ends. The rest is replaced by one `[output truncated]`."""
    result_bytes: Maximum = 10 * MIB
    """Maximum length of the result as JSON, in characters. A longer one ends the program with `output_limit` and is
    stored completely; in the compat profile it is cut, with `... [result truncated]`."""
    sleep_ms: Maximum = 30_000
    """Maximum time of one `sleep()`, in milliseconds. Longer ones are shortened to it."""
    memory_bytes: Maximum = 256 * MIB
    """Maximum memory that the worker adds after its start, in bytes: heap, array buffers and stacks."""
    host_calls: Maximum = 1_000
    """Maximum number of calls of tools and of the SDK in one execution."""
    parallel_calls: Maximum = 32
    """Maximum number of calls in flight at the same time. Further calls wait."""
    frame_bytes: Maximum = 16 * MIB
    """Maximum size of one message between worker and parent, in bytes."""
    frame_values: Maximum = MAX_VALUES
    """Maximum number of JSON values in one message of a worker, such as the arguments of a call or the result, and in
    the input of a program. Each may take up to 200 bytes of Paddock's memory. Tools accept at most 1,000,000."""


class LimitOverrides(Value):
    """Limits that a request asks for; a missing field means the profile's default."""

    timeout_ms: PositiveInt | None = None
    compile_timeout_ms: PositiveInt | None = None
    code_bytes: PositiveInt | None = None
    output_bytes: PositiveInt | None = None
    result_bytes: PositiveInt | None = None
    sleep_ms: PositiveInt | None = None
    memory_bytes: PositiveInt | None = None
    cpu_ms: PositiveInt | None = None
    host_calls: PositiveInt | None = None
    parallel_calls: PositiveInt | None = None


class Grants(Value):
    """Permissions of one execution. Everything that is not named here is refused."""

    jit: bool = False
    """Just-in-time compilation in the guest: faster for CPU-heavy programs, more attack surface."""
    servers: tuple[str, ...] = Field(default=("*",))
    """Upstream servers that the program may call: names, or `*` for every configured one."""
    calls: Calls = "run"
    """Which calls it may make: all (`run`), only those marked read-only (`read_only`), or a rehearsal (`dry_run`)."""


def narrower(one: Calls, other: Calls) -> Calls:
    """Return the mode that allows less."""
    return one if _WIDEST_FIRST.index(one) >= _WIDEST_FIRST.index(other) else other
