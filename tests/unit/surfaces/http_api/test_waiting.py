"""Waiting for the outcome of an execution."""

import asyncio
from pathlib import Path

from paddock.surfaces.http_api.running import Executions, RunningExecution
from paddock.surfaces.mcp_server.requests import InFlightRequests
from paddock.surfaces.tenants.tenant import SlotNeeds


def test_an_outcome_that_is_there_is_returned_without_watching_the_client(tmp_path: Path) -> None:
    watched: list[str] = []

    async def await_disconnect() -> None:
        watched.append("the client")

    async def wait() -> bytes:
        execution = RunningExecution("01JD3W0ZV6N4YQ1R2X5T7B8C9D", "ada", None, 2, SlotNeeds())
        execution.outcome = b"{}"
        execution.done.set()
        return await Executions(tmp_path, InFlightRequests()).wait(execution, await_disconnect)

    assert (asyncio.run(wait()), watched) == (b"{}", [])
