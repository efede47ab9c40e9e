"""Spans of requests, at a collector that listens; nothing in them is anybody's data."""

import asyncio
import os
import subprocess
import sys
from typing import Any

import pytest
from tests.support.command import PADDOCK, Ended, run_command
from tests.support.mcp_server import ERAS, Place
from tests.support.processes import PATIENCE_S
from tests.support.servers import make_entry

from paddock.model.texts import install_command

from .collector import Collector, attributes, collecting

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
SECRET = "payload-7391"
CALLS = f"""
await servers.odd.echo({{text: "{SECRET}"}})
await servers.even.pid()
await servers.odd["{SECRET}"]().catch(() => 0)
await servers["{SECRET}"].call("{SECRET}", {{}}).catch(() => 0)
throw new Error("{SECRET}")
"""


def telemetry(url: str) -> str:
    return f'[telemetry]\ntraces = "otlp"\nendpoint = "{url}"\n'


PATIENT = (
    "from paddock.record.telemetry import traces; traces.FLUSH_S = 300;"
    "from paddock.surfaces.cli import main; main()"
)
"""Starts a command that exports its last spans, however long that takes."""


def run(place: Place, program: str, *command: str, **environment: str) -> Ended:
    """Run a program with `command`, by default the installed one."""
    (place.workspace / "program.js").write_text(program)
    where = {**place.environment, **environment}
    return run_command(place.workspace, *(command or (PADDOCK,)), "run", "./program.js", environment=where)


def test_a_program_and_its_calls_are_spans_without_any_data(place: Place) -> None:
    with collecting() as collector:
        place.settings(telemetry(collector.url))
        done = run(place, CALLS, sys.executable, "-c", PATIENT)
        assert (done.returncode, SECRET in done.stderr) == (1, True)
    spans = collector.spans
    assert sorted(span.name for span in spans) == [
        "guest",
        "server",
        "server even pid",
        "server odd",
        "server odd echo",
    ]
    root = collector.named()["guest"]
    assert {span.trace_id for span in spans} == {root.trace_id}
    assert {span.parent_span_id for span in spans if span is not root} == {root.span_id}
    assert root.parent_span_id == b""
    told = attributes(root)
    assert (told["paddock.status"], told["paddock.surface"], told["paddock.calls"]) == ("failed", "cli", 4)
    assert told["paddock.cpu_ms"] > 0
    echo = attributes(collector.named()["server odd echo"])
    assert {name: echo[f"paddock.{name}"] for name in ("status", "server", "tool", "kind", "surface")} == {
        "status": "ok",
        "server": "odd",
        "tool": "echo",
        "kind": "server",
        "surface": "guest",
    }
    places = (SECRET, str(place.workspace), str(place.home), "program.js", "echo({")
    assert [text for text in places if text.encode() in collector.bytes] == []


def test_the_wait_for_an_answer_is_a_span_beside_that_of_the_request(place: Place) -> None:
    rule = '[[policy.rule]]\neffect = "ask"\nserver = "odd"\nreason = "why not"\n'
    with collecting() as collector:
        place.settings(telemetry(collector.url) + rule)
        program = f'await servers.odd.echo({{text: "{SECRET}"}}).catch(() => 0)'
        done = run(place, program, sys.executable, "-c", PATIENT)
        assert (done.returncode, done.stderr) == (0, "")
    root, waited, call = (collector.named()[name] for name in ("guest", "approval", "server odd echo"))
    assert {span.parent_span_id for span in (waited, call)} == {root.span_id}
    told, of_call = attributes(waited), attributes(call)
    assert told.pop("paddock.ms") * 1e6 == pytest.approx(
        waited.end_time_unix_nano - waited.start_time_unix_nano, rel=1e-3
    )
    assert told == {"paddock.request": of_call["paddock.request"], "paddock.answer": "unasked"}
    assert of_call["paddock.status"] == "denied"
    assert SECRET.encode() not in collector.bytes


