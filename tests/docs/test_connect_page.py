"""The examples of docs/connect.md, against a server: they print what the page shows."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.http_api import TOKEN, ApiPlace, ApiServer

PAGE = (Path(__file__).resolve().parents[2] / "docs/connect.md").read_text()
URL = "http://127.0.0.1:8700"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    with ApiPlace(tmp_path_factory.mktemp("page")).serve() as server:
        yield server


def find_example(language: str) -> tuple[str, str]:
    """Return the only block of a language, and the text that it prints."""
    pattern = rf"^```{language}\n(.*?)^```\n\n(?:prints\n\n)?```text\n(.*?)^```"
    [example] = re.findall(pattern, PAGE, re.MULTILINE | re.DOTALL)
    assert PAGE.count(f"```{language}\n") == 1
    return example


@pytest.mark.parametrize(
    ("language", "command"), [("python", [sys.executable, "-c"]), ("bash", ["bash", "-c"])]
)
def test_an_example_prints_what_the_page_shows(
    language: str, command: list[str], server: ApiServer, tmp_path: Path
) -> None:
    program, shown = find_example(language)
    environment = {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "LANG": "C.UTF-8",
        "PADDOCK_SERVER": server.url,
        "PADDOCK_TOKEN": TOKEN,
    }
    done = subprocess.run(
        [*command, program.replace(URL, server.url)],
        env=environment,
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.stdout == shown
