"""What is too large for an answer is kept whole; images and sounds are blocks of their own."""

import asyncio
import json
from typing import Any

import pytest
from tests.support.mcp_server import ERAS, Place

from paddock.surfaces.mcp_server.replies import MAX_MEDIA_BLOCKS

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="


async def call(client: Any, tool: str, /, **arguments: Any) -> Any:
    return await client.call_tool(tool, arguments)


@pytest.mark.parametrize("mode", ERAS)
def test_the_rest_of_a_large_value_is_searched_and_read(place: Place, mode: str) -> None:
    place.settings("[mcp]\nanswer_characters = 500\n")
    code = "console.log('noise'); return Array.from({length: 2000}, (_, i) => ({id: i, name: `item ${i}`}))"

    async def main() -> None:
        async with place.client(mode=mode) as client:
            result = await call(client, "execute_code", code=code)
            data, text = result.structured_content, result.content[0].text
            handle = data["artifactHandle"]
            assert (data["status"], data["truncated"], "value" in data) == ("ok", True, False)
            told = f"--- the whole: query_output {handle} (stdout has the value, stderr has the console)"
            assert text.endswith(f"\n{told}")
            assert len(text) < 1000
            assert len(json.dumps(data)) < 1200
            links = [part.uri for part in result.content[1:]]
            assert links == [f"paddock://artifacts/{handle}/{stream}" for stream in ("stdout", "stderr")]
            found = await call(
                client, "query_output", artifactHandle=handle, queryTerms=["item 1234"], contextLines=0
            )
            assert found.structured_content["excerpts"][0]["content"] == '    "name": "item 1234"'
            whole = (await client.read_resource(links[0])).contents[0].text
            assert [each["id"] for each in json.loads(whole)] == [*range(2000)]
            assert (await client.read_resource(links[1])).contents[0].text == "noise"

    asyncio.run(main())


def test_a_console_that_a_limit_cut_is_told_in_the_data(place: Place) -> None:
    place.settings("[limits.execute]\noutput_bytes = 10\n")

    async def main() -> None:
        async with place.client() as client:
            cut = await call(
                client, "execute_code", code="console.log('abc'); console.log('x'.repeat(20)); return 1"
            )
            told = {name: cut.structured_content[name] for name in ("console", "truncated", "value")}
            assert told == {"console": ["abc", "[output truncated]"], "truncated": True, "value": 1}
            whole = await call(client, "execute_code", code="console.log('abc'); return 1")
            assert "truncated" not in whole.structured_content

    asyncio.run(main())


def test_the_rest_of_a_single_call_and_of_an_error(place: Place) -> None:
    place.settings("[mcp]\nanswer_characters = 400\n")

    async def main() -> None:
        async with place.client() as client:
            said = "x" * 1000
            result = await call(client, "call_tool", server="odd", tool="echo", args={"text": said})
            (link,) = [part.uri for part in result.content if part.type == "resource_link"]
            assert said in (await client.read_resource(link)).contents[0].text
            failed = await call(client, "execute_code", code=f"throw new Error('{'y' * 1000}')")
            assert (failed.is_error, failed.structured_content["truncated"]) == (True, True)
            (link,) = [part.uri for part in failed.content if part.type == "resource_link"]
            assert link.endswith("/stderr")
            assert "y" * 1000 in (await client.read_resource(link)).contents[0].text

    asyncio.run(main())


def test_a_text_of_a_tool_is_found_and_read_by_its_own_lines(place: Place) -> None:
    place.settings("[mcp]\nanswer_characters = 2000\n")
    said = "\n".join(f"row {number} é" for number in range(1000))

    async def main() -> None:
        async with place.client() as client:
            result = await call(client, "call_tool", server="odd", tool="echo", args={"text": said})
            _, _, told = result.content[0].text.rpartition("\n--- the whole: query_output ")
            handle = told.partition(" ")[0]
            asked = {"artifactHandle": handle, "queryTerms": ["row 777 "], "contextLines": 0}
            found = (await call(client, "query_output", **asked)).structured_content
            assert [(each["lineStart"], each["content"]) for each in found["excerpts"]] == [
                (778, "row 777 é")
            ]
            read: list[str] = []
            cursor = {"stream": "stdout", "afterLine": 0}
            while cursor is not None:
                page = await call(
                    client, "query_output", artifactHandle=handle, cursor=cursor, maxExcerpts=100
                )
                data = page.structured_content
                assert len(json.dumps(data, ensure_ascii=False)) <= 2100
                assert len(page.content[0].text) <= 2000
                read += [each["content"] for each in data["excerpts"]]
                cursor = data.get("nextCursor")
            assert "\n".join(read) == said

    asyncio.run(main())


