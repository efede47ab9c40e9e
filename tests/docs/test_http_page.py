"""The examples of docs/http.md, against a server: what they print has what the page shows."""

import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.http_api import TOKEN, ApiPlace, ApiServer

PAGE = (Path(__file__).resolve().parents[2] / "docs/http.md").read_text()
EXAMPLES = re.findall(r"^```bash\n(.*?)^```\n\n```(json|text)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    with ApiPlace(tmp_path_factory.mktemp("page")).serve() as server:
        yield server


@pytest.mark.parametrize("number", range(7))
def test_an_example_prints_what_the_page_shows(server: ApiServer, number: int) -> None:
    command, kind, shown = EXAMPLES[number]
    environment = {"PATH": os.environ["PATH"], "URL": server.url, "TOKEN": TOKEN}
    done = subprocess.run(
        ["bash", "-c", command], env=environment, capture_output=True, text=True, check=True
    )
    if kind == "text":
        assert done.stdout.strip() == shown.strip()
    else:
        printed = json.loads(done.stdout)
        assert select(printed, json.loads(shown)) == json.loads(shown)


def test_every_example_is_run() -> None:
    assert (len(EXAMPLES), PAGE.count("```bash")) == (7, 7)


def select(value: Any, like: Any) -> Any:
    """Return the part of a value that is shown."""
    if isinstance(like, dict):
        return {name: select(value[name], item) for name, item in like.items()}
    if isinstance(like, list):
        return [select(*pair) for pair in zip(value, like, strict=True)]
    return value
