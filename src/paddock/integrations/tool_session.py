"""The session behind a tool of an agent: one interpreter, opened at the first call and closed with the tool."""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Self, TypedDict, TypeVar, Unpack, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator
from pydantic_core import from_json

from paddock.integrations.answer import ToolReply, build_answer, build_refusal
from paddock.model.base import Texts
from paddock.model.errors import PaddockError, RequestError
from paddock.model.languages import read_language
from paddock.model.network import Network
from paddock.model.program import Access
from paddock.model.session import Kernel
from paddock.model.texts import FAULT_TEXTS, explain
from paddock.model.work_files import OutputFile
from paddock.surfaces.client.arguments import InputData, read_limits
from paddock.surfaces.client.blocking import BlockingPaddock
from paddock.surfaces.client.paddock import Paddock
from paddock.surfaces.client.sessions import InterpreterSession
from paddock.surfaces.rendering.terminal import make_encodable

if TYPE_CHECKING:
    from concurrent.futures import Future

T = TypeVar("T")

MAX_CHARS = 20_000
"""Default length of the output that a model sees, in characters."""
RESTART = "Set `restart` to true in the next call to get a new session with the files that were given."
_CLOSED = "this tool is closed; use it within its `with` block, or before `close()`"
_MAX_NAMED_FILES = 20
_MAX_FAULTS = 5
_MESSAGES = {
    **FAULT_TEXTS,
    "missing": "must be given",
    "extra_forbidden": "is not an argument; there are code, files and restart",
    "string_type": "must be a string",
    "model_type": "the arguments must be an object",
}
"""Error texts by pydantic's error type, in the terms of JSON."""


class SessionOptions(TypedDict, total=False):
    """Options of a tool. Those without a comment are the arguments of `Paddock.session`."""

    paddock: BlockingPaddock
    """An open Paddock. Without it, the tool opens one in the current directory and closes it."""
    files: Mapping[str, InputData]
    outputs: Texts
    """Patterns of files to store, by default images."""
    packages: Texts
    env: Mapping[str, str]
    network: Network | Texts
    access: Access
    executable: str
    kernel: Kernel
    memory_bytes: int
    timeout_ms: int
    """Maximum wall time of one program, in milliseconds."""
    max_chars: int
    """Maximum length of the output that a model sees, in characters."""