@pytest.mark.parametrize("mode", ERAS)
def test_a_text_of_one_line_is_read_to_its_end(place: Place, mode: str) -> None:
    place.settings("[mcp]\nanswer_characters = 3000\n")
    said = "".join(f"{number} é\x01" for number in range(5000))

    async def main() -> None:
        async with place.client(mode=mode) as client:
            result = await call(client, "execute_code", code="return input.said", input={"said": said})
            handle = result.structured_content["artifactHandle"]
            lines = {"stream": "stdout", "startLine": 1, "endLine": 1}
            page = await call(client, "query_output", artifactHandle=handle, lineRange=lines)
            cursor = page.structured_content["lineCursor"]
            assert (
                f"the rest of a cut line: cursor {json.dumps(cursor, separators=(',', ':'))}"
                in page.content[0].text
            )
            read = page.structured_content["excerpts"][0]["content"].removesuffix("[truncated]")
            while cursor is not None:
                page = await call(client, "query_output", artifactHandle=handle, cursor=cursor)
                read += page.structured_content["excerpts"][0]["content"]
                cursor = page.structured_content.get("nextCursor")
            assert read == said

    asyncio.run(main())


def test_the_rest_of_a_script_tool_and_of_a_computation(place: Place) -> None:
    place.settings("[mcp]\nanswer_characters = 400\n")
    directory = place.workspace / ".paddock/tools/rows"
    directory.mkdir(parents=True)
    (directory / "tool.yaml").write_text('{"id": "rows", "name": "rows", "script": "script.py"}')
    (directory / "script.py").write_text(
        "import json, sys\n"
        "if 'why' in json.load(sys.stdin): sys.exit('because ' * 100)\n"
        "print(*(f'row {n}' for n in range(200)), sep='\\n')"
    )
    rows = "\n".join(f"row {number}" for number in range(200))

    async def main() -> None:
        async with place.client() as client:

            async def whole(result: Any) -> tuple[str, str]:
                """Return the last line of an answer, and all of what it leads to."""
                first, *links = result.content
                (link,) = [part.uri for part in links if part.type == "resource_link"]
                assert len(first.text) < 700
                return first.text.splitlines()[-1], (await client.read_resource(link)).contents[0].text

            printed = await call(client, "rows")
            line, text = await whole(printed)
            assert line.startswith("--- the whole: query_output runtime-")
            assert (json.loads(text)["output"], printed.structured_content) == (rows, None)
            failed = await call(client, "rows", why=1)
            line, text = await whole(failed)
            assert (line.endswith(" (stderr has the console)"), failed.structured_content["truncated"]) == (
                True,
                True,
            )
            assert "because " * 100 in text
            source = "for (let n = 0; n < 200; n++) emit((n ? '\\n' : '') + 'row ' + n)"
            computed = await call(client, "compute", source=source)
            line, text = await whole(computed)
            assert text == rows
            data = computed.structured_content
            assert (data["truncated"], data["artifactHandle"] in line) == (True, True)
            assert data["output"].endswith(f"... [truncated: {len(rows)} characters in all]")

    asyncio.run(main())


def test_a_value_that_may_not_be_kept_says_so(place: Place) -> None:
    place.settings("[mcp]\nanswer_characters = 300\n[artifacts]\nenabled = false\n")

    async def main() -> None:
        async with place.client() as client:
            result = await call(client, "execute_code", code="return 'x'.repeat(1000)")
            assert result.content[0].text.endswith(
                "\n--- the complete result is not stored: output is not kept"
            )
            assert ("artifactHandle" in result.structured_content, len(result.content)) == (False, 1)

    asyncio.run(main())


@pytest.mark.parametrize("mode", ERAS)
def test_images_that_a_program_collects_are_blocks(place: Place, mode: str) -> None:
    code = """
      const image = {type: "image", data: input.pixel, mimeType: "image/png"};
      const file = {type: "resource", resource: {uri: "x://y", blob: input.pixel, mimeType: "image/png"}};
      const fakes = [{...image, data: "no base64!"}, {...image, mimeType: "text/html"}, {type: "image"}];
      return {shots: [image, {deep: {type: "audio", data: input.pixel, mimeType: "audio/wav"}}], file, fakes};
    """

    async def main() -> None:
        async with place.client(mode=mode) as client:
            result = await call(client, "execute_code", code=code, input={"pixel": PIXEL})
            kinds = [part.type for part in result.content]
            assert kinds == ["text", "image", "audio", "resource"]
            assert (result.content[1].data, result.content[1].mime_type) == (PIXEL, "image/png")
            size = {"mimeType": "image/png", "bytes": 70}
            assert result.structured_content["value"] == {
                "shots": [
                    {"type": "image", **size, "block": 1},
                    {"deep": {"type": "audio", **size, "mimeType": "audio/wav", "block": 2}},
                ],
                "file": {"type": "resource", **size, "uri": "x://y", "block": 3},
                "fakes": [
                    {"type": "image", "data": "no base64!", "mimeType": "image/png"},
                    {"type": "image", "data": PIXEL, "mimeType": "text/html"},
                    {"type": "image"},
                ],
            }
            assert PIXEL not in result.content[0].text.replace(f'"data":"{PIXEL}","mimeType":"text/html"', "")

    asyncio.run(main())


