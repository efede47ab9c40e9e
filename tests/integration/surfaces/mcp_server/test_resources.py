"""Stored output, types of tools, scripts and the guide as resources, in both eras and over both transports."""

import asyncio
import json
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, MCPError
from mcp_types import ResourceTemplateReference
from tests.support.command import PADDOCK
from tests.support.mcp_server import ERAS, Place

OUTPUT = "paddock://artifacts/{handle}/{stream}{?start,length}"
TRANSPORTS = ("stdio", "http")
SECRET = "ghp_" + "a" * 36


@asynccontextmanager
async def connected(place: Place, transport: str, mode: str) -> AsyncIterator[Client]:
    if transport == "stdio":
        async with place.client(mode=mode) as client:
            yield client
        return
    async with place.web() as web, web.client(mode=mode) as client:
        yield client


async def printed(client: Client, code: str) -> Any:
    """Have a program print, and return the result."""
    return await client.call_tool("run_program", {"runtime": "perl", "code": code})


async def refused(client: Client, uri: str) -> tuple[int, str]:
    with pytest.raises(MCPError) as caught:
        await client.read_resource(uri)
    return caught.value.error.code, caught.value.error.message


@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_output_is_linked_listed_and_read_by_ranges(place: Place, transport: str, mode: str) -> None:
    code = f'print "one {SECRET} \\xc3\\xa4\\xc3\\xb6\\n"; print STDERR "\\xff\\xfe"'

    async def main() -> None:
        async with connected(place, transport, mode) as client:
            result = await printed(client, code)
            handle = result.structured_content["artifactHandle"]
            links = [part for part in result.content if part.type == "resource_link"]
            out, err = (f"paddock://artifacts/{handle}/{stream}" for stream in ("stdout", "stderr"))
            assert [(link.uri, link.name, link.title, link.mime_type) for link in links] == [
                (out, f"{handle}/stdout", "stdout of perl", "text/plain"),
                (err, f"{handle}/stderr", "stderr of perl", "text/plain"),
            ]
            listed = (await client.list_resources()).resources
            assert [each.uri for each in listed] == ["paddock://guide", out, err]
            assert listed[1].title == "stdout of perl (ok)"

            async def read(uri: str) -> tuple[Any, dict[str, Any]]:
                (contents,) = (await client.read_resource(uri)).contents
                data = contents.text if contents.mime_type == "text/plain" else contents.blob
                return data, contents.meta

            assert await read(out) == ("one [REDACTED:github-token] äö\n", {"paddock/start": 0})
            whole, pieces, uri = b"one [REDACTED:github-token] \xc3\xa4\xc3\xb6\n", "", f"{out}?length=2"
            while uri:
                piece, meta = await read(uri)
                pieces += piece
                uri = meta.get("paddock/next", "") and meta["paddock/next"] + "&length=2"
            assert pieces.encode() == whole
            assert await read(f"{out}?start={len(whole) - 4}") == ("ö\n", {"paddock/start": len(whole) - 4})
            assert await read(f"{out}?start=1000") == ("", {"paddock/start": 1000})
            assert await read(err) == ("//4=", {"paddock/start": 0})
            missing = -32002 if mode == "legacy" else -32602
            assert await refused(client, f"{out}?start=-1") == (
                missing,
                "`start` is a number of bytes, not '-1'",
            )
            assert await refused(client, f"paddock://artifacts/{handle}/both") == (
                missing,
                "there is no stream 'both'; there are stdout and stderr",
            )
            assert await refused(client, "paddock://artifacts/..%2F..%2Fetc/stdout") == (
                missing,
                "Invalid artifact handle: path traversal detected",
            )
            assert await refused(client, "file:///etc/passwd") == (
                missing,
                "no such resource; see resources/list and resources/templates/list",
            )

    asyncio.run(main())


def test_output_of_others_and_what_has_expired_is_not_there(place: Place) -> None:
    other = place.workspace.parent / "other"
    other.mkdir()
    command = [PADDOCK, "exec", "perl", "-c", "print 1", "--mode", "minimal", "--json"]
    done = subprocess.run(
        command, cwd=other, env=place.environment, capture_output=True, text=True, check=True
    )
    foreign = json.loads(done.stdout)["artifactHandle"]

    async def main() -> None:
        async with place.client(mode="auto") as client:
            own = (await printed(client, "print 2")).structured_content["artifactHandle"]
            manifest = next(place.home.rglob(f"{own}/manifest.json"))
            assert len((await client.list_resources()).resources) == 2
            for name, told in (
                (foreign, "Artifact not found in this workspace: "),
                (own, "Artifact not found: "),
            ):
                if name == own:
                    facts = json.loads(manifest.read_text())
                    manifest.write_text(json.dumps({**facts, "expiresAt": "2001-01-01T00:00:00Z"}))
                    assert len((await client.list_resources()).resources) == 1
                code, message = await refused(client, f"paddock://artifacts/{name}/stdout")
                assert (code, message.startswith(told + name)) == (-32602, True)

    asyncio.run(main())


