"""`paddock batch`: run the programs in a file of JSON lines, and print or keep one answer for each."""

import asyncio
import os
import select
import sys
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import ExitStack, aclosing, closing, suppress
from pathlib import Path
from typing import IO, NamedTuple

import click

from paddock.gate.batch.answer_file import AnswerFile, open_answer_file
from paddock.gate.batch.lines import MAX_LINE_BYTES, BadLine, read_program, render_result, write_line
from paddock.gate.batch.program import Program, ProgramResult
from paddock.gate.batch.runner import BatchOrigin, BatchRunner
from paddock.model.base import count
from paddock.model.outcome import Status
from paddock.policy.settings.loader import load
from paddock.policy.settings.schema import Settings
from paddock.surfaces.cli import options
from paddock.surfaces.cli.failure import CommandFailure
from paddock.surfaces.cli.help import render_examples
from paddock.surfaces.cli.opening import find_actor, open_for_command
from paddock.surfaces.cli.run_request import EXIT_SIGNAL_BASE
from paddock.surfaces.cli.signals import cancel_on_signals
from paddock.surfaces.cli.table import warn

EXIT_UNANSWERED = 1
"""Exit code if a line was invalid, or if nothing is known of a program: it was refused, unavailable or lost."""

_MAX_LISTED_LINES = 20
_CHUNK_BYTES = 256 * 1024
_TERMINAL_S, _PIPE_S = 0.2, 10.0
"""Time between two reports of progress, in seconds."""
_UNANSWERED = frozenset(
    {Status.DENIED, Status.INVALID, Status.UNAVAILABLE, Status.LOST, Status.ERROR, Status.CANCELLED}
)


@click.command(
    "batch",
    epilog=render_examples(
        "paddock batch programs.jsonl > answers.jsonl",
        "paddock batch programs.jsonl --output answers.jsonl",
        'echo \'{"id": 1, "language": "python", "code": "print(6 * 7)"}\' | paddock batch -',
    ),
)
@click.argument("file", type=click.File("rb"))
@click.option(
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write answers to this file. If it exists, its answers are kept and their programs do not run again.",
)
@click.option(
    "--max-parallel",
    type=click.IntRange(min=1),
    metavar="N",
    help="Maximum number of programs at the same time; at most `runtimes.max_jobs`, the default.",
)
@options.workspace
@options.settings
@click.pass_context
def command(
    context: click.Context,
    *,
    file: IO[bytes],
    output: Path | None,
    max_parallel: int | None,
    workspace: Path,
    flags: dict[str, str],
) -> None:
    """Run the programs in FILE: a JSON object in each line, with `id`, `language` and `code`. `-` is standard input.

    The answers are JSON lines with the same `id`, in the order in which the programs end. Programs with `tests` are
    judged by them. Exit codes: 0 all programs were answered, 1 some were not, 130 after Ctrl-C, which keeps every
    answer so far.
    """
    settings = load(workspace, flags=flags).settings
    with ExitStack() as stack:
        answers = None if output is None else stack.enter_context(open_answer_file(output))
        if answers is not None and answers.damaged:
            numbers = ", ".join(map(str, answers.damaged[:_MAX_LISTED_LINES]))
            more = len(answers.damaged) - _MAX_LISTED_LINES
            numbers += f" and {more} more" if more > 0 else ""
            warn(
                f"{output}: {count(len(answers.damaged), 'line')} that lost a part ({numbers}) moved to "
                f"{answers.aside.name}; their programs run again"
            )
        batch = _BatchRun(answers, BatchProgress(sys.stderr))
        number = asyncio.run(batch.run(file, settings, workspace, max_parallel))
    context.exit(EXIT_SIGNAL_BASE + number if number else batch.exit_code)


class Tally(NamedTuple):
    """How many programs were answered, and how."""

    answered: int = 0
    ok: int = 0
    unanswered: int = 0
    invalid: int = 0

    def render(self) -> str:
        """Return it as a line for a person."""
        others = self.answered - self.ok - self.unanswered
        parts = [f"{self.ok} ok", f"{others} failed"]
        parts += [f"{self.unanswered} not run to an end"] if self.unanswered else []
        parts += [count(self.invalid, "invalid line")] if self.invalid else []
        return f"{count(self.answered, 'program')}: {', '.join(parts)}"