@pytest.mark.parametrize("mode", ERAS)
def test_the_trace_of_a_client_goes_on_in_its_servers(place: Place, mode: str) -> None:
    place.servers({"context": make_entry("context")})

    async def main(collector: Collector) -> Any:
        async with place.client(mode=mode) as client:
            arguments = {"code": "return await servers.context.context()"}
            meta = {"traceparent": f"00-{TRACE}-{SPAN}-01", "tracestate": "vendor=1"}
            result = await client.call_tool("execute_code", arguments, meta=meta)
            await asyncio.to_thread(collector.wait_for, 2)
            return result

    with collecting() as collector:
        place.settings(telemetry(collector.url))
        result = asyncio.run(main(collector))
    told = result.structured_content["value"]
    root, call = collector.named()["guest"], collector.named()["server context context"]
    assert (root.trace_id.hex(), root.parent_span_id.hex()) == (TRACE, SPAN)
    assert (call.trace_id.hex(), call.parent_span_id) == (TRACE, root.span_id)
    assert told["traceparent"] == f"00-{TRACE}-{call.span_id.hex()}-01"
    assert told["tracestate"] == "vendor=1"


def test_what_a_client_does_not_sample_is_not_sent(place: Place) -> None:
    async def main(collector: Collector) -> None:
        async with place.client() as client:
            meta = {"traceparent": f"00-{TRACE}-{SPAN}-00"}
            await client.call_tool("execute_code", {"code": "1"}, meta=meta)
            await client.call_tool("execute_code", {"code": "1"}, meta={"traceparent": "00-zz"})
            await asyncio.to_thread(collector.wait_for, 1)

    with collecting() as collector:
        place.settings(telemetry(collector.url))
        asyncio.run(main(collector))
    assert [span.parent_span_id for span in collector.spans] == [b""]


def test_a_collector_that_is_not_there_fails_nothing_and_that_is_told(place: Place, unused_port: int) -> None:
    place.settings(telemetry(f"http://127.0.0.1:{unused_port}"))
    done = run(place, "console.log('ran')")
    told = (
        "the last spans were not exported within 2 s, so they are lost\n",
        "1 spans were not exported and are lost; later losses are not logged\n",
    )
    assert (done.returncode, done.stdout) == (0, "ran\n")
    assert done.stderr in told


def test_a_collector_that_never_answers_holds_no_command(place: Place) -> None:
    with collecting(holds=True) as collector:
        place.settings(telemetry(collector.url))
        done = run(place, "console.log('ran')", OTEL_EXPORTER_OTLP_TIMEOUT="3600")
        assert (done.returncode, done.stdout, collector.spans) == (0, "ran\n", [])
        assert collector.asked.wait(PATIENCE_S)


def test_spans_on_standard_error_are_lines_of_json(place: Place) -> None:
    place.settings('[telemetry]\ntraces = "console"\n')
    done = run(place, "console.log('ran')")
    assert (done.returncode, done.stdout, done.stderr.count('"name": "guest"')) == (0, "ran\n", 1)
    assert len(done.stderr.splitlines()) == 1


def test_without_its_packages_the_error_says_what_to_install(place: Place) -> None:
    place.settings('[telemetry]\ntraces = "otlp"\n')
    code = (
        "import sys; sys.modules['opentelemetry.sdk'] = None; from paddock.surfaces.cli import main; main()"
    )
    (place.workspace / "program.js").write_text("console.log('ran')")
    done = subprocess.run(
        [sys.executable, "-c", code, "run", "./program.js"],
        cwd=place.workspace,
        env=place.environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (
        1,
        "",
        "[telemetry] is configured, but the package opentelemetry, which it needs, is not installed. Run: "
        f"{install_command('telemetry')}\n",
    )


def test_a_workspace_sends_nothing_anywhere(place: Place) -> None:
    (place.workspace / "paddock.toml").write_text('[telemetry]\nendpoint = "http://127.0.0.1:1"\n')
    done = run(place, "console.log('ran')")
    assert (done.returncode, done.stdout) == (1, "")
    assert "a workspace may not set telemetry.endpoint" in done.stderr


def test_where_nothing_is_configured_nothing_of_it_is_loaded(place: Place) -> None:
    (place.workspace / "program.js").write_text("await servers.odd.echo({text: 'x'})")
    code = (
        "import atexit, json, sys; atexit.register(lambda: json.dump(sorted(sys.modules), sys.stderr));"
        "from paddock.surfaces.cli import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "run", "./program.js"],
        cwd=place.workspace,
        env={**os.environ, **place.environment},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=True,
    )
    kinds = (
        "opentelemetry.sdk",
        "opentelemetry.exporter",
        "prometheus_client",
        "paddock.record.telemetry",
        "requests",
    )
    assert [name for name in kinds if f'"{name}"' in done.stderr] == []
    assert '"mcp"' in done.stderr
