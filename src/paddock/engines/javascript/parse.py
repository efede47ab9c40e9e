"""Send a text to the parser, and read its answer: a program that can run, or the syntax error.

The parser runs in a process separate from programs and from this process (child/parse_worker.py). parse.js
documents what it does to a text.
"""

import asyncio
import json
import struct
from collections import OrderedDict
from typing import TYPE_CHECKING, Literal

from paddock.engines.javascript.launch import Launcher
from paddock.engines.javascript.parse_cache import ParseCache
from paddock.engines.javascript.source_map import SourceMap, SourcePosition, clamp_place, find_place
from paddock.model.base import Json, Value
from paddock.model.compat import SDK_ALIAS
from paddock.model.errors import EngineError, explain_start_failure
from paddock.model.json_meter import MAX_VALUES, holds_more
from paddock.model.outcome import ErrorInfo
from paddock.model.request import Language

if TYPE_CHECKING:
    import subprocess

_LENGTH = struct.Struct("<I")
_ANSWER_BYTES = 64 * 1024 * 1024
_START_TIMEOUT_S = 20.0
_MAX_CACHED_PROGRAMS = 64
_MAX_CACHED_CHARS = 64 * 1024
_PARSE_TIMEOUT_S = 5.0
"""Maximum time to parse a text. A hostile text can make a parser backtrack exponentially, and others wait for it."""


_Key = tuple[str, Language, bool]
"""A text, its language, and whether it is for a session."""


class UncalledFunction(Value):
    """A function or class that a program declares, and the expression that would call it."""

    name: str
    call: str


class ParsedProgram(Value):
    """A program ready to run."""

    source: str
    """The original text."""
    code: str
    """A script that passes an async function of one parameter, `input`, to the bootstrap."""
    language: Literal["javascript", "typescript"]
    positions: SourceMap
    text: str = ""
    """The source with its types, on its own lines, but without Markdown and modules; empty if it has neither."""
    numbers: tuple[str, ...] = ()
    """Numbers in it that a double may not hold exactly, as JSON writes them."""
    inexact: tuple[tuple[str, str], ...] = ()
    """Whole numbers in it that no double is, as they are written, each with the double that JavaScript reads."""
    uncalled: tuple[UncalledFunction, ...] = ()
    """The functions and classes of a program that consists only of declarations and calls none of them."""

    def error(self, name: str, message: str, thrown: str, line: int | None, column: int | None) -> ErrorInfo:
        """Return an error with the user's line and column; the arguments are those of the running code, from 1."""
        if line is None or column is None:
            return ErrorInfo(name=name, message=message, thrown=thrown)
        spot = self.place(line, column)
        return ErrorInfo(
            name=name,
            message=message,
            thrown=thrown,
            line=spot.line,
            column=spot.column,
            excerpt=spot.excerpt,
        )

    def place(self, line: int, column: int) -> SourcePosition:
        """Return the position in the user's source for a position in the running code."""
        return find_place(line, column, self.positions, self.source)

    def wraps(self, line: int, column: int) -> bool:
        """Return whether a position in the running code is in the wrapper's head, before the program."""
        return line == 1 and column <= self.positions.prefix


class ProgramError(Exception):
    """The text is not a program; `info` has the position and the reason."""

    def __init__(self, info: ErrorInfo) -> None:
        super().__init__(info.message)
        self.info = info


class _ParserAnswer(Value):
    ok: bool
    code: str = ""
    language: Literal["javascript", "typescript"] = "javascript"
    positions: SourceMap = SourceMap(prefix=0)
    numbers: tuple[str, ...] = ()
    inexact: tuple[tuple[str, str], ...] = ()
    uncalled: tuple[UncalledFunction, ...] = ()
    text: str = ""
    error: ErrorInfo | None = None


def write_request(source: str, language: Language, *, session: bool = False) -> bytes:
    """Return the JSON of a request to parse.js; the declarations of a program in a `session` outlive it."""
    request: dict[str, Json] = {"source": source, "language": language, "alias": SDK_ALIAS}
    return json.dumps(request | ({"session": True} if session else {})).encode()


def read_response(response: bytes, source: str) -> ParsedProgram:
    """Return the program of a response of parse.js for `source`.

    Raises ProgramError with the line, column and excerpt of the original text; ValueError (pydantic's) for a response
    that parse.js does not send.
    """
    if holds_more(response, MAX_VALUES):
        raise ValueError(f"more than {MAX_VALUES} values")
    read = _ParserAnswer.model_validate_json(response)
    if read.ok and read.code:
        return ParsedProgram(
            source=source,
            code=read.code,
            language=read.language,
            positions=read.positions,
            numbers=read.numbers,
            inexact=read.inexact,
            uncalled=read.uncalled,
            text=read.text,
        )
    if read.ok or read.error is None or read.error.line is None or read.error.column is None:
        raise ValueError("neither a program nor an error with a position")
    spot = clamp_place(read.error.line, read.error.column, source)
    raise ProgramError(
        read.error.model_copy(
            update={"phase": "parse", "line": spot.line, "column": spot.column, "excerpt": spot.excerpt}
        )
    )