def test_media_are_bounded(place: Place) -> None:
    code = """
      const image = (data) => ({type: "image", data, mimeType: "image/png"});
      return [image("A".repeat(9_000_000)), ...Array.from({length: input.more}, () => image("AAAA"))];
    """

    async def main() -> None:
        async with place.client() as client:
            result = await call(client, "execute_code", code=code, input={"more": MAX_MEDIA_BLOCKS + 1})
            assert [part.type for part in result.content] == ["text", *["image"] * MAX_MEDIA_BLOCKS]
            value = result.structured_content["value"]
            why = "an answer has at most 16 blocks of 8388608 characters"
            assert value[0] == {"type": "image", "mimeType": "image/png", "bytes": 6750000, "omitted": why}
            assert value[-1] == {"type": "image", "mimeType": "image/png", "bytes": 3, "omitted": why}

    asyncio.run(main())


def test_an_image_of_a_real_server_arrives_as_it_is(place: Place, real_servers: Any) -> None:
    command, *arguments = real_servers.everything
    place.servers({"everything": {"command": command, "args": arguments}})

    async def main() -> None:
        async with place.client(mode="auto") as client:
            code = "return await servers.everything.call('get-tiny-image', {})"
            result = await call(client, "execute_code", code=code)
            direct = await call(client, "call_tool", server="everything", tool="get-tiny-image")
            image = next(part for part in direct.content if part.type == "image")
            assert [part for part in result.content if part.type == "image"] == [image]

    asyncio.run(main())


@pytest.mark.parametrize("mode", ERAS)
def test_what_a_server_says_beside_its_result_is_passed_on(place: Place, mode: str) -> None:
    key = "ghp_" + "a" * 36
    said = {
        "com.example/cost": 5,
        "com.example/note": key,
        "io.modelcontextprotocol/related-task": {"taskId": "t"},
    }

    async def main() -> None:
        async with place.client(mode=mode) as client:
            result = await call(
                client, "call_tool", server="odd", tool="is_error", args={"also": {"_meta": said}}
            )
            told = {name: each for name, each in result.meta.items() if "modelcontextprotocol" not in name}
            assert (result.is_error, told) == (
                True,
                {"com.example/cost": 5, "com.example/note": "[REDACTED:github-token]"},
            )
            assert "io.modelcontextprotocol/related-task" not in result.meta

    asyncio.run(main())


@pytest.mark.parametrize("mode", ERAS)
def test_a_result_over_its_limit_is_stored_and_not_shown_in_part(place: Place, mode: str) -> None:
    place.settings("[limits.execute]\nresult_bytes = 40\n")
    code = "console.log('noise'); return Array.from({length: 9}, (_, id) => ({id}))"

    async def main() -> None:
        async with place.client(mode=mode) as client:
            result = await call(client, "execute_code", code=code)
            data, text = result.structured_content, result.content[0].text
            handle = data["artifactHandle"]
            message = "The result has 82 characters as JSON, and limits.execute.result_bytes is 40"
            assert (result.is_error, data["status"], data["error"]["message"]) == (
                True,
                "output_limit",
                message,
            )
            assert {"value", "excerpt"} & data.keys() == set()
            told = f"--- the whole: query_output {handle} (stdout has the value, stderr has the console)"
            assert text.endswith(f"\n{told}")
            links = [part.uri for part in result.content[1:]]
            assert links == [f"paddock://artifacts/{handle}/{stream}" for stream in ("stdout", "stderr")]
            found = await call(
                client, "query_output", artifactHandle=handle, queryTerms=["7"], contextLines=0
            )
            assert found.structured_content["excerpts"][0]["content"] == '  "id": 7'
            whole = (await client.read_resource(links[0])).contents[0].text
            assert json.loads(whole) == [{"id": number} for number in range(9)]

    asyncio.run(main())


def test_a_result_of_more_bytes_than_output_may_have_is_kept(place: Place) -> None:
    async def main() -> None:
        async with place.client() as client:
            result = await call(client, "execute_code", code="return '€'.repeat(4_000_000)")
            handle = result.structured_content["artifactHandle"]
            found = await call(
                client, "query_output", artifactHandle=handle, cursor={"stream": "stdout", "afterLine": 0}
            )
            assert found.structured_content["totalBytes"] == 12_000_000

    asyncio.run(main())
