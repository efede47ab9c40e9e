"""The same program gets the same outcomes on this machine and from a server."""

import asyncio
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.http_api import TOKEN, ApiPlace, ApiServer

from paddock import BlockingPaddock, ConsoleLine, Outcome, OutcomeError, Paddock, PaddockError, RequestError

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
_VARYING = re.compile(r"runtime-ws-\d+-[0-9a-f]{16}|s_[0-9a-f]{48}")


def describe(outcome: Outcome) -> dict[str, Any]:
    """Return everything of an outcome that does not differ from one run to the next."""
    value = outcome.model_dump(mode="json", exclude={"id", "audit", "usage"})
    value["decision"].pop("audit_hash")
    if value["session"]:
        value["session"].pop("expires_in_s")
    for call in value["calls"]:
        call.pop("ms")
    return _without_handles(value)


def _without_handles(value: Any) -> Any:
    match value:
        case str():
            return _VARYING.sub("HANDLE", value)
        case list():
            return [_without_handles(each) for each in value]
        case dict():
            return {key: _without_handles(each) for key, each in value.items()}
        case _:
            return value


async def converse(p: Paddock) -> list[Any]:
    """Use every method that both have, and return what came of it."""
    seen: list[Any] = []
    lines: list[Any] = []
    code = "console.log('a'); console.warn('b'); return servers.odd.echo({text: input.text})"
    seen.append(describe(await p.execute(code, input={"text": "hi"}, on_console=lines.append)))
    seen.append(lines)
    seen.append(describe(await p.execute("throw new TypeError('no')")))
    seen.append(describe(await p.execute("while (true) {}", timeout_ms=200)))
    seen.append(describe(await p.execute("return servers.odd.echo({text: 'x'})", mode="dry_run")))
    seen.append(describe(await p.compute("emit(read_input().toUpperCase())", "abc", timeout_ms=60_000)))
    seen.append(describe(await p.call("odd", "echo", {"text": "hello"})))
    seen.append(describe(await p.call("odd", "no_such_tool")))
    output: list[tuple[str, bytes]] = []
    outcome = await p.exec(
        "python",
        "import sys; print(sys.stdin.read(), sys.argv[1:], open('in.bin', 'rb').read());"
        f"import base64; open('plot.png', 'wb').write(base64.b64decode('{PNG}')); open('b.csv', 'w').write('1,2')",
        args=["a b", "c"],
        stdin="text",
        files={"in.bin": b"\x00\xff"},
        outputs=["*.png"],
        on_output=lambda stream, data: output.append((stream, data)),
    )
    seen += [describe(outcome), outcome.text, b"".join(data for _, data in output)]
    seen += [[await asyncio.to_thread(file.read) for file in outcome.files if file.handle]]
    seen.append(describe(await p.exec("python", "raise SystemExit(3)", keep=False)))
    seen.append(describe(await p.exec("python", "print(1)", env={"NOT_GRANTED": "x"})))
    events = [event async for event in p.events("console.log('one'); return 2")]
    seen.append([describe(e) if isinstance(e, Outcome) else e for e in events])
    assert isinstance(events[0], ConsoleLine)
    seen += await use_session(p)
    for call in FAULTS:
        seen.append(await describe_fault(p, call))
    return seen


async def use_session(p: Paddock) -> list[Any]:
    seen: list[Any] = []
    async with p.session("python", files={"a.txt": "hello"}) as s:
        seen.append(describe(await s.run("x = open('a.txt').read(); x")))
        seen.append(describe(await s.run("1 / 0")))
        await s.files.write("dir/ü ?#%.bin", b"\x00\x01")
        seen.append([(file.path, file.size, file.sha256) for file in await s.files.list()])
        seen.append([await asyncio.to_thread(file.read) for file in await s.files.list()])
        seen.append(await s.files.read("dir/ü ?#%.bin"))
        await s.files.remove("a.txt")
        seen.append(await describe_fault(p, lambda _: s.files.read("a.txt")))
        seen.append(await describe_fault(p, lambda _: s.files.remove("a.txt")))
        again = await p.session(id=s.id)
        seen.append(describe(await again.run("x + '!'")))
        seen.append(describe(await s.run("while True: pass", timeout_ms=300)))
        seen.append([(info.language, info.executions, info.running) for info in await p.sessions()])
        handle = s.id
    await s.close()
    await s.interrupt()
    seen.append(describe(await s.run("x")))
    seen.append(await describe_fault(p, lambda p: p.session(id=handle)))
    seen.append(describe(await p.execute("var y = 1", session="new")))
    return seen


