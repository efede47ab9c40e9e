"""A code executor for AutoGen, over sessions of Paddock."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Unpack

from autogen_core import CancellationToken
from autogen_core.code_executor import CodeBlock, CodeExecutor, CodeResult

from paddock.integrations.answer import ToolReply, build_refusal
from paddock.integrations.tool_session import SessionOptions, ToolSession
from paddock.model.errors import RequestError
from paddock.model.languages import read_language
from paddock.model.status import Status
from paddock.model.work_files import OutputFile
from paddock.surfaces.client.blocking import BlockingPaddock
from paddock.surfaces.rendering.images import ShownImage

_RESTART_PROGRAM = "restart_session()"
_RESTART = f"A code block with only `{_RESTART_PROGRAM}` starts a new session with the files that were given."
_TIMEOUT_EXIT_CODE = 124
"""That of timeout(1), which AutoGen's own executors use."""


@dataclass
class PaddockCodeResult(CodeResult):
    """The end of code blocks, with what they left."""

    images: tuple[ShownImage, ...] = ()
    """Images that the programs displayed or stored."""
    files: tuple[OutputFile, ...] = ()
    """Files that the programs created or changed."""


class PaddockExecutor(CodeExecutor):
    """Runs code blocks in one session for each language: `async with PaddockExecutor() as executor:`.

    A session keeps its variables and files until `restart` or `stop`. Sessions of different languages share no files.
    """

    def __init__(
        self, languages: Sequence[str] = ("python", "shell"), **options: Unpack[SessionOptions]
    ) -> None:
        """Run code blocks in `languages` with the options of `SessionOptions`."""
        self._languages = tuple(map(read_language, languages))
        self._options = options
        self._own: BlockingPaddock | None = None
        self._sessions: dict[str, ToolSession] = {}

    async def start(self) -> None:
        """Open the Paddock; an interpreter starts at its first code block."""
        if self._own is None and "paddock" not in self._options:
            self._own = await asyncio.to_thread(BlockingPaddock().__enter__)

    async def stop(self) -> None:
        """End every process of the sessions and remove their files."""
        await self.restart()
        if self._own is not None:
            own, self._own = self._own, None
            await asyncio.to_thread(own.__exit__, None, None, None)

    async def restart(self) -> None:
        """Close the sessions. The next code block opens another one, with the files that were given."""
        sessions, self._sessions = self._sessions, {}
        for session in sessions.values():
            await asyncio.to_thread(session.close)

    async def execute_code_blocks(
        self, code_blocks: list[CodeBlock], cancellation_token: CancellationToken
    ) -> PaddockCodeResult:
        """Run code blocks until one does not end well. Every end is a result, also a refusal and a timeout.

        Raises RuntimeError before `start`, asyncio.CancelledError after the cancellation of the token.
        """
        answers: list[ToolReply] = []
        for block in code_blocks:
            task = asyncio.ensure_future(self._run_block(block))
            cancellation_token.link_future(task)
            answers.append(await task)
            if not answers[-1].ok:
                break
        return PaddockCodeResult(
            exit_code=_find_exit_code(answers[-1]) if answers else 0,
            output="\n".join(answer.text for answer in answers),
            images=tuple(image for answer in answers for image in answer.images),
            files=tuple(file for answer in answers for file in answer.files),
        )

    def get_session(self, language: str) -> ToolSession:
        """Return the session of a language, with its files. Raises RequestError for a language without one."""
        name = read_language(language.strip() or "python")
        if name not in self._languages:
            raise RequestError(
                f"there is no session for {language[:40]!r}; there are {', '.join(self._languages)}"
            )
        if name not in self._sessions:
            if (paddock := self._options.get("paddock", self._own)) is None:
                raise RuntimeError(
                    "this executor is not started; use it within `async with`, or call `start()`"
                )
            given: SessionOptions = {**self._options, "paddock": paddock}
            self._sessions[name] = ToolSession(name, restart=_RESTART, **given)
        return self._sessions[name]

    async def _run_block(self, block: CodeBlock) -> ToolReply:
        if block.code.strip() == _RESTART_PROGRAM:
            await self.restart()
            return ToolReply(Status.OK, "A new session has started.")
        try:
            session = self.get_session(block.language)
        except RequestError as error:
            return build_refusal(error)
        return await session.run_async(block.code)


def _find_exit_code(answer: ToolReply) -> int:
    """Return 0 only for a program that ended well."""
    if answer.ok:
        return 0
    if answer.status is Status.TIMEOUT:
        return _TIMEOUT_EXIT_CODE
    program = answer.outcome.program if answer.outcome else None
    return (program.exit_code if program else None) or 1
