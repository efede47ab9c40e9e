"""The limits of a program's processes, from those that policy decided."""

import os

from paddock.engines.programs.task import ProgramTask
from paddock.model.limits import KIB, MIB
from paddock.model.process import ProcessLimits
from paddock.model.program import ProgramLimits

PROCESSORS = os.cpu_count() or 1

_OUTPUT_END_BYTES = 8 * KIB
"""Size of the output's head and tail that are searched for the reason of a failure. The sinks keep all output."""
_COMPILER_BYTES = 8 * MIB
"""Maximum output of a compiler on each stream, in bytes. It is reported if the compiler fails."""


def compute_cpu_ms(limits: ProgramLimits, timeout_ms: int) -> int:
    """Return the CPU time that a program may use in so much wall time, which is the limit unless one is given."""
    whole = timeout_ms * PROCESSORS + 1000
    return whole if limits.cpu_ms is None else min(limits.cpu_ms, whole)


def limit_run(task: ProgramTask, timeout_ms: int) -> ProcessLimits:
    """Return the limits of a program that has `timeout_ms` left."""
    limits = task.terms.limits
    usual = ProcessLimits(
        timeout_ms=timeout_ms,
        cpu_ms=compute_cpu_ms(limits, timeout_ms),
        memory_bytes=limits.memory_bytes,
        stack_bytes=limits.stack_bytes,
        kept_bytes=_OUTPUT_END_BYTES,
    )
    if limits.output_bytes is None:
        return usual
    stdout, stderr = (min(limits.output_bytes, most) for most in (usual.stdout_bytes, usual.stderr_bytes))
    return usual.replace(stdout_bytes=stdout, stderr_bytes=stderr)


def limit_compiler(task: ProgramTask) -> ProcessLimits:
    """Return the limits of a compile step: its own, or those of its program."""
    limits = task.terms.limits
    timeout_ms = limits.compile_timeout_ms or limits.timeout_ms
    cpu_ms = compute_cpu_ms(limits if limits.compile_timeout_ms is None else ProgramLimits(), timeout_ms)
    return ProcessLimits(
        timeout_ms=timeout_ms,
        cpu_ms=cpu_ms,
        memory_bytes=limits.compile_memory_bytes or limits.memory_bytes,
        stdout_bytes=_COMPILER_BYTES,
        stderr_bytes=_COMPILER_BYTES,
        kept_bytes=_OUTPUT_END_BYTES,
    )