class Arguments(BaseModel):
    """What a model passes to a tool."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    code: str = Field(description="The program.")
    files: dict[str, str] = Field(
        default_factory=dict[str, str], description="Text files to write first, by relative path."
    )
    restart: bool = Field(
        default=False,
        description="Start a new session first: variables and files of the present one are lost.",
    )

    @model_validator(mode="before")
    @classmethod
    def _leave_out_null(cls, given: Any) -> Any:  # noqa: ANN401 - whatever a model sends
        if not isinstance(given, dict):
            return given
        return {key: value for key, value in cast("dict[str, Any]", given).items() if value is not None}

    @field_validator("files", mode="before")
    @classmethod
    def _read_json(cls, given: Any) -> Any:  # noqa: ANN401
        try:
            return from_json(given) if isinstance(given, str) else given
        except ValueError:
            return given


def refuse_arguments(problem: ValidationError) -> ToolReply:
    """Return the answer to arguments that are not valid, without their values."""
    return build_refusal("; ".join(explain(problem, messages=_MESSAGES, limit=_MAX_FAULTS)))


def _read_arguments(given: object) -> Arguments | ToolReply:
    try:
        return Arguments.model_validate(from_json(given) if isinstance(given, str) else given)
    except ValidationError as problem:
        return refuse_arguments(problem)
    except ValueError as problem:
        return build_refusal(f"the arguments are not JSON: {problem}")


class ToolSession:
    """An interpreter for an agent. It works in every thread and on every event loop; calls wait for each other."""

    def __init__(
        self, language: str = "python", *, restart: str = RESTART, **options: Unpack[SessionOptions]
    ) -> None:
        """Run programs in `language`. `restart` tells a model how to get a new session after one was lost.

        Raises RequestError for a timeout that is not valid.
        """
        given: dict[str, Any] = {**options}
        self._given: BlockingPaddock | None = given.pop("paddock", None)
        self._opened: BlockingPaddock | None = None
        self._closed = False
        self._lock = threading.Lock()
        self._limits: dict[str, Any] = {
            name: given.pop(name) for name in ("timeout_ms", "outputs") if name in given
        }
        read_limits(timeout_ms=self._limits.get("timeout_ms"))
        self._build = partial(build_answer, max_chars=given.pop("max_chars", MAX_CHARS), restart=restart)
        self._opening = given
        self._interpreter: InterpreterSession | None = None
        self._turns = asyncio.Lock()
        self.language = read_language(language)
        """The language of its programs."""

    def describe(self) -> str:
        """Return the description of the tool for models."""
        named = sorted(self._opening.get("files") or {})
        more = len(named) - _MAX_NAMED_FILES
        listed = ", ".join(named[:_MAX_NAMED_FILES]) + (f" and {more} more" if more > 0 else "")
        return (
            f"Run a program in {self.language} and return its output and the value of its last expression. "
            "Variables, imports and files stay from one call to the next. "
            "Images that it displays or saves are returned." + (f" Files: {listed}." if listed else "")
        )

    def run(
        self, code: str, *, files: Mapping[str, str | bytes] | None = None, restart: bool = False
    ) -> ToolReply:
        """Run a program after the earlier ones, or in a new session with `restart`.

        Nothing is raised for what the program does. Raises RequestError for options of the tool that are not valid,
        RuntimeError after `close`.
        """
        return self._submit(partial(self._execute, code=code, files=files, restart=restart)).result()

    async def run_async(
        self, code: str, *, files: Mapping[str, str | bytes] | None = None, restart: bool = False
    ) -> ToolReply:
        """Do what `run` does. A cancellation interrupts the program and keeps the session."""
        paddock = await asyncio.to_thread(self._require_paddock)
        work = partial(self._execute, code=code, files=files, restart=restart)
        return await asyncio.wrap_future(paddock.submit(work))

    def run_arguments(self, given: object) -> ToolReply:
        """Do what `run` does with the arguments of a model, as an object or as JSON text."""
        read = _read_arguments(given)
        return read if isinstance(read, ToolReply) else self.run(**dict(read))

    async def run_arguments_async(self, given: object) -> ToolReply:
        """Do what `run_async` does with the arguments of a model, as an object or as JSON text."""
        read = _read_arguments(given)
        return read if isinstance(read, ToolReply) else await self.run_async(**dict(read))

    def read_file(self, path: str) -> bytes:
        """Return a file of the session. Raises OSError, ValueError for no regular file, PaddockError without one."""
        return self._submit(lambda _: self._require_interpreter().files.read(path)).result()

    def list_files(self) -> tuple[OutputFile, ...]:
        """Return the files of the session, by path. Raises PaddockError for a session that has ended."""
        return self._submit(lambda _: self._require_interpreter().files.list()).result()

    def restart(self) -> None:
        """Close the session. The next call opens another one, with the files that were given."""
        if self._interpreter is not None:
            self._submit(self._end).result()

    def __enter__(self) -> Self:
        """Open the Paddock; the interpreter starts at the first call."""
        self._closed = False
        self._require_paddock()
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self.close()

    async def __aenter__(self) -> Self:
        """Do what `with` does."""
        return await asyncio.to_thread(self.__enter__)

    async def __aexit__(self, *_: object) -> None:
        """Close it."""
        await asyncio.to_thread(self.close)

    def close(self) -> None:
        """End every process of the session and remove its files. Does nothing the second time."""
        with self._lock:
            closed, self._closed = self._closed, True
            opened, self._opened = self._opened, None
        if opened is not None:
            self._interpreter = None
            opened.__exit__(None, None, None)
        elif self._given is not None and self._interpreter is not None and not closed:
            with suppress(RuntimeError):  # a Paddock that is closed has closed its sessions
                self._given.submit(self._end).result()

    def _submit(self, work: Callable[[Paddock], Coroutine[Any, Any, T]]) -> "Future[T]":
        return self._require_paddock().submit(work)

    def _require_paddock(self) -> BlockingPaddock:
        with self._lock:
            self._check_open()
            if self._given is not None:
                return self._given
            if self._opened is None:
                self._opened, self._turns = BlockingPaddock().__enter__(), asyncio.Lock()
            return self._opened

    async def _execute(
        self, paddock: Paddock, *, code: str, files: Mapping[str, str | bytes] | None, restart: bool
    ) -> ToolReply:
        async with self._turns:
            if restart:
                await self._end(paddock)
            interpreter = self._interpreter or await self._open(paddock)
            if isinstance(interpreter, ToolReply):
                return interpreter
            try:
                given: dict[str, bytes | str] = {
                    path: make_encodable(content) if isinstance(content, str) else content
                    for path, content in (files or {}).items()
                }
                outcome = await interpreter.run(code, files=given, **self._limits)
            except RequestError as error:
                return build_refusal(error)
            return await asyncio.to_thread(self._build, outcome)

    async def _open(self, paddock: Paddock) -> InterpreterSession | ToolReply:
        """Open an interpreter and return it, or the refusal if policy or the machine does not allow it."""
        self._check_open()
        interpreter = paddock.session(self.language, **self._opening)
        # A separate run: a model's fault does not prevent the session, and a fault of its options is the caller's.
        opened = await interpreter.run("")
        if not opened.ok:
            return await asyncio.to_thread(self._build, opened)
        if self._closed:  # meanwhile
            await interpreter.close()
        self._check_open()
        self._interpreter = interpreter
        return interpreter

    def _check_open(self) -> None:
        if self._closed:
            raise RuntimeError(_CLOSED)

    def _require_interpreter(self) -> InterpreterSession:
        if self._interpreter is None:
            raise PaddockError("there is no session yet: the first call of `run` opens it")
        return self._interpreter

    async def _end(self, _: Paddock) -> None:
        if (interpreter := self._interpreter) is not None:
            self._interpreter = None
            await interpreter.close()


class SessionTool:
    """What the tools of all frameworks share: a session, open within `with` and `async with`."""

    _session: ToolSession

    @property
    def session(self) -> ToolSession:
        """The session, with its files."""
        return self._session

    def close(self) -> None:
        """End every process of the session and remove its files. Does nothing the second time."""
        self._session.close()

    def __enter__(self) -> Self:
        """Open the Paddock; the interpreter starts at the first call."""
        self._session.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self._session.close()

    async def __aenter__(self) -> Self:
        """Do what `with` does."""
        await self._session.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close it."""
        await self._session.__aexit__()
