"""Client libraries that others wrote, each in the version that is pinned: over stdio and HTTP they list and call tools,
get an image of a real server's tool, and where they can have their person allow a call.
"""

import asyncio
import json
import os
import shutil
import subprocess
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.integration.surfaces.mcp_server import npm
from tests.support.forked import find_stand_in
from tests.support.mcp_server import TOKEN, Place

LIBRARIES: list[dict[str, Any]] = tomllib.loads(
    (Path(__file__).parents[3] / "client_libraries" / "libraries.toml").read_text()
)["library"]
SCRIPTS = Path(__file__).parent / "scripts"
EXAMPLES = Path(__file__).parents[3] / "client_libraries" / "examples"
RULE = """
[[policy.rule]]
effect = "ask"
tool = "everything/echo"
reason = "echoes carry far"
"""
TOOLS = "execute_code call_tool search_tools describe_tools provision_server run_program query_output compute"
PNG = "89504e470d0a1a0a"
"""How an image in PNG begins."""
FORM = 'Paddock asks: may this run call everything/echo?\nWith: {"message": "as allowed"}\n'


@pytest.fixture
def asking_place(tmp_path: Path, real_servers: Any) -> Place:
    """A workspace with the server `everything`, of whose tools one wants a person's word."""
    place = Place(tmp_path)
    command, *args = real_servers.everything
    place.servers({"everything": {"command": command, "args": args}})
    place.settings(RULE)
    return place


def command_of(
    library: dict[str, Any],
    modules: npm.Modules,
    python_of: Callable[[str], Path],
    target: Path,
    *,
    folder: Path = SCRIPTS,
) -> list[str]:
    """Return what runs the script of a library in `folder`; scripts for Node.js find modules beside them alone."""
    if library["environment"] != "npm":
        return [str(python_of(library["environment"])), str(folder / library["script"])]
    target.mkdir()
    for script in folder.glob("*.mjs"):
        shutil.copy(script, target)
    (target / "node_modules").symlink_to(modules("client_libraries"))
    return [npm.node(modules("clients")), str(target / library["script"])]


@pytest.mark.parametrize("library", LIBRARIES, ids=lambda library: library["script"].partition(".")[0])
def test_a_library_connects_lists_calls_and_asks(
    library: dict[str, Any],
    npm_modules: npm.Modules,
    client_python: Callable[[str], Path],
    asking_place: Place,
    tmp_path: Path,
) -> None:
    place = asking_place
    command = command_of(library, npm_modules, client_python, tmp_path / "scripts")

    async def main() -> dict[str, Any]:
        async with place.web() as web:
            target = {
                "command": find_stand_in(place.environment),
                "args": ["serve", "mcp", "--workspace", str(place.workspace)],
                "env": place.environment,
                "url": web.url,
                "token": TOKEN,
                "transports": ["stdio", "http"],
            }
            return await asyncio.to_thread(visit, command, target, tmp_path)

    for transport, seen in asyncio.run(main()).items():
        assert (transport, " ".join(seen["tools"])) == (transport, TOOLS)
        check_answers(library, seen)
        check_session(seen["answers"]["again"], kept=library["sessions"] or transport == "http")


SHOWN = [
    *LIBRARIES,
    *({**each, "script": each["session_script"]} for each in LIBRARIES if "session_script" in each),
]


@pytest.mark.parametrize("library", SHOWN, ids=lambda library: library["script"].partition(".")[0])
def test_the_program_that_the_page_shows_connects_and_calls(
    library: dict[str, Any],
    npm_modules: npm.Modules,
    client_python: Callable[[str], Path],
    asking_place: Place,
    tmp_path: Path,
) -> None:
    command = command_of(library, npm_modules, client_python, tmp_path / "scripts", folder=EXAMPLES)
    environment = asking_place.environment
    done = subprocess.run(
        command,
        cwd=asking_place.workspace,
        env={**environment, "PATH": f"{Path(find_stand_in(environment)).parent}:{os.environ['PATH']}"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert (done.returncode, done.stdout.splitlines()[-1:]) == (0, ["42"]), done.stderr[-4000:]


def visit(command: list[str], target: dict[str, Any], home: Path) -> dict[str, Any]:
    """Return what a script tells."""
    done = subprocess.run(
        [*command, json.dumps(target)],
        cwd=home,
        env={"PATH": os.environ["PATH"], "HOME": str(home), "LANG": "C.UTF-8"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout)


def check_session(answer: dict[str, Any], *, kept: bool) -> None:
    """Hold the answer to a program in a session that an earlier call opened against whether it can be there."""
    text = f"{answer['text']} {answer['structured']}"
    lost = "The session is lost: the process of Paddock that had it has ended" in text
    cure = "client.session(...), create_mcp_server_session(...)" in text
    assert ("kept 42" in text, lost, cure) == (kept, not kept, not kept), text


def check_answers(library: dict[str, Any], seen: dict[str, Any]) -> None:
    """Hold what a library gave against what its row says."""
    code, program, image, approval = (
        seen["answers"][step] for step in ("code", "program", "image", "approval")
    )
    structured = (code["structured"] or {}).get("value")
    assert structured == ({"answer": 42} if library["structured"] else None)
    assert structured or '{"answer":42}' in code["text"]
    assert "42" in (program["structured"] or {}).get("stdoutSummary", program["text"])
    assert image["text"].startswith("Here's the image you requested:")
    assert image["images"] == ([PNG] if library["images"] else [])
    if library["approvals"]:
        assert [form.startswith(FORM) for form in seen["forms"]] == [True]
        assert approval["text"] == "Echo: as allowed"
    else:
        assert seen["forms"] == []
        assert "paddock approve" in approval["text"]