_TOO_LONG = ErrorInfo(
    name="SyntaxError",
    message=f"the program takes more than {_PARSE_TIMEOUT_S:.0f} s to parse",
    hint="nested generics and arrow functions in parentheses can be ambiguous to a parser; write them separately",
    phase="parse",
)


class Parser:
    """The parent's side of the parser process, which starts at `prepare` or at the first text."""

    def __init__(self, launcher: Launcher, answers: ParseCache) -> None:
        self._launcher = launcher
        self._answers = answers
        self._process: subprocess.Popen[bytes] | None = None
        self._starting: asyncio.Task[tuple[asyncio.StreamReader, asyncio.StreamWriter]] | None = None
        self._turn = asyncio.Lock()
        self._asked = 0
        """Number of requests sent to the process."""
        self._known: OrderedDict[_Key, ParsedProgram] = OrderedDict()

    def prepare(self) -> None:
        """Start the process without waiting for it."""
        if self._starting is None:
            self._starting = asyncio.create_task(self._start())

    async def parse(self, source: str, language: Language, *, session: bool = False) -> ParsedProgram:
        """Return `source` as a program. A text that was parsed recently is not parsed again.

        The top-level declarations of a program in a `session` outlive it.

        Raises ProgramError if it is not a program, EngineError if the parser itself failed.
        """
        key = (source, language, session)
        program = self._known.get(key)
        if program is None:
            program = self._look_up_cache(key) or await self._parse(key)
            if len(source) <= _MAX_CACHED_CHARS:
                self._known[key] = program
                if len(self._known) > _MAX_CACHED_PROGRAMS:
                    self._known.popitem(last=False)
        else:
            self._known.move_to_end(key)
        return program

    def _look_up_cache(self, key: _Key) -> ParsedProgram | None:
        """Return the program of a cached answer; None without a valid one."""
        source, language, session = key
        kept = None if session else self._answers.look_up(source, language)
        try:
            return None if kept is None else read_response(kept, source)
        except (ValueError, ProgramError):
            return None  # damaged: the text is parsed again, and the entry replaced

    async def _parse(self, key: _Key) -> ParsedProgram:
        source, language, session = key
        async with self._turn:
            self.prepare()
            assert self._starting is not None
            response = None
            try:
                async with asyncio.timeout(_START_TIMEOUT_S):
                    reader, writer = await self._starting
                self._asked += 1
                async with asyncio.timeout(_PARSE_TIMEOUT_S):
                    request = write_request(source, language, session=session)
                    writer.write(_LENGTH.pack(len(request)) + request)
                    await writer.drain()
                    response = await _receive(reader)
                program = read_response(response, source)
                if self._asked == 1 and not session:
                    # A text that takes over the parser process can change later answers of that process. These must
                    # not be cached. The answer to the text itself can harm only its own run.
                    self._answers.store(source, language, response)
            except TimeoutError:
                if self._starting.done():
                    raise ProgramError(_TOO_LONG) from None
                raise EngineError("the parser did not start in time") from None
            except (OSError, asyncio.IncompleteReadError, ValueError) as error:
                raise EngineError(
                    f"parsing the program failed ({error}); the next program starts a new parser"
                ) from error
            finally:
                if response is None:  # also after a cancellation: a late answer would meet the next request
                    await self.close()
            return program

    async def close(self) -> None:
        """End the process."""
        starting, self._starting = self._starting, None
        if starting is not None:
            starting.cancel()
            results = await asyncio.gather(starting, return_exceptions=True)
            for result in results:
                if isinstance(result, tuple):
                    result[1].close()
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            await asyncio.to_thread(process.wait)

    async def _start(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        self._asked = 0
        self._process, connection = self._launcher.start_parse_worker()
        connection.setblocking(False)
        reader, writer = await asyncio.open_connection(sock=connection)
        try:
            greeting: dict[str, Json] = json.loads(await _receive(reader))
            if "failed" in greeting:
                raise EngineError(explain_start_failure(str(greeting["failed"])))  # noqa: TRY301 - closes too
        except BaseException:  # also after a cancellation: no other code closes this connection
            writer.close()
            raise
        return reader, writer


async def _receive(reader: asyncio.StreamReader) -> bytes:
    length = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))[0]
    if length > _ANSWER_BYTES:
        raise EngineError(f"the parser answered with {length} bytes, and at most {_ANSWER_BYTES} are allowed")
    return await reader.readexactly(length)
