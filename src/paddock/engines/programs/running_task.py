"""One program while the engine takes it through its steps."""

import asyncio
import hashlib
import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from paddock.confinement.sandbox.child import permissions
from paddock.confinement.sandbox.child.hiding import HidingRules, is_hidden
from paddock.confinement.sandbox.protocol import ByteSink, GuardingSandbox, Streams
from paddock.engines.programs.outcome_mapping import (
    StepStart,
    error_of,
    explain_starvation,
    result_of,
    slow,
    withheld,
)
from paddock.engines.programs.steps import StepPaths, StepRunner
from paddock.engines.programs.task import ProgramTask, Sinks
from paddock.engines.programs.toolchain import Toolchain, identity_of, reachable_to_read
from paddock.engines.programs.workdir import WORKDIR
from paddock.model.outcome import RawResult, Status
from paddock.model.process import ProcessGrants, ProcessLimits, ProcessResult
from paddock.model.program import Phase
from paddock.model.starvation import UNSPENT, Spent
from paddock.model.texts import ESCAPED_LINE_ENDS, FENCED, has_escaped_line_ends

if TYPE_CHECKING:
    from paddock.confinement.sandbox.protocol import SandboxSlot
    from paddock.engines.changes.opening import Overlays
    from paddock.model.requirements import PackageEnvironment

MIN_RUN_MS = 1000
"""Minimum time left to start a compiled program, in milliseconds."""
_PARSE_ERROR_PATTERN = re.compile(r"syntax|parse error|unexpected|invalid|illegal", re.IGNORECASE)
"""What interpreters print about a program that they cannot parse."""
_URL = b"file://"
"""How Node.js writes paths of ES modules."""


class PreparedToolchain(NamedTuple):
    """What a program needs to run with its packages."""

    toolchain: Toolchain
    """Its `executable`, `prefixes` (paths to grant for reading) and `environment` include the packages."""
    links: Mapping[str, Path] = MappingProxyType({})
    """Links to make in the program's scratch directory before it starts, by name."""
    facts: "PackageEnvironment | None" = None
    """What the record says of the environment; None without packages."""

    def add_facts(self, result: RawResult) -> RawResult:
        """Return the result of a program with the packages that it had."""
        if self.facts is None or result.program is None:
            return result
        facts = {"packages": self.facts.packages, "packages_lock": self.facts.lock_sha256}
        return result.replace(program=result.program.replace(**facts))


@dataclass(frozen=True, slots=True)
class Compiled:
    """How a program was compiled; the defaults mean that nothing was compiled."""

    ms: float = 0.0
    cached: bool = False
    spent: Spent = UNSPENT


