"""Lines of a running program on their way to the client: whole, in order, bounded."""

import asyncio

from paddock.model.outcome import ConsoleLine
from paddock.surfaces.mcp.progress import OutputLines, streamed


def test_lines_come_whole_however_they_are_cut() -> None:
    lines: list[ConsoleLine] = []
    output = OutputLines(lines.append)
    for piece in ("ä\nb".encode()[:1], "ä\nb".encode()[1:], b"c\n\nunfinished"):
        output.take("stdout", piece)
    output.take("stderr", b"oh\n")
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
        output.take("stdout", b"x" * 1000)
    output.take("stdout", b"\n")
    [line] = lines
    assert len(line.text) <= 5000


def test_a_flood_is_a_bounded_number_of_bounded_messages() -> None:
    messages: list[str] = []

    async def main() -> None:
        async def report(_progress: float, _total: float | None, message: str | None) -> None:
            messages.append(message or "")

        async with streamed(report) as listen:
            for _ in range(300):
                for _ in range(100):
                    listen(ConsoleLine(level="log", text="y" * 100))
                await asyncio.sleep(0)

    asyncio.run(main())
    assert (len(messages), max(map(len, messages))) == (200, 4000)
