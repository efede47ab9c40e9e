"""`run_program` takes files, and gives images as blocks and other files as links."""

import asyncio
import base64
from typing import Any

from tests.integration.test_exec_files import PNG
from tests.support.mcp_server import Place

from paddock.surfaces.mcp_server.output_resources import MAX_IMAGES

PLOT = f"open('p.png', 'wb').write(bytes.fromhex('{PNG.hex()}'))\n"


def run(place: Place, *asked: dict[str, Any]) -> list[Any]:
    async def main() -> list[Any]:
        async with place.client() as client:
            return [await client.call_tool("run_program", {"language": "python", **each}) for each in asked]

    return asyncio.run(main())


def test_files_come_from_texts_bytes_the_workspace_and_artifacts(place: Place) -> None:
    (place.workspace / "w.txt").write_text("w")
    code = "import sys\nopen('sum.txt', 'w').write(''.join(open(n).read() for n in sys.argv[1:]))"
    files = [
        {"path": "t", "text": "t"},
        {"path": "b", "base64": base64.b64encode(b"b").decode()},
        {"path": "w", "workspace": "w.txt"},
    ]

    async def main() -> tuple[Any, Any, Any]:
        async with place.client() as client:
            asked = {
                "language": "python",
                "code": code,
                "args": ["t", "b", "w"],
                "files": files,
                "outputs": ["*"],
            }
            first = await client.call_tool("run_program", asked)
            (file,) = first.structured_content["files"]
            again = [{"path": "x", "artifact": file["handle"]}]
            second = await client.call_tool(
                "run_program", {"language": "python", "code": "print(open('x').read())", "files": again}
            )
            link = next(each for each in first.content if getattr(each, "name", "") == "sum.txt")
            return first, second, (link, await client.read_resource(link.uri))

    first, second, (link, read) = asyncio.run(main())
    assert second.structured_content["stdoutSummary"] == "tbw"
    assert (link.mime_type, link.size, read.contents[0].text) == ("text/plain", 3, "tbw")
    assert first.structured_content["files"][0]["path"] == "sum.txt"


def test_an_image_is_a_block(place: Place) -> None:
    many = "".join(f"open('{n:02}.png', 'wb').write(bytes.fromhex('{PNG.hex()}'))\n" for n in range(25))
    one, several, fake = run(
        place,
        {"code": PLOT, "outputs": ["*.png"]},
        {"code": many, "outputs": ["*"]},
        {"code": "open('x.png', 'w').write('<script>')", "outputs": ["*"]},
    )
    images = [each for each in one.content if each.type == "image"]
    assert [(each.mime_type, base64.b64decode(each.data)) for each in images] == [("image/png", PNG)]
    assert f"file: p.png (image/png, {len(PNG)} bytes) runtime-" in one.content[0].text
    assert len([each for each in several.content if each.type == "image"]) == MAX_IMAGES
    assert len([each for each in several.content if getattr(each, "name", "").endswith(".png")]) == 25
    assert [each for each in fake.content if each.type == "image"] == []


def test_what_is_no_file_is_refused(place: Place) -> None:
    (place.workspace / "link").symlink_to("/etc/passwd")
    twice, bad, linked, missing, absolute = run(
        place,
        {"code": "1", "files": [{"path": "a", "text": "", "base64": ""}]},
        {"code": "1", "files": [{"path": "a", "base64": "*"}]},
        {"code": "1", "files": [{"path": "a", "workspace": "link"}]},
        {"code": "1", "files": [{"path": "a", "artifact": "runtime-x-1-0123456789abcdef"}]},
        {"code": "1", "files": [{"path": "/a", "text": ""}]},
    )
    told = [each.content[0].text for each in (twice, bad, linked, missing, absolute)]
    assert "'a' needs one of `text`, `base64`, `workspace` (a path) and `artifact` (a handle)" in told[0]
    assert "base64" in told[1]
    assert "link of the workspace cannot be copied: Too many levels of symbolic links" in told[2]
    assert "Artifact not found: runtime-x-1-0123456789abcdef" in told[3]
    assert "'/a' is absolute; give a path relative to the working directory" in told[4]
    assert all(each.is_error for each in (twice, bad, linked, missing, absolute))


def test_no_name_of_a_hidden_file_is_copied(place: Place) -> None:
    (place.workspace / ".env").write_text("SECRET")
    (place.workspace / "other").hardlink_to(place.workspace / ".env")
    (place.workspace / ".ssh").mkdir()
    (place.workspace / ".ssh" / "config").write_text("SECRET")
    names = [".env", "other", ".ssh/config"]
    asked = [
        {"code": "print(open('a').read())", "files": [{"path": "a", "workspace": name}]} for name in names
    ]
    absent = {"code": "open('.env')", "outputs": ["*"]}
    *copied, failed = run(place, *asked, absent)
    assert [each.content[0].text.partition("Invalid: ")[2] for each in copied] == [
        f"{name} of the workspace is hidden from programs, because it holds secrets (workspace.hide); a person can show "
        "it with `show` under [workspace] in the user's paddock.toml"
        for name in names
    ]
    assert "--file-in" not in failed.content[0].text
