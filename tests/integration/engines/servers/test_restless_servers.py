"""A server whose definitions differ at each start, though it is honest: it can be used without an approval each time."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.support.command import make_environment, run_paddock
from tests.support.servers import make_entry, write_servers


@pytest.fixture
def paddock(tmp_path: Path) -> Any:
    write_servers(tmp_path, {"r": make_entry("restless", tmp_path / "starts")})

    def run(*args: str, zone: str = "Etc/UTC") -> tuple[int, str, str]:
        environment = make_environment(tmp_path / "home", TZ=zone, PADDOCK_SERVERS_SEMANTIC_SEARCH="off")
        return run_paddock(tmp_path, "servers", *args, environment=environment)

    return run


def test_other_orders_are_no_change_and_approvals_of_texts_add_up(paddock: Any) -> None:
    find = partial(paddock, "call", "r", "find", '{"query": "x", "fields": "status"}')
    assert [find(), find(), find(zone="Asia/Tokyo")] == [(0, "done\n", "")] * 3

    now = partial(paddock, "call", "r", "now")
    assert now() == (0, "done\n", "")
    code, _, errors = now(zone="Asia/Tokyo")
    assert code != 0
    assert "Tool r.now is not what it was when it was first used" in errors
    code, output, errors = paddock("diff", "r", zone="Asia/Tokyo")
    change = [
        "--- r/now pinned",
        "+++ r/now now",
        "@@ -1,6 +1,6 @@",
        " {",
        '   "name": "now",',
        '-  "description": "Tells the time. Use \'Etc/UTC\' where no zone is given.",',
        '+  "description": "Tells the time. Use \'Asia/Tokyo\' where no zone is given.",',
        '   "inputSchema": {',
        '     "properties": {},',
        '     "type": "object"',
    ]
    assert (code, output.splitlines()[:10]) == (0, change)
    assert "r.now" not in errors
    assert paddock("approve", "r", "now")[0] == 0
    zones = ("Asia/Tokyo", "Etc/UTC", "Asia/Tokyo", "Europe/Oslo")
    assert [now(zone=zone)[0] == 0 for zone in zones] == [True, True, True, False]


def test_a_text_that_differs_at_each_start_can_be_accepted_as_such(paddock: Any) -> None:
    stamp = partial(paddock, "call", "r", "stamp")
    assert stamp()[0] == 0
    assert stamp()[0] != 0
    code, output, errors = paddock("diff", "r")
    assert (code, "start 0." in output, "start 2." in output) == (0, True, True)
    assert errors == (
        "r.stamp differs at each start, this time in its text. `paddock servers approve r stamp --unstable-text`"
        " accepts any text of this tool, and models read only the approved one; its schemas and annotations stay pinned\n"
    )
    code, _, errors = paddock("approve", "r", "--unstable-text")
    assert (code, errors.splitlines()[-1]) == (
        2,
        "Error: Name the tools: paddock servers approve r TOOL... --unstable-text",
    )
    assert paddock("approve", "r", "stamp", "--unstable-text") == (0, "", "")
    assert [stamp()[0], stamp()[0]] == [0, 0]
    assert paddock("describe", "r.stamp")[1].startswith(
        "// r.stamp\n/** Stamps a paper. This is start 0. */\n"
    )
    assert paddock("diff", "r", "--json") == (0, "[]\n", "")
    assert paddock("approve", "r", "stamp", "--stable-text", "--json") == (
        0,
        json.dumps([{"server": "r", "tool": "stamp", "unstable_text": False}]) + "\n",
        "",
    )
    assert stamp()[0] != 0
    assert paddock("approve", "r", "none", "--unstable-text") == (
        1,
        "",
        "r.none: the tool is not pinned; see `paddock servers tools`\n",
    )
