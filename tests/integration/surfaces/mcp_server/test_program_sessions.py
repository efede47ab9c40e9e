"""`run_program` in sessions: variables stay, images are blocks, and a handle belongs to one client."""

import asyncio
import base64
import re
from typing import Any

from mcp.types import Implementation
from tests.integration.test_exec_files import PNG
from tests.support.mcp_server import Place

RICH = f"""
class Page:
    def _repr_html_(self): return "<b>x</b>"
    def _repr_png_(self): return bytes.fromhex('{PNG.hex()}')
    def __repr__(self): return "page"
Page()
"""
UNKNOWN = "there is no such session, or it belongs to another caller"


def use(place: Place, *programs: dict[str, Any]) -> list[Any]:
    """Return the answers to programs in one session, which the first one opens."""

    async def main() -> list[Any]:
        async with place.client() as client:
            first = {"language": "python", "session": "new", **programs[0]}
            opened = await client.call_tool("run_program", first)
            handle = opened.structured_content["session"]["id"]
            further = [
                await client.call_tool("run_program", {"session": handle, **program})
                for program in programs[1:]
            ]
            return [opened, *further]

    return asyncio.run(main())


def test_variables_stay_and_the_language_need_not_be_repeated(place: Place) -> None:
    opened, used = use(place, {"code": "x = 40"}, {"code": "x + 2"})
    assert re.search(
        r"\nsession s_[0-9a-f]{48}: kept, expires in \d+ s without use(\n|$)", opened.content[0].text
    )
    assert opened.structured_content["session"]["state"] == "kept"
    assert (used.is_error, used.structured_content["stdoutSummary"]) == (False, "42")
    assert used.structured_content["session"]["number"] == 2
    assert used.structured_content["results"] == [{"text": "42", "mediaTypes": ["text/plain"], "stored": []}]


def test_images_of_results_are_blocks_and_other_forms_are_links(place: Place) -> None:
    async def main() -> tuple[Any, Any]:
        async with place.client() as client:
            shown = await client.call_tool(
                "run_program", {"language": "python", "session": "new", "code": RICH}
            )
            [link] = [block for block in shown.content if getattr(block, "name", "") == "text/html"]
            return shown, await client.read_resource(link.uri)

    shown, page = asyncio.run(main())
    images = [block for block in shown.content if block.type == "image"]
    assert [(block.mime_type, base64.b64decode(block.data)) for block in images] == [("image/png", PNG)]
    assert page.contents[0].text == "<b>x</b>"
    assert [result["text"] for result in shown.structured_content["results"]] == ["page"]


def test_files_of_a_session_stay(place: Place) -> None:
    first, second = use(
        place,
        {"code": "n = len(open('a.csv').read())", "files": [{"path": "a.csv", "text": "1,2"}]},
        {"code": f"open('p.png', 'wb').write(bytes.fromhex('{PNG.hex()}')); open('a.csv').read()"},
    )
    assert first.is_error is False
    assert [file["path"] for file in second.structured_content["files"]] == ["p.png"]
    assert [block.type for block in second.content if block.type == "image"] == ["image"]


def test_a_lost_session_is_told_with_what_to_do(place: Place) -> None:
    _, killed, after = use(
        place, {"code": "x = 1"}, {"code": "import os; os.kill(os.getpid(), 9)"}, {"code": "x"}
    )
    reason = "its interpreter has ended, with all variables and files"
    assert f"\nsession lost: {reason}" in killed.content[0].text
    assert killed.structured_content["session"]["state"] == "lost"
    assert after.is_error
    assert f"SessionLost: The session is lost: {reason}. Nothing ran." in after.content[0].text
    assert 'hint: open another one with the session "new"' in after.content[0].text


def test_a_handle_of_another_client_is_refused(place: Place) -> None:
    async def main() -> tuple[Any, Any, Any]:
        async with (
            place.web() as web,
            web.client(client_info=Implementation(name="owner", version="1")) as owner,
            web.client(client_info=Implementation(name="stranger", version="1")) as stranger,
        ):
            opened = await owner.call_tool(
                "run_program", {"language": "python", "session": "new", "code": "x = 1"}
            )
            use_it = {"session": opened.structured_content["session"]["id"], "code": "x"}
            return (
                await stranger.call_tool("run_program", use_it),
                await stranger.call_tool("run_program", {"session": f"s_{'0' * 32}", "code": "x"}),
                await owner.call_tool("run_program", use_it),
            )

    stolen, guessed, own = asyncio.run(main())
    assert [UNKNOWN in answer.content[0].text for answer in (stolen, guessed)] == [True, True]
    assert (stolen.is_error, own.is_error, own.structured_content["stdoutSummary"]) == (True, False, "1")


def test_a_program_without_language_and_handle_is_an_error(place: Place) -> None:
    async def main() -> list[Any]:
        async with place.client() as client:
            return [
                await client.call_tool("run_program", arguments)
                for arguments in (
                    {"code": "1"},
                    {"code": "1", "session": "new"},
                    {"session": "x", "code": "1"},
                )
            ]

    neither, new, wrong = asyncio.run(main())
    assert [answer.is_error for answer in (neither, new, wrong)] == [True] * 3
    assert [answer.content[0].text.splitlines()[1] for answer in (neither, new)] == [
        "run_program: `language` is missing"
    ] * 2
    assert wrong.content[0].text.startswith("invalid\nrun_program: `session`: ")


def test_a_kernel_and_the_background_are_asked_for_with_a_new_session(place: Place) -> None:
    async def main() -> list[Any]:
        async with place.client() as client:
            return [
                await client.call_tool("run_program", {"language": "python", "session": "new", **arguments})
                for arguments in (
                    {"code": "1", "kernel": "jupyter"},
                    {"code": "1", "background": True},
                    {"code": "1", "kernel": "ipython", "language": "shell"},
                    {"code": "1", "memory_bytes": 500_000_000, "cpu_ms": 10_000},
                )
            ]

    texts = [answer.content[0].text for answer in asyncio.run(main())]
    assert texts[0] == (
        'invalid\nrun_program: `kernel` must be one of "plain", "ipython", not the text "jupyter"'
    )
    assert "a session that runs between two programs is not granted" in texts[1]
    assert texts[3].startswith("ok · ")
    assert texts[2] == "invalid\nrun_program: shell has no kernel ipython; python has it"