FAULTS: list[Callable[[Paddock], Any]] = [
    lambda p: p.exec("klingon", "x"),
    lambda p: p.exec("python", "x", memory_bytes=-1),
    lambda p: p.exec("python", files={"../x": b""}, code="1"),
    lambda p: p.exec("python"),
    lambda p: p.exec("python", "1", timeout_ms=10**9),
    lambda p: p.execute("return 1", input={1, 2}),  # type: ignore[arg-type]
    lambda p: p.session(id="s_" + "0" * 32),
]


async def describe_fault(p: Paddock, call: Callable[[Paddock], Any]) -> tuple[str, bool]:
    """Return the kind of error, and whether it is one of the request."""
    with pytest.raises((PaddockError, OSError)) as raised:
        await call(p)
    return type(raised.value).__name__, isinstance(raised.value, RequestError)


def test_the_same_conversation_has_the_same_outcomes_here_and_there(place: ApiPlace) -> None:
    async def run(p: Paddock) -> list[Any]:
        async with p:
            return await converse(p)

    with place.serve() as server:
        remote = asyncio.run(run(Paddock.connect(server.url, token=TOKEN)))
    local = asyncio.run(run(Paddock(place.workspace, overrides={"servers.semantic_search": "off"})))
    for number, (here, there) in enumerate(zip(local, remote, strict=True)):
        assert (number, there) == (number, here)


def test_the_blocking_twin_has_the_same_methods(server: ApiServer) -> None:
    with BlockingPaddock.connect(server.url, token=TOKEN) as p:
        assert p.execute("return input + 1", input=41).value == 42
        assert next(getattr(e, "text", "") for e in p.events("console.log('x'); return 1")) == "x"
        outcome = p.exec("python", "open('o.csv', 'w').write('1,2')", outputs=["*.csv"])
        with p.session("python") as s:
            assert s.run("x = 20; x + 1").text == "21\n"
            s.files.write("a.txt", "text")
            assert [(file.path, file.read()) for file in s.files.list()] == [("a.txt", b"text")]
            assert [info.id for info in p.sessions() if info.id == s.id] == [s.id]
        assert p.tool.__doc__ is not None
        with pytest.raises(RequestError, match="Tool not found: nope"):
            p.tool("nope")
    [file] = outcome.files
    assert file.read() == b"1,2"  # also after the end


def test_a_script_tool_runs_on_the_server(place: ApiPlace) -> None:
    folder = place.workspace / ".paddock/tools/greet"
    folder.mkdir(parents=True)
    (folder / "tool.yaml").write_text("id: greet\nname: Greet\nscript: run.sh\n")
    (folder / "run.sh").write_text("echo hello\n")
    with place.serve() as server, BlockingPaddock.connect(server.url, token=TOKEN) as p:
        outcome = p.tool("greet", {})
    assert outcome.tool is not None
    assert (outcome.tool.output, outcome.tool.stdout) == ({"output": "hello"}, "hello\n")


def test_what_the_api_lacks_says_so(server: ApiServer, tmp_path: Path) -> None:
    with BlockingPaddock.connect(server.url, token=TOKEN) as p:
        lacking: list[tuple[Callable[[], Any], str]] = [
            (lambda: p.run("x.js"), "saved scripts: send the text of a program with `execute`"),
            (lambda: p.search_tools("x"), "this method"),
            (p.find_records, "this method"),
            (lambda: p.prompt("x"), "this method"),
            (lambda: list(p.map([])), "this method"),
            (lambda: p.settings, "its settings"),
            (lambda: p.tool(len), "functions of this process as tools"),
        ]
        for call, what in lacking:
            with pytest.raises(PaddockError) as raised:
                call()
            text = f"The HTTP API does not offer {what}. It needs a `Paddock()` on the machine of the server."
            assert str(raised.value) == text
        with pytest.raises(RequestError, match="the HTTP API has no `file`"):
            p.exec("python", file=tmp_path / "x.py")
        assert p.warnings == ()


def test_a_refusal_of_policy_is_an_outcome(place: ApiPlace) -> None:
    place.settings("[runtimes]\nallowed = ['node']\n")
    with place.serve() as server, BlockingPaddock.connect(server.url, token=TOKEN) as p:
        assert p.exec("python", "1").status == "denied"
        with pytest.raises(OutcomeError, match="denied"), p.session("python"):
            pass
