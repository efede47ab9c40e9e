"""Programs over real servers, recorded and repeated without them."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.support.recordings import RecordingRunner, make_settings
from tests.support.servers import write_servers

RUNS = int(os.environ.get("PADDOCK_REPLAY_RUNS", "10"))
"""30 in the long form: each program with three inputs."""


class RecordedProgram(NamedTuple):
    """A program, and where it differs after a change of its text."""

    text: str
    old: str
    new: str
    difference: tuple[str, int | None, str]
    """Kind, number and place."""


PROGRAMS = [
    RecordedProgram(
        """
        const zone = ["Asia/Tokyo", "Europe/Oslo", "America/Lima"][input.n];
        const found = await servers.time.convert_time({ source_timezone: "UTC", time: "12:00", target_timezone: zone });
        console.log(found.time_difference);
        return found;
        """,
        '"12:00"', '"13:00"', ("call", 1, "servers.time.convert_time: arguments.time"),
    ),
    RecordedProgram(
        """
        const zones = ["Asia/Tokyo", "Europe/Oslo", "America/Lima", "Africa/Nairobi"].slice(input.n);
        const both = await Promise.all([
          ...zones.map((timezone) => servers.time.get_current_time({ timezone })),
          ...zones.map((message) => servers.everything.echo({ message })),
        ]);
        both.forEach((one, n) => console.log(n, one));
        return both.length;
        """,
        "console.log(n, one)", "console.log(n + (n === 1 ? 100 : 0), one)", ("console", 2, ""),
    ),
    RecordedProgram(
        """
        const order = [];
        const note = (what) => () => order.push(what);
        await Promise.all([
          servers.time.get_current_time({ timezone: "UTC" }).then(note("time")),
          servers.everything["get-sum"]({ a: input.n, b: 1 }).then(note("sum")),
          sleep(input.n * 20).then(note("sleep")),
          servers.memory.read_graph({}).then(note("graph")),
        ]);
        return { order, at: new Date().toISOString(), id: crypto.randomUUID(), random: Math.random() };
        """,
        "random: Math.random()", "random: 7", ("value", None, "value.random"),
    ),
    RecordedProgram(
        """
        const entities = [1, 2, 3].map((n) => ({ name: `e${input.n}${n}`, entityType: "test", observations: ["a", "b"] }));
        await servers.memory.create_entities({ entities });
        const { entities: found } = await servers.memory.search_nodes({ query: `e${input.n}` });
        console.table(found);
        return found.map((one) => one.name);
        """,
        'observations: ["a", "b"]', 'observations: ["a", "c"]',
        ("call", 1, "servers.memory.create_entities: arguments.entities[0].observations[1]"),
    ),
    RecordedProgram(
        """
        const path = `${input.folder}/${input.n}.txt`;
        await servers.filesystem.write_file({ path, content: `written at ${Date.now()}` });
        const { content } = await servers.filesystem.read_text_file({ path });
        return [content, (await servers.filesystem.list_directory({ path: input.folder })).content];
        """,
        "read_text_file({ path })", "read_text_file({ path, head: 1 })",
        ("call", 2, "servers.filesystem.read_text_file: arguments.head"),
    ),
    RecordedProgram(
        """
        const failures = [];
        for (const [server, tool] of [["everything", "nothing"], ["time", "get_current_time"], ["filesystem", "read_text_file"]]) {
          try { await servers[server][tool]({ path: "/etc/passwd", timezone: `x${input.n}` }); }
          catch (error) { failures.push(error.message); }
        }
        return failures;
        """,
        "return failures;", "return failures.reverse();", ("value", None, "value[0]"),
    ),
    RecordedProgram(
        """
        const names = Object.keys(servers).sort();
        const tools = names.map((name) => [name, Object.keys(servers[name]).length]);
        console.log(tools, "echo" in servers.everything);
        return tools[input.n];
        """,
        '"echo" in', '"gone" in', ("console", 1, ""),
    ),
    RecordedProgram(
        """
        const location = ["New York", "Chicago", "Los Angeles"][input.n];
        const weather = await servers.everything["get-structured-content"]({ location });
        const squared = await paddock.compute("emit(Number(read_input()) ** 2)", String(weather.temperature));
        return { weather, squared };
        """,
        '["get-structured-content"]({ location })', ".echo({ message: location })", ("call", 1, ""),
    ),
    RecordedProgram(
        """
        for (let n = 1; n <= 2 + input.n; n++) {
          const { thoughtHistoryLength } = await servers.thinking.sequentialthinking({
            thought: `step ${n}`, nextThoughtNeeded: true, thoughtNumber: n, totalThoughts: 5,
          });
          console.info(n, thoughtHistoryLength);
        }
        throw new Error(`after ${input.n}`);
        """,
        "throw new Error(`after ${input.n}`)", "throw new Error(`later ${input.n}`)", ("error", None, "error.message"),
    ),
    RecordedProgram(
        """
        const { content } = await servers.everything.callRaw("get-tiny-image", {});
        let ticks = 0;
        await new Promise((end) => { const timer = setInterval(() => { if (++ticks > input.n) { clearInterval(timer); end(); } }, 3); });
        return [content.map((one) => one.type), ticks, performance.now() > 0];
        """,
        "one.type", "one.mimeType", ("value", None, "value[0][0]"),
    ),
]  # fmt: skip


@pytest.fixture(scope="module")
def recorder(
    real_servers: Any, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[RecordingRunner, Path]]:
    """A session with the real servers that records programs, and a folder that its server of files may write."""
    workspace, folder = tmp_path_factory.mktemp("workspace"), tmp_path_factory.mktemp("files")
    commands = {name: getattr(real_servers, name) for name in ("everything", "memory", "thinking", "time")}
    commands["filesystem"] = (*real_servers.filesystem, str(folder))
    memory = {"MEMORY_FILE_PATH": str(folder.parent / "memory.json")}
    write_servers(
        workspace,
        {
            name: {"command": argv[0], "args": list(argv[1:]), "env": memory, "timeoutMs": 3_600_000}
            for name, argv in commands.items()
        },
    )
    with RecordingRunner(workspace) as runner:
        runner.start(make_settings(tmp_path_factory.mktemp("own")))
        yield runner, folder


@pytest.fixture(scope="module")
def runs(recorder: tuple[RecordingRunner, Path]) -> list[tuple[RecordedProgram, str]]:
    """The programs, each with the id of its recorded runs."""
    runner, folder = recorder
    made: list[tuple[RecordedProgram, str]] = []
    for number in range(RUNS):
        program = PROGRAMS[number % len(PROGRAMS)]
        given = {"n": number // len(PROGRAMS), "folder": str(folder)}
        outcome = runner.record(program.text, given)
        assert outcome.recording is not None, (program.text, outcome)
        made.append((program, outcome.id))
    return made


def test_recorded_runs_over_real_servers_repeat_without_them(recorder, runs, tmp_path):
    runner, folder = recorder
    before = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    with RecordingRunner(runner.workspace) as offline:
        settings = runner.session.gate.recordings._settings
        nowhere = settings.servers.model_copy(update={"config": tmp_path / "none.json"})
        (tmp_path / "none.json").write_text("{}")
        offline.start(settings.model_copy(update={"servers": nowhere}))
        for program, run in runs:
            report = offline.compare(run)
            assert (report["same"], report["difference"], program.text) == (True, None, program.text)
    assert {path: path.stat().st_mtime_ns for path in folder.iterdir()} == before


def test_changed_programs_differ_at_the_change(recorder, runs):
    runner, _ = recorder
    for program, run in runs[: len(PROGRAMS)]:
        assert program.text.count(program.old) == 1
        difference = runner.compare(run, source=program.text.replace(program.old, program.new))["difference"]
        assert difference is not None, program.new
        assert (difference["kind"], difference["number"], difference["at"]) == program.difference