class BatchProgress:
    """Reports progress on standard error: one line that changes on a terminal, else a line now and then."""

    def __init__(self, stream: IO[str], clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream
        self._clock = clock
        self._live = stream.isatty()
        self._next = clock() + self._period
        self._drawn = False

    @property
    def _period(self) -> float:
        return _TERMINAL_S if self._live else _PIPE_S

    def report(self, tally: Tally) -> None:
        """Report progress, unless it was reported a moment ago."""
        if self._clock() < self._next:
            return
        self._next = self._clock() + self._period
        end = "" if self._live else "\n"
        self._write(f"{tally.render()}{end}")
        self._drawn = self._live

    def end(self, tally: Tally, kept: int) -> None:
        """Report the end."""
        before = f"; {count(kept, 'answer')} kept from before" if kept else ""
        self._write(f"{tally.render()}{before}\n")

    def _write(self, text: str) -> None:
        erase = "\r\x1b[K" if self._drawn else ""
        with suppress(OSError):  # progress that nobody reads must not end the batch
            self._stream.write(erase + text)
            self._stream.flush()


class _BatchRun:
    """One run over a file of programs."""

    def __init__(self, answers: AnswerFile | None, progress: BatchProgress) -> None:
        self._answers = answers
        self._progress = progress
        self._tally = Tally()

    @property
    def exit_code(self) -> int:
        """The exit code, unless a signal ended it."""
        return EXIT_UNANSWERED if self._tally.unanswered or self._tally.invalid else 0

    async def run(
        self, file: IO[bytes], settings: Settings, workspace: Path, max_parallel: int | None
    ) -> int:
        """Run the programs, and return the signal that ended it, or 0."""
        with cancel_on_signals() as received:
            try:
                async with open_for_command(settings, workspace) as opened:
                    origin = BatchOrigin(workspace, find_actor(), "cli")
                    runner = BatchRunner(opened.gate.execute, origin, settings.runtimes)
                    async with (
                        aclosing(self._read_programs(file, runner)) as programs,
                        aclosing(runner.map(programs, max_parallel)) as results,
                    ):
                        async for result in results:
                            await self._take(result)
            except asyncio.CancelledError:
                if not received:
                    raise
        self._progress.end(self._tally, self._answers.kept if self._answers else 0)
        return received[0] if received else 0

    async def _read_programs(self, file: IO[bytes], runner: BatchRunner) -> AsyncGenerator[Program]:
        """Yield the programs that are not answered yet, and answer lines that are no programs.

        A file is read twice, so that whatever cannot run is answered before anything runs: first the lines that are no
        programs, and the programs whose language the gate will reject; then the others. A pipe is read once.
        """
        begin: int | None = None
        with suppress(OSError):  # a pipe or a terminal has no position
            begin = os.lseek(file.fileno(), 0, os.SEEK_CUR)
        for runnable in (None,) if begin is None else (False, True):
            if runnable and begin is not None:
                os.lseek(file.fileno(), begin, os.SEEK_SET)
            async for program in self._read_lines(file):
                if runnable not in {None, isinstance(program, Program) and runner.has_language(program)}:
                    continue
                if isinstance(program, BadLine):
                    await self._answer_bad_line(program)
                elif self._answers is None or not self._answers.has(program.id):
                    yield program

    async def _read_lines(self, file: IO[bytes]) -> AsyncGenerator[Program | BadLine]:
        number, seen = 0, set[str]()
        async for line in read_lines(file, MAX_LINE_BYTES):
            number += 1
            if not line.strip():
                continue
            program = read_program(line, number)
            if isinstance(program, Program):
                if program.id in seen:
                    message = "id: an earlier line has the same one; each needs its own"
                    program = BadLine(number, program.id, message)
                else:
                    seen.add(program.id)
            yield program

    async def _answer_bad_line(self, bad: BadLine) -> None:
        self._tally = self._tally._replace(invalid=self._tally.invalid + 1)
        if self._answers is None or not self._answers.has_line(bad):
            await self._write(write_line(bad.render()))

    async def _take(self, result: ProgramResult) -> None:
        await self._write(write_line(render_result(result)))
        old, verdict = self._tally, result.verdict
        known = result.outcome.status not in _UNANSWERED and (verdict is None or verdict.is_known)
        self._tally = old._replace(
            answered=old.answered + 1, ok=old.ok + result.ok, unanswered=old.unanswered + (not known)
        )
        self._progress.report(self._tally)

    async def _write(self, line: bytes) -> None:
        if self._answers is None:

            def print_line() -> None:
                sys.stdout.buffer.write(line)
                sys.stdout.buffer.flush()

            # A reader that is slow must not stop the event loop, which watches the programs.
            await asyncio.to_thread(print_line)
            return
        try:
            self._answers.write(line)
        except OSError as problem:
            raise CommandFailure(f"cannot write the answers: {problem.strerror}") from None


class LineSource:
    """Reads lines in a thread. Another thread can end a read that waits, which a buffered file does not allow."""

    def __init__(self, file: IO[bytes], max_bytes: int) -> None:
        """Cut lines that are longer than `max_bytes` to one byte more; the rest of such a line is dropped."""
        self._file = file.fileno()
        self._max_bytes = max_bytes
        self._left = bytearray()
        self._wake, self._waker = os.pipe2(os.O_CLOEXEC)

    def read_line(self) -> bytes:
        """Return the next line with its end; b"" at the end of the file, or after `interrupt`."""
        searched = 0
        line = bytearray()
        while (end := self._left.find(b"\n", searched)) == -1:
            if len(self._left) > self._max_bytes:
                line = line or self._left[: self._max_bytes + 1]
                self._left.clear()
            searched = len(self._left)
            chunk = self._read_chunk()
            if not chunk:
                end = len(self._left) - 1
                break
            self._left += chunk
        line = line or self._left[: end + 1][: self._max_bytes + 1]
        del self._left[: end + 1]
        return bytes(line)

    def _read_chunk(self) -> bytes:
        ready, _, _ = select.select([self._file, self._wake], [], [])
        return b"" if self._wake in ready else os.read(self._file, _CHUNK_BYTES)

    def interrupt(self) -> None:
        """End a read that waits."""
        with suppress(OSError):
            os.write(self._waker, b"\0")

    def close(self) -> None:
        """Close what this opened; the file stays open."""
        os.close(self._wake)
        os.close(self._waker)


async def read_lines(file: IO[bytes], max_bytes: int) -> AsyncGenerator[bytes]:
    """Yield the lines of a file, cut as `LineSource` does. Raises OSError."""
    with closing(LineSource(file, max_bytes)) as source:
        while True:
            reading = asyncio.ensure_future(asyncio.to_thread(source.read_line))
            try:
                line = await asyncio.shield(reading)
            except asyncio.CancelledError:
                source.interrupt()
                await reading
                raise
            if not line:
                return
            yield line
