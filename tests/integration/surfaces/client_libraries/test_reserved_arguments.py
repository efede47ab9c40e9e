"""No native tool has an argument whose name a client library keeps for itself, or that agents in code cannot write."""

import asyncio
import keyword
import re
import subprocess
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.mcp_server import Place

RESERVED: list[dict[str, Any]] = tomllib.loads(
    (Path(__file__).parents[3] / "client_libraries" / "reserved_arguments.toml").read_text()
)["reserved"]
SNAKE_CASE = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", re.ASCII)


def names(schema: Any) -> Iterator[str]:
    """Yield the names of all arguments, and of their members where the schema has them."""
    for name, each in schema.get("properties", {}).items():
        yield name
        yield from names(each)


def is_reserved(name: str) -> bool:
    return any(
        name in each.get("names", ()) or re.fullmatch(each.get("matches", "(?!)"), name) for each in RESERVED
    )


def test_no_argument_has_a_reserved_name(place: Place) -> None:
    async def main() -> list[Any]:
        async with place.client() as client:
            return (await client.list_tools()).tools

    found = {(tool.name, name) for tool in asyncio.run(main()) for name in names(tool.input_schema)}
    assert ("run_program", "language") in found
    assert [each for each in found if is_reserved(each[1]) or keyword.iskeyword(each[1])] == []
    assert [each for each in found if not SNAKE_CASE.fullmatch(each[1])] == []


@pytest.mark.parametrize("name", ["runtime", "callbacks", "_meta", "model_name", "schema", "ctx"])
def test_the_list_knows_the_names_that_are_lost(name: str) -> None:
    assert is_reserved(name)


def test_the_libraries_still_reserve_what_the_list_says(client_python: Callable[[str], Path]) -> None:
    sites = {
        name: subprocess.run(
            [client_python(name), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for name in {each["environment"] for each in RESERVED}
    }
    gone = [
        each
        for each in RESERVED
        if each["text"] not in Path(sites[each["environment"]], each["file"]).read_text()
    ]
    assert gone == []
