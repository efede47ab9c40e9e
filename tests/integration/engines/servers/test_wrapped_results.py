"""FastMCP puts results that are no objects into one. Programs get what the tool returned, and declarations show it."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.servers import FOLDER, make_entry, write_servers
from tests.support.session import SessionRunner

from paddock.model.outcome import Outcome
from paddock.model.request import ExecutionRequest, GuestRun
from paddock.policy.settings.schema import AuditSettings, ServerSettings, Settings

PLAIN = {
    "name": "find",
    "inputSchema": {"type": "object"},
    "outputSchema": {"type": "object", "properties": {"result": {"type": "array"}}},
}


class Desk(SessionRunner):
    def __init__(self, directory: Path, python: Path) -> None:
        super().__init__(directory)
        tools = directory / "tools.json"
        tools.write_text(json.dumps([PLAIN]))
        wrapped = {"command": str(python), "args": [str(FOLDER / "wrapped.py")], "timeoutMs": 3_600_000}
        write_servers(directory, {"s": wrapped, "t": make_entry("turncoat", tools)})
        state = directory / "state"
        settings = Settings(audit=AuditSettings(directory=state), servers=ServerSettings(state=state))
        self.start(settings)

    def run(self, source: str) -> Outcome:
        return self.execute(ExecutionRequest(workspace=self.workspace, work=GuestRun(source=source)))


@pytest.fixture
def desk(tmp_path: Path, client_python: Callable[[str], Path]) -> Iterator[Desk]:
    with Desk(tmp_path, client_python("python-mcp-2")) as opened:
        yield opened


def test_a_wrapped_result_is_taken_out_and_the_raw_one_stays(desk: Desk) -> None:
    outcome = desk.run("""
        const { structuredContent } = await servers.s.callRaw("list_points", {});
        const points = await servers.s.list_points();
        return [points.map((p) => p.x), await servers.s.count(), await servers.s.point(), structuredContent];
    """)
    assert outcome.value == [[1, 2], 2, {"result": 1}, {"result": [{"x": 1}, {"x": 2}]}]


def test_the_declaration_shows_what_programs_get(desk: Desk) -> None:
    async def describe() -> Any:
        await desk.session.servers.catalog.list_tools("s")
        return await desk.session.servers.catalog.describe_tools(["s.list_points", "s.count"])

    described, _, _ = desk.runner.run(describe())
    ends = [each.declaration.partition("): ")[2] for each in described]
    assert ends == [
        "Promise<(Record<string, number>)[]>; // output: declared",
        "Promise<number>; // output: declared",
    ]


def test_a_result_that_is_not_marked_gets_a_hint(desk: Desk) -> None:
    failed = desk.run("const r = await servers.t.find({result: [1]});\nreturn r.map((x) => x)")
    assert failed.error is not None
    assert failed.error.hint == "servers.t.find returned an object with `result`: use `r.result`"
    nothing = desk.run("const r = await servers.t.find({result: [1]});\nreturn r.items")
    assert (nothing.ok, nothing.has_value, [line.printed for line in nothing.console]) == (
        True,
        False,
        [
            "[warn] the program returned nothing: servers.t.find returned an object with `result`, without `items`"
        ],
    )
