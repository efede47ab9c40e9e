"""One confined run of the TypeScript compiler.

It reads a program of a stranger. Therefore it runs in the sandbox like a program of another language, without network
and workspace.
"""

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from paddock.confinement.sandbox.protocol import Sandbox, Streams
from paddock.model.limits import KIB, MIB
from paddock.model.outcome import Status
from paddock.model.process import ProcessGrants, ProcessLimits, ProcessResult

_LIMITS: Final = ProcessLimits(
    timeout_ms=10_000,
    cpu_ms=5_000,
    memory_bytes=512 * MIB,
    processes=64,
    file_bytes=16 * MIB,
    scratch_bytes=16 * MIB,
    stdout_bytes=1 * MIB,
    stderr_bytes=64 * KIB,
)
_ENVIRONMENT: Final = {
    "GOGC": "off",  # a check ends before its garbage matters; the limit on memory holds
    "GOMEMLIMIT": "384MiB",
    "NO_COLOR": "1",
}
_ERROR_CODES: Final = (1, 2)
"""Exit codes of a finished check that found errors."""
_OPTIONS: Final = (
    "--noEmit",
    "--pretty",  # prints with each error where its type was declared
    # Parsing es2025 takes half the time of esnext, and what it lacks is a member of no type of ours.
    *("--target", "esnext", "--lib", "es2025"),
    # Only what is certainly wrong: a value may be null, and what has no type may be anything.
    *("--strict", "false"),
    *("--allowJs", "--checkJs"),
    *("--skipLibCheck", "--skipDefaultLibCheck"),
    "--singleThreaded",
)


class CompilerError(Exception):
    """A run of the compiler gave no answer; the text says why."""


async def run_compiler(
    sandbox: Sandbox,
    executable: Path,
    files: Mapping[str, str],
    stop: asyncio.Event | None = None,
) -> str:
    """Check files against each other, all in one run, and return what the compiler prints: nothing if all is well.

    Names have no directory. Setting `stop` ends the run. Raises CompilerError if it did not finish within 10 s,
    5 s of processor time and 512 MiB, and EngineError as sandboxes do.
    """
    grants = ProcessGrants(readable=(executable.parents[1],), environment=_ENVIRONMENT)
    slot = await sandbox.take_slot(grants, _LIMITS)
    try:
        _write_files(slot.scratch, files)
        printed = bytearray()
        command = [str(executable), *_OPTIONS, *files]
        ended = await sandbox.run(
            command, grants, _LIMITS, Streams(stdout=printed.extend), slot=slot, stop=stop
        )
    finally:
        slot.release()
    if ended.status is not Status.OK and ended.exit_code not in _ERROR_CODES:
        raise CompilerError(_explain_end(ended))
    return printed.decode("utf-8", "replace")


def _write_files(scratch: Path, files: Mapping[str, str]) -> None:
    owner = scratch.stat().st_uid
    for name, text in files.items():
        path = scratch / name
        with open(path, "xb") as file:
            file.write(text.encode("utf-8", "replace"))
        os.chown(path, owner, -1)  # the process may have another user


def _explain_end(ended: ProcessResult) -> str:
    if ended.limit == "wall":
        return f"it took longer than {_LIMITS.timeout_ms // 1000} s"
    if ended.limit is not None:
        return f"the compiler reached its limit on {ended.limit}"
    return ended.reason or f"the compiler ended with exit code {ended.exit_code}"
