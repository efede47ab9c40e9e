"""Programs that an earlier process has read, with a real reader of programs."""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from paddock.engines.javascript.launch import EngineProcess, Launcher
from paddock.engines.javascript.parse import Parser, ProgramError
from paddock.engines.javascript.parse_cache import ParseCache

TYPED = "const a: number = 1\na + 1"


class NoReader(Launcher):
    def reader(self) -> EngineProcess:
        raise AssertionError("a reader was started")


def with_intake(
    directory: Path, use: Callable[[Parser], Coroutine[Any, Any, None]], launcher: Launcher | None = None
) -> None:
    async def main() -> None:
        intake = Parser(launcher or Launcher(), ParseCache(directory))
        try:
            await use(intake)
        finally:
            await intake.close()

    asyncio.run(main())


def test_a_program_that_was_read_before_starts_no_reader(tmp_path: Path) -> None:
    programs = []

    async def read(intake: Parser) -> None:
        programs.append(await intake.parse(TYPED, "typescript"))

    with_intake(tmp_path, read)
    with_intake(tmp_path, read, NoReader())
    assert programs[0] == programs[1]
    assert (programs[0].source, programs[0].language) == (TYPED, "typescript")


def test_only_the_first_text_of_a_reader_is_remembered(tmp_path: Path) -> None:
    async def read(intake: Parser) -> None:
        for text in ("1", "2"):
            await intake.parse(text, "auto")
        await intake.close()
        await intake.parse("3", "auto")

    with_intake(tmp_path, read)
    kept = ParseCache(tmp_path)
    assert [kept.has(text, "auto") for text in "123"] == [True, False, True]


def test_a_refusal_is_not_remembered(tmp_path: Path) -> None:
    async def read(intake: Parser) -> None:
        with pytest.raises(ProgramError):
            await intake.parse("const", "auto")

    with_intake(tmp_path, read)
    assert not ParseCache(tmp_path).has("const", "auto")


@pytest.mark.parametrize("damage", [b"", b"{", b'{"ok": true}', b'{"ok": false}', b"\xff"])
def test_a_damaged_answer_is_replaced(tmp_path: Path, damage: bytes) -> None:
    async def read(intake: Parser) -> None:
        assert (await intake.parse("6 * 7", "auto")).code.count("6 * 7") == 1

    with_intake(tmp_path, read)
    kept = ParseCache(tmp_path)
    sound = kept.look_up("6 * 7", "auto")
    kept.store("6 * 7", "auto", damage)
    with_intake(tmp_path, read)
    assert kept.look_up("6 * 7", "auto") == sound