@dataclass(frozen=True, slots=True)
class RunningTask:
    """One program while the engine runs it."""

    task: ProgramTask
    sandbox: GuardingSandbox
    toolchain: Toolchain
    plan: StepRunner
    in_place: Path | None
    """The program's own file, if it runs in place."""
    sinks: Sinks
    stop: asyncio.Event | None
    links: Mapping[str, Path]
    """Links to make in scratch, by name: packages that the language searches beside the program."""
    held: ProcessLimits | None = None
    """Limits of the interpreter, if this is one of its turns."""
    overlays: "Overlays | None" = None

    @property
    def combined(self) -> bool:
        """Whether both output streams are one."""
        return self.task.work.output.combined

    @property
    def folder(self) -> str:
        """The directory in scratch that the program works in, beside HOME and TMPDIR; empty in the workspace."""
        return WORKDIR if self.task.work.has_workdir or self.task.terms.grants.access == "none" else ""

    @property
    def source_folder(self) -> str:
        """The directory in scratch that has the program's file when it is run."""
        return self.folder if self.plan.compile is None else ""

    def find_copied_folder(self, scratch: Path) -> str:
        """Return the directory in scratch that has the copy of its working directory; "" if there is no copy."""
        here = self._locate(self.task.cwd)
        return str(here.relative_to(scratch)) if here.is_relative_to(scratch) else ""

    def list_copy_variables(self) -> dict[str, str]:
        """Return the variable with the path of the copy of the workspace; nothing if there is none."""
        is_copy = self.overlays is not None and self.overlays.has_copy
        return {"PADDOCK_WORKSPACE": str(self._locate(self.task.workspace.resolve()))} if is_copy else {}

    def _locate(self, path: Path) -> Path:
        """Return where the program sees a real path of the workspace."""
        return path if self.overlays is None else self.overlays.locate(path)

    def paths_in(self, slot: "SandboxSlot", *, compiling: bool = False) -> StepPaths:
        """Return the paths of the program in a slot."""
        scratch, name = str(slot.scratch), self.plan.file_name or "program"
        source = name if compiling else os.path.join(scratch, self.source_folder, name)
        return StepPaths(
            source=source if self.in_place is None else str(self._locate(self.in_place)),
            output=f"{scratch}/{self.plan.output_name}",
            scratch=scratch,
            memory_bytes=self.task.terms.limits.memory_bytes,
        )

    def streams(self, scratch: Path, name: str) -> Streams:
        """Return its streams; the path of its file in scratch is replaced by `name`."""
        stdout, stderr = self.sinks.stdout, self.sinks.stderr
        if self.combined:
            stdout = PathRewriter(stdout, scratch, name).take
        else:
            stderr = PathRewriter(stderr, scratch, name).take
        stdin = self.task.work.stdin or b""
        return Streams(
            stdin,
            stdout,
            stderr,
            combined=self.combined,
            on_proxy_socket=self.task.serve_proxy,
            on_start=self.sinks.on_start,
        )

    def tell(self, stdout: bytes, stderr: bytes) -> None:
        """Pass on the output of a compiler."""
        errors = self.sinks.stdout if self.combined else self.sinks.stderr
        for sink, text in ((self.sinks.stdout, stdout), (errors, stderr)):
            if text:
                sink(text)

    def compute_remaining_ms(self, compiled: Compiled) -> int:
        """Return the wall time left after the compile step, at least 1 ms. Paddock's own time does not count."""
        limits = self.task.terms.limits
        shared = limits.compile_timeout_ms is None
        return max(1, limits.timeout_ms - round(compiled.ms)) if shared else limits.timeout_ms

    def is_exhausted(self, compiled: Compiled) -> bool:
        """Return whether a compile step that shares the wall time of its program left too little of it."""
        if self.task.terms.limits.compile_timeout_ms is not None or not compiled.ms:
            return False
        return self.compute_remaining_ms(compiled) < MIN_RUN_MS

    def withheld(self, ended: ProcessResult, phase: Phase, grants: ProcessGrants) -> str:
        """Return a hint on what a failed step may have lacked: a warm start or a grant; or ""."""
        variant, work = self.toolchain.variant, self.task.work
        if ended.limit == "wall" and self.toolchain.is_cold:
            compiles = phase == "compile" or (work.code is None and variant.compiles_by_itself)
            return slow(work.runtime) if compiles else ""
        ended = self.with_errors(ended)
        if work.code is not None and ended.status is Status.FAILED:
            if work.code.lstrip().startswith("```"):
                return FENCED
            stderr = ended.stderr.head + ended.stderr.tail
            is_one_line = has_escaped_line_ends(work.code)
            if is_one_line and (phase == "compile" or _PARSE_ERROR_PATTERN.search(stderr)):
                return ESCAPED_LINE_ENDS
        if self.overlays is not None and self.overlays.workspace is not None:
            grants = grants.replace(access="overlay")
        return withheld(
            ended,
            phase,
            grants,
            runs_files=work.code is not None and not self.in_place and not variant.compile,
            has_input=work.stdin is not None,
            in_session=work.session is not None,
        )

    def result(
        self, ended: ProcessResult, phase: Phase, compiled: Compiled, message: str = "", hint: str = ""
    ) -> RawResult:
        """Return the result of a step that has ended."""
        stdin = self.task.work.stdin
        begun = StepStart(
            runtime=self.task.work.runtime,
            executable=self.toolchain.executable.name,
            phase=phase,
            compile_ms=compiled.ms,
            cached=compiled.cached,
            stdin_bytes=len(stdin or b""),
            stdin_sha256="" if stdin is None else hashlib.sha256(stdin).hexdigest(),
            combined=self.combined,
        )
        if ended.status is Status.OK:
            return result_of(ended, begun)
        has_own_time = self.task.terms.limits.compile_timeout_ms is not None
        before = UNSPENT if phase == "compile" or has_own_time else compiled.spent
        if starved := explain_starvation(ended, phase, before):
            message, hint = starved
            if phase == "compile" or self.task.is_repeatable:
                ended = ended.model_copy(update={"status": Status.UNAVAILABLE})
        apart = phase == "compile" and has_own_time
        limits = (
            self.task.limit_compiler() if apart else self.task.limit_run(self.task.terms.limits.timeout_ms)
        )
        if self.held is not None:
            limits = limits.replace(
                memory_bytes=self.held.memory_bytes, scratch_bytes=self.held.scratch_bytes
            )
        return result_of(ended, begun, error_of(self.with_errors(ended), phase, limits, message, hint))

    def with_errors(self, ended: ProcessResult) -> ProcessResult:
        """Return the end of a process with its error output, which may have gone to standard output."""
        return ended.model_copy(update={"stderr": ended.stdout}) if self.combined else ended


