"""Lines of a running program on their way to the client: whole, in order, bounded."""

import asyncio

import pytest
from mcp_types import LoggingLevel

from paddock.model.outcome import ConsoleLevel, ConsoleLine
from paddock.surfaces.mcp_server.progress import (
    MAX_NOTIFICATION_CHARS,
    OutputLines,
    create_message_sink,
    create_progress_sink,
    stream_console,
)


def test_lines_come_whole_however_they_are_cut() -> None:
    lines: list[ConsoleLine] = []
    output = OutputLines(lines.append)
    for piece in ("ä\nb".encode()[:1], "ä\nb".encode()[1:], b"c\n\nunfinished"):
        output.take_output("stdout", piece)
    output.take_output("stderr", b"oh\n")
    assert lines == [
        ConsoleLine(level="log", text="ä"),
        ConsoleLine(level="log", text="bc"),
        ConsoleLine(level="log", text=""),
        ConsoleLine(level="error", text="oh"),
    ]


def test_a_line_without_end_is_not_kept_whole() -> None:
    lines: list[ConsoleLine] = []
    output = OutputLines(lines.append)
    for _ in range(1000):
        output.take_output("stdout", b"x" * 1000)
    output.take_output("stdout", b"\n")
    [line] = lines
    assert len(line.text) <= 5000


@pytest.mark.parametrize("begin", [b"\r", b"\x1b[2K\x1b[1G", b"\x1b[G", b"\x1b[1A\x1b[2K", b"\x1b[1F"])
def test_of_a_line_that_is_redrawn_the_last_frame_is_heard(begin: bytes) -> None:
    lines: list[ConsoleLine] = []
    output = OutputLines(lines.append)
    for number in range(1, 3001):
        output.take_output("stdout", begin + b"%4d of 3000" % number)
    output.take_output("stdout", b"\nfrom Windows\r\n")
    assert [line.text for line in lines] == ["3000 of 3000", "from Windows"]


def test_of_very_many_lines_at_once_the_first_are_heard() -> None:
    lines: list[ConsoleLine] = []
    output = OutputLines(lines.append)
    output.take_output("stdout", b"\n" * 100_000 + b"begun")
    assert lines == [ConsoleLine(level="log", text="")] * (MAX_NOTIFICATION_CHARS + 1)
    output.take_output("stdout", b" and ended\n")
    assert lines[-1] == ConsoleLine(level="log", text="begun and ended")


def test_a_flood_is_a_bounded_number_of_bounded_messages() -> None:
    messages: list[str] = []

    async def main() -> None:
        async def report(_progress: float, _total: float | None, message: str | None) -> None:
            messages.append(message or "")

        async with stream_console(create_progress_sink(report)) as listen:
            for _ in range(300):
                for _ in range(100):
                    listen(ConsoleLine(level="log", text="y" * 100))
                await asyncio.sleep(0)

    asyncio.run(main())
    assert (len(messages), max(map(len, messages))) == (200, 4000)


def test_what_was_printed_last_is_told_too() -> None:
    told: list[list[ConsoleLine]] = []
    last = ConsoleLine(level="warn", text="last")

    async def main() -> None:
        async def sink(lines: list[ConsoleLine]) -> None:
            told.append(lines)

        async with stream_console(sink) as listen:
            listen(last)

    asyncio.run(main())
    assert told == [[last]]


def test_a_client_that_does_not_read_is_not_waited_for_when_its_call_is_cancelled() -> None:
    async def never(_lines: list[ConsoleLine]) -> None:
        await asyncio.Event().wait()

    async def work() -> None:
        async with stream_console(never) as listen:
            listen(ConsoleLine(level="log", text="x"))
            await asyncio.Event().wait()

    async def main() -> None:
        task = asyncio.create_task(work())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())


def test_log_messages_have_a_level_and_neighbours_of_one_level_are_one() -> None:
    sent: list[tuple[str, str]] = []

    async def main() -> None:
        async def send(level: LoggingLevel, text: str) -> None:
            sent.append((level, text))

        levels: list[ConsoleLevel] = ["debug", "log", "info", "warn", "warn", "error", "log"]
        lines = [ConsoleLine(level=level, text=f"{number} {level}") for number, level in enumerate(levels)]
        await create_message_sink(send, "debug")(lines)
        sent.append(("notice", "and up"))
        await create_message_sink(send, "notice")(lines)

    asyncio.run(main())
    assert sent == [
        ("debug", "0 debug"),
        ("info", "1 log\n2 info"),
        ("warning", "3 warn\n4 warn"),
        ("error", "5 error"),
        ("info", "6 log"),
        ("notice", "and up"),
        ("warning", "3 warn\n4 warn"),
        ("error", "5 error"),
    ]


def test_a_flood_is_a_bounded_number_of_bounded_log_messages() -> None:
    sent: list[str] = []

    async def main() -> None:
        async def send(_level: LoggingLevel, text: str) -> None:
            sent.append(text)

        take = create_message_sink(send, "debug")
        for _ in range(300):
            await take([ConsoleLine(level=level, text="z" * 5000) for level in ("warn", "error")])

    asyncio.run(main())
    assert (len(sent), {len(text) for text in sent}) == (200, {4000})
