"""The same text leaves every outlet in the same form, live and stored, and each outlet counts what was removed."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from paddock import BlockingPaddock as Paddock
from paddock.model.artifact import LineRange, OutputQuery, RunFacts
from paddock.policy.redaction.outgoing import Removal
from paddock.policy.redaction.scanner import Scanner
from paddock.policy.settings.schema import (
    ArtifactSettings,
    AuditSettings,
    LimitSettings,
    RedactionSettings,
    Settings,
)
from paddock.record.output.artifacts import Artifacts
from paddock.record.output.query import OpenArtifact, read_bytes

BODY = "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8S9t0"
TEXTS = {
    "key": f"use ghp_{BODY[:36]}, please",
    "password": "PASSWORD=hunter2secret and more",
    "json": '{"api_key": "' + BODY + '"}',
    "address": "https://ada:hunter2secret@example.com/",
    "pem": f"-----BEGIN PRIVATE KEY-----\n{BODY}\n{BODY[:20]}\n-----END PRIVATE KEY-----",
    "log": f"07:01 -----BEGIN PRIVATE KEY-----\n07:02 {BODY}\n07:03 {BODY[:20]}\n07:04 -----END PRIVATE KEY-----",
    "quoted": f"> -----BEGIN PRIVATE KEY-----\n> MIIEvQIB\n> {BODY}\n> -----END PRIVATE KEY-----",
    "written": '{"key": "-----BEGIN PRIVATE KEY-----\\n# MIIEvQIB\\n# '
    + BODY
    + '\\n-----END PRIVATE KEY-----"}',
    "coloured": f"ghp_\x1b[31m{BODY[:36]}\x1b[0m",
    "list": '{"password": [["hunter2secret"], "hunter2secret"]}',
    "two lines": f"glpat-{BODY[:20]}\r\nhf_{BODY[:34]}",
    "source": 'password: str = request.form["password"]; api_key = None  # token',
    "error": "path/secret: No such file or directory",
}
ALL = "\n".join(TEXTS.values())
SECRETS = (BODY[:20], "hunter2secret", "MIIEvQIB")


def redact(value: Any) -> tuple[Any, int]:
    removal = Removal(Scanner(RedactionSettings()))
    return removal.json(value), removal.count


EXPECTED, COUNT = redact(ALL)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("outlets")
    workspace = root / "ws"
    folder = workspace / ".paddock" / "tools" / "say"
    folder.mkdir(parents=True)
    (folder / "tool.yaml").write_text("id: say\nname: Say\nscript: run.sh\n")
    (folder / "description.md").write_text("Says it.\n")
    (folder / "schema.json").write_text('{"type": "object"}')
    (folder / "run.sh").write_text("cat\n")
    (workspace / "all.txt").write_bytes(ALL.encode())
    scripts = workspace / ".paddock" / "scripts"
    scripts.mkdir()
    (scripts / "say.js").write_text("return await paddock.sequence.run('say')")
    sequences = workspace / ".paddock" / "sequences"
    sequences.mkdir()
    (scripts / "back.js").write_text("return input")
    step = f"[[step]]\nname = 'one'\nscript = 'back'\ninput = {json.dumps(ALL)}\n"
    (sequences / "say.toml").write_text(step)
    return root


@pytest.fixture(scope="module")
def opened(place: Path) -> Iterator[Paddock]:
    given = Settings(
        audit=AuditSettings(directory=place / "audit"),
        artifacts=ArtifactSettings(directory=place / "artifacts"),
    )
    with Paddock(place / "ws", settings=given) as one:
        yield one


def test_the_texts_are_what_they_seem() -> None:
    assert [secret for secret in SECRETS if secret in EXPECTED] == []
    assert COUNT == 14
    assert (redact(TEXTS["source"]), redact(TEXTS["error"])) == ((TEXTS["source"], 0), (TEXTS["error"], 0))


def test_the_value_of_a_program(opened: Paddock) -> None:
    outcome = opened.execute("return input", input=ALL)
    assert (outcome.value, outcome.redactions) == (EXPECTED, COUNT)
    outcome = opened.execute("return [{deep: input}]", input=TEXTS)
    assert (outcome.value, outcome.redactions) == ([{"deep": redact(TEXTS)[0]}], redact(TEXTS)[1])


def test_the_console_of_a_program_live_and_kept(opened: Paddock) -> None:
    heard: list[str] = []
    outcome = opened.execute("console.log(input)", input=ALL, on_console=lambda line: heard.append(line.text))
    assert [line.text for line in outcome.console] == heard == [EXPECTED]
    assert outcome.redactions == COUNT


def test_the_error_of_a_program(opened: Paddock) -> None:
    outcome = opened.execute("throw new Error(input)", input=ALL)
    assert outcome.error is not None
    assert (outcome.error.message, outcome.redactions) == (EXPECTED, COUNT)


def test_a_computation(opened: Paddock) -> None:
    outcome = opened.compute("emit(read_input())", ALL)
    assert (outcome.value, outcome.redactions) == (EXPECTED, COUNT)


def test_the_output_of_a_program_live_kept_and_stored(opened: Paddock, place: Path) -> None:
    live: list[bytes] = []
    outcome = opened.exec("shell", "cat", stdin=ALL, on_output=lambda _stream, data: live.append(data))
    assert outcome.program is not None
    assert outcome.program.artifact is not None
    assert b"".join(live).decode() == outcome.program.stdout.head == EXPECTED
    assert outcome.redactions == COUNT
    artifacts = Artifacts(ArtifactSettings(directory=place / "artifacts"), Scanner(RedactionSettings()))
    reading = OpenArtifact(artifacts, outcome.program.artifact, None)
    assert read_bytes(reading, "stdout", 0, 10_000).decode() == EXPECTED
    lines = LineRange(stream="stdout", start_line=1, end_line=100)
    asked = OutputQuery(artifact_handle=outcome.program.artifact, line_range=lines)
    assert [each.content for each in opened.query(asked).excerpts] == [EXPECTED.replace("\r\n", "\n")]


def test_a_result_that_is_stored(opened: Paddock, place: Path) -> None:
    given = opened.settings.model_copy(
        update={"limits": LimitSettings.model_validate({"execute": {"result_bytes": 50}})}
    )
    with Paddock(place / "ws", settings=given) as small:
        outcome = small.execute("return input", input=ALL)
    assert outcome.artifact is not None
    artifacts = Artifacts(ArtifactSettings(directory=place / "artifacts"), Scanner(RedactionSettings()))
    stored = read_bytes(OpenArtifact(artifacts, outcome.artifact, None), "stdout", 0, 10_000).decode()
    assert (stored, outcome.redactions) == (EXPECTED, COUNT)


def test_a_script_tool(opened: Paddock) -> None:
    outcome = opened.tool("say", {"texts": TEXTS})
    assert outcome.value == {"texts": redact(TEXTS)[0]}
    assert outcome.redactions > 0
    assert [secret for secret in SECRETS if secret in outcome.model_dump_json()] == []


def test_a_step_of_a_sequence(opened: Paddock) -> None:
    outcome = opened.run("say")
    assert outcome.value["steps"][0]["value"] == EXPECTED
    assert outcome.redactions > 0


def test_the_record(opened: Paddock) -> None:
    name = f"ghp_{BODY[:36]}"
    outcome = opened.call("nowhere", name, {"a": 1})
    assert outcome.error is not None
    assert name not in outcome.model_dump_json()
    records = [record.fields for record in opened.find_records(outcome.id)]
    assert {record["name"] for record in records} == {"nowhere/[REDACTED:github-token]"}
    counted = opened.execute("return input", input=ALL)
    records = [record.fields for record in opened.find_records(counted.id)]
    assert [record.get("redactions") for record in records] == [COUNT, None]


def _command(place: Path, *arguments: str, stdin: str) -> str:
    environment = {"PATH": os.environ["PATH"], "HOME": str(place), "LANG": "C.UTF-8"}
    done = subprocess.run(
        [str(Path(sys.executable).with_name("paddock")), *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        check=True,
        cwd=place / "ws",
        env=environment,
    )
    return done.stdout


@pytest.mark.parametrize("as_json", [True, False])
def test_the_command_line(place: Path, *, as_json: bool) -> None:
    flags = ["--json"] if as_json else []
    ran = _command(place, "run", "-", *flags, stdin=f"return {json.dumps(ALL)}")
    executed = _command(place, "exec", *flags, "shell", "-c", "cat all.txt", stdin="")
    if as_json:
        assert (json.loads(ran)["value"], json.loads(ran)["redactions"]) == (EXPECTED, COUNT)
        assert json.loads(executed)["redactions"] == COUNT
    else:
        assert ran == EXPECTED.replace("\r\n", "\n") + "\n"
        assert executed == EXPECTED.replace("\r\n", "\n")


def _served(place: Path, use: Callable[[Client], Any], *flags: str) -> Any:
    async def main() -> Any:
        server = StdioServerParameters(
            command=str(Path(sys.executable).with_name("paddock")),
            args=["serve", "mcp", *flags],
            cwd=place / "ws",
            env={"PATH": os.environ["PATH"], "HOME": str(place), "LANG": "C.UTF-8"},
        )
        async with Client(stdio_client(server)) as client:
            return await use(client)

    return asyncio.run(main())


def test_answers_over_mcp_as_text_and_as_data(place: Path) -> None:
    async def use(client: Client) -> None:
        result = await client.call_tool("execute_code", {"code": "return input", "input": ALL})
        assert (result.structured_content["value"], result.structured_content["redactions"]) == (
            EXPECTED,
            COUNT,
        )
        assert result.content[0].text.partition("\n")[2] == EXPECTED
        result = await client.call_tool("execute_code", {"code": "return input", "input": TEXTS})
        assert result.structured_content["value"] == redact(TEXTS)[0]
        result = await client.call_tool("run_program", {"runtime": "shell", "code": "cat", "stdin": ALL})
        assert result.structured_content["redactions"] == COUNT
        assert [secret for secret in SECRETS if secret in str(result)] == []
        handle = result.structured_content["artifactHandle"]
        asked = {"artifactHandle": handle, "lineRange": {"stream": "stdout", "startLine": 1, "endLine": 100}}
        found = await client.call_tool("query_output", asked)
        lines = EXPECTED.replace("\r\n", "\n")
        assert found.structured_content["excerpts"][0]["content"] == lines
        assert lines in found.content[0].text
        read = await client.read_resource(f"paddock://artifacts/{handle}/stdout")
        assert read.contents[0].text == EXPECTED

    _served(place, use)


def test_x36_s43_the_names_of_others_keep_their_marks(place: Path) -> None:
    async def use(client: Client) -> None:
        key = f"ghp_{BODY[:36]}"
        code = f"return {{key: '{key}', password: 'x'}}"
        result = await client.call_tool("mcp_execute", {"code": code})
        assert json.loads(result.content[0].text) == {"key": "[REDACTED:KEY]", "password": "[REDACTED:VALUE]"}
        asked = {
            "repoId": "ws",
            "runtime": "shell",
            "code": f"echo password=x {key}",
            "outputMode": "summary",
        }
        result = await client.call_tool("sdl.runtime.execute", asked)
        assert "[REDACTED:secret] [REDACTED:github-token]" in result.content[0].text

    _served(place, use, "--tool-names", "compat")


FACTS = RunFacts(
    workspace="/ws", runtime="shell", request="r", status="ok", duration_ms=1.0, policy_audit_hash=""
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(places=st.lists(st.integers(0, len(ALL.encode())), max_size=12))
def test_pieces_of_output_live_kept_and_stored(tmp_path: Path, places: list[int]) -> None:
    artifacts = Artifacts(ArtifactSettings(directory=tmp_path), Scanner(RedactionSettings()))
    live: list[bytes] = []
    recording = artifacts.record(on_output=lambda _stream, data: live.append(data))
    data = ALL.encode()
    for start, end in pairwise([0, *sorted(places), len(data)]):
        if start < end:
            recording.stdout(data[start:end])
    handle = asyncio.run(recording.finish(FACTS))
    assert handle is not None
    stored = read_bytes(OpenArtifact(artifacts, handle, None), "stdout", 0, 10_000)
    assert b"".join(live).decode() == recording.make_captured("stdout").head == stored.decode() == EXPECTED
    assert recording.redactions == COUNT