def find_in_place(
    task: ProgramTask,
    planned: StepRunner,
    toolchain: Toolchain,
    user: int | None,
    rules: HidingRules,
) -> Path | None:
    """Return the real path of the program's own file if it runs in place, where it can import the files beside it.

    The program itself reads those files, with its own grants. Return None for every other program, which runs from a
    copy in scratch.

    The program must be interpreted without changes, the workspace be granted, and `user` (None: this process's) be able
    to read the file, which must not be hidden by the `rules`. It must contain the code that was requested and approved.
    """
    work = task.work
    if task.terms.grants.access == "none":
        return None
    named = Path(work.file)
    if planned.compile is not None or planned.source != work.code:
        return None
    if named.suffix not in ("", *toolchain.recipe.extensions):
        return None
    try:
        path = (task.workspace / named).resolve(strict=True)
        top = task.workspace.resolve()
        if not path.is_relative_to(top) or is_hidden(str(path), str(top), rules):
            return None
        code = planned.source.encode("utf-8", "surrogatepass")
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as file:
            facts = os.fstat(descriptor)
            is_readable = stat.S_ISREG(facts.st_mode) and permissions.may_read(facts, *identity_of(user))
            holds = is_readable and facts.st_size == len(code) and file.read(len(code) + 1) == code
    except OSError:
        return None
    return path if holds and reachable_to_read(path, user) else None


class PathRewriter:
    """Passes on a stream with a file's name instead of its path, which no longer exists when a person reads it.

    The path may be split between chunks.
    """

    def __init__(self, sink: ByteSink, folder: Path, name: str) -> None:
        path = os.fsencode(f"{folder}/{name}")
        self._sink = sink
        self._paths = (_URL + path, path)
        self._name = os.fsencode(name)
        self._pending = b""

    def take(self, data: bytes) -> None:
        """Pass on data, but hold back what may be the beginning of the path until the next chunk or the end."""
        if not data:
            if self._pending:
                self._sink(self._pending)
            self._pending = b""
            self._sink(b"")
            return
        data = self._pending + data
        for path in self._paths:
            data = data.replace(path, self._name)
        cut = len(data) - max(_count_begun_bytes(data, path) for path in self._paths)
        self._pending = data[cut:]
        if cut:
            self._sink(data[:cut])


def _count_begun_bytes(data: bytes, text: bytes) -> int:
    """Return how many bytes at the end of `data` are the beginning of `text`."""
    max_bytes = min(len(data), len(text) - 1)
    return next((size for size in range(max_bytes, 0, -1) if data.endswith(text[:size])), 0)
