"""Many requests at once: each is answered, in about the order they came, and memory stays bounded.

`PADDOCK_RELIABILITY_REQUESTS=1000` sends so many.
"""

import asyncio
import json
import os
import re
from pathlib import Path
from typing import Any

import httpx2
from tests.support.mcp_server import AUTHORIZED, MODERN, Place

REQUESTS = int(os.environ.get("PADDOCK_RELIABILITY_REQUESTS", "60"))
LATE = 20
"""How many of its kind may overtake a request: those that run beside it, and what the scheduler adds."""
CALLS = (
    ("execute_code", lambda n: {"code": f"await sleep({n % 3}); return {n}"}),
    ("compute", lambda n: {"source": f"emit('{n}')"}),
    ("run_program", lambda n: {"runtime": "perl", "code": f"print {n}", "outputMode": "summary"}),
)


def call(number: int) -> dict[str, Any]:
    """Return the request of a number."""
    name, arguments = CALLS[number % len(CALLS)]
    return {"name": name, "arguments": arguments(number)}


def peak_bytes(pid: int) -> int:
    """Return the most memory that a process has held (proc(5), VmHWM)."""
    found = re.search(r"VmHWM:\s+([0-9]+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return int(found[1]) * 1024


def wrong(number: int, answer: dict[str, Any]) -> str:
    """Return what is wrong with an answer: none is refused, however many come at once."""
    text = answer["result"]["content"][0]["text"] if "result" in answer else str(answer)
    if "result" in answer and not answer["result"].get("isError"):
        return "" if str(number) in text.splitlines() else text
    return text or str(answer)


def displaced(order: list[int]) -> int:
    """Return by how many of its kind the unluckiest request was overtaken, or overtook."""
    most = 0
    for kind in range(len(CALLS)):
        ended = [number for number in order if number % len(CALLS) == kind]
        most = max([most, *(abs(place - sorted(ended).index(number)) for place, number in enumerate(ended))])
    return most


def test_one_client_with_many_requests_over_stdio(place: Place) -> None:
    async def main() -> None:
        async with place.lines() as lines:
            for number in range(len(CALLS)):  # everything is loaded and running
                await lines.ask("tools/call", call(number))
            before, ids = peak_bytes(lines.process.pid), {}
            for number in range(REQUESTS):
                ids[lines.send("tools/call", call(number))] = number
            answers: dict[int, dict[str, Any]] = {}
            while len(answers) < REQUESTS:
                message = await lines.receive()
                if "method" not in message:
                    assert message["id"] not in answers
                    answers[message["id"]] = message
            faults = {
                ids[each]: text for each, answer in answers.items() if (text := wrong(ids[each], answer))
            }
            assert faults == {}
            assert displaced([ids[each] for each in answers]) <= LATE
            assert peak_bytes(lines.process.pid) - before < 48 * 2**20 + REQUESTS * 64 * 2**10

    asyncio.run(main())


def test_many_clients_over_http(place: Place) -> None:
    async def main() -> None:
        limits = httpx2.Limits(max_connections=32)
        async with (
            place.web() as web,
            httpx2.AsyncClient(headers=AUTHORIZED, timeout=600, limits=limits) as http,
        ):

            async def ask(number: int) -> str:
                headers = {
                    "Accept": "application/json, text/event-stream",
                    "MCP-Protocol-Version": "2026-07-28",
                }
                headers |= {"Mcp-Method": "tools/call", "Mcp-Name": call(number)["name"]}
                body = {"jsonrpc": "2.0", "id": number, "method": "tools/call"}
                body["params"] = {**call(number), "_meta": MODERN}
                response = await http.post(web.url, json=body, headers=headers)
                data = re.findall(r"^(?:data: )?(\{.*\})$", response.text, re.MULTILINE)
                return (
                    wrong(number, json.loads(data[-1])) if data else f"{response.status_code} {response.text}"
                )

            faults = await asyncio.gather(*map(ask, range(REQUESTS)))
            assert [text for text in faults if text] == []

    asyncio.run(main())
