"""`sdl.runtime.execute` and `sdl.runtime.queryOutput`: programs as seed 004 spells them."""

import asyncio
import json
from typing import Any

from tests.support.mcp_server import Place

HELLO = {"repoId": "ws", "runtime": "perl", "code": "print qq(one\\ntwo\\nthree)"}


def in_seed(place: Place, *calls: tuple[str, dict[str, Any]], native: bool = False) -> list[Any]:
    async def main() -> list[Any]:
        flags = () if native else ("--tool-names", "compat")
        async with place.client(*flags) as client:
            return [await client.call_tool(name, arguments) for name, arguments in calls]

    return asyncio.run(main())


def text(result: Any) -> str:
    [block] = result.content
    return block.text


def stored(result: Any) -> tuple[str, dict[str, Any]]:
    """Return the handle of a response, and the response without what differs from run to run."""
    response = json.loads(text(result))
    assert response == result.structured_content
    for name in ("durationMs", "usage", "sandbox"):
        del response[name]
    assert len(response["policyDecision"].pop("auditHash")) == 64
    return response.pop("artifactHandle"), response


def test_a_program_and_its_stored_output(place: Place) -> None:
    async def main() -> None:
        async with place.client("--tool-names", "compat") as client:
            done = await client.call_tool("sdl.runtime.execute", HELLO)
            handle, response = stored(done)
            assert (handle.startswith("runtime-ws-"), done.is_error) == (True, False)
            assert response == {
                "status": "success",
                "exitCode": 0,
                "signal": None,
                "truncation": {
                    "stdoutTruncated": False,
                    "stderrTruncated": False,
                    "totalStdoutBytes": 13,
                    "totalStderrBytes": 0,
                },
                "policyDecision": {},
                "outputLines": 3,
                "outputBytes": 13,
                "stdoutSummary": "",
                "stderrSummary": "",
            }
            asked = {"repoId": "ws", "artifactHandle": handle, "queryTerms": ["TWO"], "contextLines": 0}
            found = await client.call_tool("sdl.runtime.queryOutput", asked)
            assert json.loads(text(found)) == {
                "artifactHandle": handle,
                "excerpts": [{"lineStart": 2, "lineEnd": 2, "content": "two", "source": "stdout"}],
                "totalLines": 3,
                "totalBytes": 13,
                "searchedStreams": ["stdout"],
                "matchStatus": "matched",
                "matchCount": 1,
            }
            native = await client.call_tool("query_output", {"artifactHandle": handle, "queryTerms": ["two"]})
            assert native.structured_content["matchCount"] == 1

    asyncio.run(main())


def test_s15_an_unknown_repository(place: Place) -> None:
    place.settings("[runtimes]\nallowed = []\n")
    results = in_seed(
        place,
        ("sdl.runtime.execute", {**HELLO, "repoId": "x"}),
        ("sdl.runtime.queryOutput", {"repoId": "x", "artifactHandle": "h", "queryTerms": ["a"]}),
    )
    assert [(text(each), each.is_error) for each in results] == [("Repository x not found", True)] * 2


def test_s1_s13_s14_denials_are_responses_and_mistakes_are_errors(place: Place) -> None:
    place.settings("[runtimes]\nenabled = false\n")
    denied, short, many, nothing, traversal = in_seed(
        place,
        ("sdl.runtime.execute", HELLO),
        ("sdl.runtime.execute", {**HELLO, "timeoutMs": 99}),
        ("sdl.runtime.execute", {**HELLO, "queryTerms": ["a"] * 11}),
        ("sdl.runtime.queryOutput", {"artifactHandle": "runtime-ws-1-0123456789abcdef"}),
        ("sdl.runtime.queryOutput", {"artifactHandle": "../etc", "queryTerms": ["a"]}),
    )
    response = json.loads(text(denied))
    assert (response["status"], response["exitCode"], denied.is_error) == ("denied", None, False)
    assert "disabled" in response["policyDecision"]["deniedReasons"][0]
    assert [each.is_error for each in (short, many, nothing, traversal)] == [True] * 4
    assert "timeoutMs" in text(short)
    assert "queryTerms" in text(many)
    assert text(nothing).endswith("queryTerms are required unless cursor or lineRange is provided")
    assert text(traversal) == "Invalid artifact handle: path traversal detected"


def test_s16_a_program_without_a_place_is_denied_in_the_words_of_the_seed(place: Place) -> None:
    place.settings("[runtimes]\nmax_jobs = 1\nmax_waiting = 0\n")
    first = {"repoId": "ws", "runtime": "perl", "code": '$| = 1; print "go\n"; sleep 3600'}

    async def main() -> tuple[Any, Any]:
        running = asyncio.Event()

        async def listen(*_: object) -> None:
            running.set()

        async with place.client() as client:
            asked = client.call_tool("sdl.runtime.execute", first, progress_callback=listen)
            task = asyncio.create_task(asked)
            await running.wait()
            compat = await client.call_tool("sdl.runtime.execute", HELLO)
            native = await client.call_tool("run_program", {"runtime": "perl", "code": "1"})
            task.cancel()
            await asyncio.wait({task})
            return compat, native

    compat, native = asyncio.run(main())
    _, response = stored(compat)
    assert (response["status"], response["exitCode"], compat.is_error) == ("denied", None, False)
    assert response["policyDecision"] == {"deniedReasons": ["Concurrency limit reached (1/1 active jobs)"]}
    assert "error" not in response
    assert (native.structured_content["status"], native.structured_content["exitCode"]) == (
        "unavailable",
        None,
    )
    assert native.structured_content["error"] == {
        "name": "Busy",
        "message": "Concurrency limit reached (1/1 active jobs): the queue is full (runtimes.max_waiting = 0). "
        "Nothing started; it is safe to retry.",
        "hint": "raise runtimes.max_waiting or runtimes.max_jobs",
    }
    assert native.is_error


def test_the_spelling_is_understood_beside_the_native_names(place: Place) -> None:
    [done] = in_seed(place, ("sdl.runtime.execute", {**HELLO, "outputMode": "summary"}), native=True)
    assert json.loads(text(done))["stdoutSummary"] == "one\ntwo\nthree"


def test_s26_a_runtime_that_is_not_there_is_a_failure_with_a_remedy(place: Place) -> None:
    place.environment["PATH"] = str(place.workspace)
    calls = (
        ("sdl.runtime.execute", {**HELLO, "runtime": "ruby"}),
        ("run_program", {"runtime": "ruby", "code": "1"}),
    )
    compat, native = in_seed(place, *calls, native=True)
    error = {
        "name": "Unavailable",
        "message": "Ruby cannot be run here: ruby is not on PATH",
        "hint": "paddock runtimes install ruby",
    }
    _, response = stored(compat)
    assert (response["status"], response["exitCode"], response["error"]) == ("failure", 1, error)
    found = native.structured_content
    assert (found["status"], found["exitCode"], found["error"]) == ("unavailable", None, error)
    assert (text(native).split()[0], native.is_error) == ("unavailable", True)