@pytest.mark.parametrize("mode", ERAS)
def test_pages_hold_everything_once_and_are_steady(place: Place, mode: str) -> None:
    async def main() -> None:
        async with place.client(mode=mode) as client:
            handle = (await printed(client, "print 1")).structured_content["artifactHandle"]
            folder = next(place.home.rglob(handle))
            head = handle.rpartition("-")[0]
            for number in range(249):
                copy = folder.with_name(f"{head}-{number:016x}")
                copy.mkdir()
                (copy / "manifest.json").write_text((folder / "manifest.json").read_text())
            seen: list[str] = []
            cursor, pages = None, 0
            while pages == 0 or cursor is not None:
                page = await client.list_resources(cursor=cursor)
                seen += [each.uri for each in page.resources]
                cursor, pages = page.next_cursor, pages + 1
                await printed(client, "print 'a new one on top'")
            assert (pages, len(seen), len(set(seen))) == (3, 251, 251)
            with pytest.raises(MCPError, match="unknown cursor 'x'; leave it out to begin again"):
                await client.list_resources(cursor="x")

    asyncio.run(main())


@pytest.mark.parametrize("mode", ERAS)
def test_types_scripts_and_guide_are_read_and_completed(place: Place, mode: str) -> None:
    scripts = place.workspace / ".paddock/scripts"
    scripts.mkdir(parents=True)
    (scripts / "re port.ts").write_text(f"return '{SECRET}'")

    async def main() -> None:
        async with place.client(mode=mode) as client:
            templates = (await client.list_resource_templates()).resource_templates
            types, script = "paddock://tools/{server}/{tool}", "paddock://scripts/{name}"
            assert [each.uri_template for each in templates] == [
                OUTPUT,
                types,
                script,
                "paddock://changes/{id}",
            ]

            async def text(uri: str) -> str:
                return (await client.read_resource(uri)).contents[0].text

            async def complete(template: str, name: str, begun: str, **given: str) -> list[str]:
                reference = ResourceTemplateReference(uri=template)
                argument = {"name": name, "value": begun}
                found = await client.complete(reference, argument, context_arguments=given or None)
                return found.completion.values

            assert (await text("paddock://guide")).startswith("# Programs for execute_code\n")
            assert await text("paddock://scripts/re%20port") == "return '[REDACTED:github-token]'"
            assert (await text("paddock://tools/odd/pid")).startswith("// servers.odd\n")
            code = -32002 if mode == "legacy" else -32602
            assert await refused(client, "paddock://tools/odd/pit") == (
                code,
                "odd.pit: unknown; did you mean odd.pid or odd.fail or odd.invalid?",
            )
            assert await refused(client, "paddock://scripts/..%2Fx") == (
                code,
                "there is no script ../x; there are re port",
            )
            assert await complete(types, "server", "o") == ["odd"]
            assert await complete(types, "tool", "pi", server="odd") == ["pid"]
            assert await complete(types, "tool", "", server="none") == []
            assert await complete(script, "name", "re") == ["re port"]
            assert await complete("paddock://other/{name}", "name", "") == []
            handle = (await printed(client, "print 1")).structured_content["artifactHandle"]
            assert await complete(OUTPUT, "handle", "runtime-") == [handle]
            assert await complete(OUTPUT, "stream", "stde") == ["stderr"]

    asyncio.run(main())


def test_no_script_is_shown_that_a_link_leads_to_elsewhere(place: Place, tmp_path: Path) -> None:
    scripts = place.workspace / ".mentu/scripts"
    scripts.mkdir(parents=True)
    (tmp_path / "credentials").write_text("c2VjcmV0")
    (scripts / "theirs.ts").symlink_to(tmp_path / "credentials")
    message = (
        "theirs: cannot read this script: it leads out of the workspace; "
        "run it by its path, or save it in the home directory"
    )

    async def main() -> None:
        async with place.client() as client:
            assert (await refused(client, "paddock://scripts/theirs"))[1] == message
            with pytest.raises(MCPError) as problem:
                await client.get_prompt("run-script", {"name": "theirs"})
            assert problem.value.message == message

    asyncio.run(main())


def test_who_listens_hears_of_new_output(place: Place) -> None:
    async def main() -> None:
        async with place.lines() as lines:
            wish = {"notifications": {"resourcesListChanged": True}}
            lines.send("subscriptions/listen", wish)
            assert (await lines.receive())["method"] == "notifications/subscriptions/acknowledged"
            lines.send(
                "tools/call", {"name": "run_program", "arguments": {"runtime": "perl", "code": "print 1"}}
            )
            assert (await lines.receive())["method"] == "notifications/resources/list_changed"

    asyncio.run(main())
