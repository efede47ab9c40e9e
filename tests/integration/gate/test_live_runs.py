"""What runs now, as another process of the same user sees it, and what it stops."""

import asyncio
import json
import os
import socket
import stat
import subprocess
import tempfile
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.support.processes import PATIENCE_S
from tests.support.servers import make_entry, write_servers

from paddock import Paddock, Settings
from paddock.confinement.sandbox import state_paths
from paddock.confinement.sandbox.sandbox import KernelSandbox
from paddock.foundation.fair_slots import FairSlots
from paddock.gate.live_runs import endpoint, reader
from paddock.gate.live_runs.reader import LiveRuns, LiveState
from paddock.gate.open_paddock import Server, open_audit, open_paddock
from paddock.gate.processes import own_directories
from paddock.model.approval import Answer, Question
from paddock.model.errors import PaddockError
from paddock.model.live_runs import MAX_ANSWER_BYTES, MAX_FILE_BYTES, ContentNow, FileNow, FilesNow, OutputNow
from paddock.model.outcome import Outcome, SandboxFacts
from paddock.model.request import ExecutionRequest, GuestRun
from paddock.model.sandbox import Tier
from paddock.policy.settings.rules import PolicySettings, Rule
from paddock.policy.settings.schema import GuestSettings, RuntimeSettings

FOREVER = "console.log('began'); await servers.odd.echo({text: 'a'}); for (;;) await sleep(1000)"
PROGRAM = "import time\nwhile time.process_time() < 0.1: pass\nprint('began', flush=True)\ntime.sleep(1000)"
LONG_MS = 600_000
SECRET = "ghp_" + "a1B2" * 9
"""Looks like a token of GitHub."""
UNKNOWN = "there is no such run or session any more"
Start = Callable[[Callable[..., None]], Awaitable[Outcome]]


@pytest.fixture(autouse=True)
def directory(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return the directory of the sockets, whose path is short: tests connect to it by an address."""
    with tempfile.TemporaryDirectory() as state:
        monkeypatch.setenv("XDG_STATE_HOME", state)
        monkeypatch.setattr(reader, "_ANSWERS_WITHIN_S", PATIENCE_S)
        yield endpoint.find_directory()


@asynccontextmanager
async def running(*programs: Start) -> AsyncGenerator[list["asyncio.Future[Outcome]"]]:
    """Start programs that print something and go on; yield their outcomes when all have begun."""
    started: list[asyncio.Future[Outcome]] = []
    for program in programs:
        begun = asyncio.Event()
        started.append(asyncio.ensure_future(program(lambda *_, event=begun: event.set())))
        await asyncio.wait_for(begun.wait(), PATIENCE_S)
    yield started


async def look_until(holds: Callable[[LiveState], bool]) -> LiveState:
    """Ask until something holds."""
    async with asyncio.timeout(PATIENCE_S):
        while not holds(found := await LiveRuns().list_all()):
            pass
    return found


def with_time(settings: Settings, **sections: object) -> Settings:
    """Return settings with time for programs that are stopped."""
    return settings.replace(runtimes=RuntimeSettings(timeout_ms=LONG_MS, max_jobs=1), **sections)


def test_runs_are_shown_and_stopped_in_order(workspace: Path, settings: Settings) -> None:
    write_servers(workspace, {"odd": make_entry("odd")})

    async def main() -> None:
        async with Paddock(workspace, settings=with_time(settings)) as paddock:

            def run_script(on_console: Callable[..., None]) -> Awaitable[Outcome]:
                return paddock.execute(FOREVER, timeout_ms=LONG_MS, on_console=on_console)

            def run_program(on_output: Callable[..., None]) -> Awaitable[Outcome]:
                return paddock.exec("python", PROGRAM, timeout_ms=LONG_MS, on_output=on_output)

            async with running(run_script, run_program) as outcomes:
                found = await look_until(
                    lambda state: (
                        [run.calls for run in state.runs] == [1, 0]
                        and all((run.cpu_ms or 0) > 0 for run in state.runs)
                    )
                )
                assert [(run.kind, run.name, run.language, run.actor, run.surface) for run in found.runs] == [
                    ("guest", "program", "javascript", "local", "library"),
                    ("runtime", "program", "python", "local", "library"),
                ]
                assert [run.state for run in found.runs] == ["running", "running"]
                assert all((run.memory_bytes or 0) > 1_000_000 for run in found.runs)
                (opened,) = found.paddocks
                assert (opened.user, opened.workspace, opened.servers) == ("", str(workspace), 1)
                assert ([each.pid for each in found.processes], found.problems) == ([os.getpid()], ())
                live, ids = LiveRuns(), [run.id for run in found.runs]
                assert [await live.read_output(each) for each in ids] == [
                    OutputNow(stdout="began"),
                    OutputNow(stdout="began\n"),
                ]
                stopping = LiveRuns(by="ada\x1b (here)")
                assert [await stopping.stop_run(each) for each in ids] == [True, True]
                ended = [await outcome for outcome in outcomes]
                assert [(outcome.id, outcome.status) for outcome in ended] == [
                    (each, "cancelled") for each in ids
                ]
                assert (ended[0].console[0].text, ended[1].text) == ("began", "began\n")
                assert (await live.list_all()).runs == []
                assert [await live.stop_run(each) for each in ids] == [False, False]
                with pytest.raises(PaddockError, match=f"^{UNKNOWN}$"):
                    await live.read_output(ids[0])
                records = await paddock.find_records(event="finished", status="cancelled")
                told = {each.request: each.fields["stopped_by"] for each in records if each.parent is None}
                assert told == dict.fromkeys(ids, "ada\\u001b (here)")

    asyncio.run(main())


def test_a_stop_leaves_the_event_of_the_caller_alone(workspace: Path, settings: Settings) -> None:
    """One event may belong to several runs."""

    async def main() -> None:
        async with Paddock(workspace, settings=with_time(settings)) as paddock:
            stop = asyncio.Event()

            def run_program(on_output: Callable[..., None]) -> Awaitable[Outcome]:
                return paddock.exec("python", PROGRAM, timeout_ms=LONG_MS, on_output=on_output, stop=stop)

            async with running(run_program) as outcomes:
                (run,) = (await LiveRuns().list_all()).runs
                assert await LiveRuns().stop_run(run.id)
                assert ((await outcomes[0]).status, stop.is_set()) == ("cancelled", False)
            async with running(run_program) as outcomes:
                stop.set()
                assert (await outcomes[0]).status == "cancelled"

    asyncio.run(main())


def test_a_run_that_waits_for_a_slot_is_shown_and_stopped(workspace: Path, settings: Settings) -> None:
    async def main() -> None:
        one = with_time(settings, guest=GuestSettings(max_workers=1, spare_workers=1))
        async with Paddock(workspace, settings=one) as paddock:

            def run_script(on_console: Callable[..., None]) -> Awaitable[Outcome]:
                text = "console.log(1); for (;;) await sleep(1000)"
                return paddock.execute(text, timeout_ms=LONG_MS, on_console=on_console)

            def run_program(on_output: Callable[..., None]) -> Awaitable[Outcome]:
                return paddock.exec("python", PROGRAM, timeout_ms=LONG_MS, on_output=on_output)

            async with running(run_script, run_program) as outcomes:
                waiting = [
                    asyncio.ensure_future(paddock.execute("return 1")),
                    asyncio.ensure_future(paddock.exec("python", "print(1)")),
                ]
                states = ["running", "running", "queued", "queued"]
                found = await look_until(
                    lambda state: sorted(run.state for run in state.runs) == sorted(states)
                )
                assert [run.state for run in found.runs] == states
                assert found.paddocks[0].waiting == 2
                queued = [run.id for run in found.runs if run.state == "queued"]
                assert [await LiveRuns().stop_run(each) for each in queued] == [True, True]
                messages = [(await each).error for each in waiting]
                assert [error.message for error in messages if error] == [
                    "It was cancelled while it waited for its turn; nothing ran."
                ] * 2
                for run in found.runs:
                    await LiveRuns().stop_run(run.id)
                assert [(await each).status for each in outcomes] == ["cancelled", "cancelled"]

    asyncio.run(main())


def test_a_run_that_waits_for_a_person_is_shown_and_stopped(workspace: Path, settings: Settings) -> None:
    async def main() -> None:
        asked = asyncio.Event()

        async def ask(_: Question) -> Answer:
            asked.set()
            await asyncio.Event().wait()
            raise AssertionError

        rule = Rule(effect="ask", runtime="python", reason="look at it")
        ruled = with_time(settings, policy=PolicySettings(rule=(rule,)))
        async with open_paddock(ruled, workspace, asker=ask) as opened:
            request = ExecutionRequest.model_validate(
                {"workspace": workspace, "work": {"kind": "runtime", "runtime": "python", "code": "print(1)"}}
            )
            outcome = asyncio.ensure_future(opened.gate.execute(request))
            await asyncio.wait_for(asked.wait(), PATIENCE_S)
            (run,) = (await LiveRuns().list_all()).runs
            assert (run.id, run.state, run.memory_bytes, run.cpu_ms) == (request.id, "asking", None, None)
            assert await LiveRuns().stop_run(run.id)
            assert (await outcome).status == "denied"

    asyncio.run(main())


def test_a_script_tool_is_measured_and_stopped(workspace: Path, settings: Settings) -> None:
    folder = workspace / ".paddock" / "tools" / "sleeper"
    folder.mkdir(parents=True)
    (folder / "tool.yaml").write_text(
        f"id: sleeper\nname: Sleeper\ndescription: Sleeps.\nruntime: python\nscript: script.py\ntimeout: {LONG_MS}\n"
    )
    (folder / "schema.json").write_text('{"type": "object"}')
    (folder / "script.py").write_text(PROGRAM)

    async def main() -> None:
        async with open_paddock(with_time(settings), workspace) as opened:
            request = ExecutionRequest(workspace=workspace, work=opened.scripts.make_work("sleeper", {}))
            outcome = asyncio.ensure_future(opened.gate.execute(request))
            found = await look_until(lambda state: any(run.cpu_ms for run in state.runs))
            [(kind, name, memory)] = [(run.kind, run.name, run.memory_bytes or 0) for run in found.runs]
            assert (kind, name, memory > 1_000_000) == ("tool", "sleeper", True)
            assert await LiveRuns().stop_run(request.id)
            assert (await outcome).status == "cancelled"

    asyncio.run(main())


def test_secrets_do_not_leave_the_process(workspace: Path, settings: Settings) -> None:
    async def main() -> None:
        async with Paddock(workspace, settings=with_time(settings)) as paddock:

            def run_script(on_console: Callable[..., None]) -> Awaitable[Outcome]:
                text = f"console.log('{SECRET}'.slice(0, 99)); console.log('x'.repeat(20000)); for (;;) await sleep(9)"
                return paddock.execute(text, timeout_ms=LONG_MS, on_console=on_console)

            async with running(run_script) as outcomes:
                (run,) = (await look_until(lambda state: bool(state.runs))).runs
                async with asyncio.timeout(PATIENCE_S):
                    while "\n" not in (output := (await LiveRuns().read_output(run.id)).stdout):
                        pass
                assert output == "[REDACTED:github-token]\n[a line of 20000 characters]"
                await LiveRuns().stop_run(run.id)
                await outcomes[0]

    asyncio.run(main())


def test_sessions_are_shown_read_and_closed(workspace: Path, settings: Settings) -> None:
    code = f"""
from pathlib import Path
Path("notes.txt").write_text("one\\n{SECRET}\\n")
Path("sub").mkdir()
Path("sub/image.png").write_bytes(b"\\x89PNG\\0")
Path("large").write_bytes(bytes(2_000_000))
Path("link").symlink_to("/etc/passwd")
"""

    async def main() -> None:
        async with Paddock(workspace, settings=settings) as paddock:
            outcome = await paddock.exec("python", code, session="new")
            assert outcome.session is not None, outcome.error
            await paddock.execute("globalThis.a = 1", session="new")
            live = LiveRuns()
            sessions = (await live.list_all()).sessions
            assert [(each.language, each.executions, each.has_files) for each in sessions] == [
                ("python", 1, True),
                ("javascript", 1, False),
            ]
            assert all(each.memory_bytes > 1_000_000 and not each.running for each in sessions)
            assert outcome.session.id not in repr(sessions)
            name, other = (each.name for each in sessions)
            listed = (FileNow(path="large", size=2_000_000), FileNow(path="notes.txt", size=45))
            assert await live.list_files(name) == FilesNow(
                files=(*listed, FileNow(path="sub/image.png", size=5))
            )
            assert await live.list_files(other) == FilesNow(files=())
            assert await live.read_file(name, "notes.txt") == ContentNow(
                text="one\n[REDACTED:github-token]\n"
            )
            assert await live.read_file(name, "sub/image.png") == ContentNow(text=None, data="iVBORwA=")
            for path, why in (
                ("large", f"large has 2000000 bytes, and {MAX_FILE_BYTES} are allowed"),
                ("link", "link is a link, or leads through one; links are not followed"),
                ("none", "there is no such file"),
            ):
                with pytest.raises(PaddockError) as refusal:
                    await live.read_file(name, path)
                assert str(refusal.value) == why
            assert [await live.close_session(each) for each in (name, other, name)] == [True, True, False]
            assert (await live.list_all()).sessions == []
            lost = await paddock.exec("python", "1", session=outcome.session.id)
            assert lost.status == "lost"

    asyncio.run(main())


def test_a_user_of_a_server_sees_and_stops_only_their_own(workspace: Path, settings: Settings) -> None:
    async def main() -> None:
        with open_audit(settings.audit) as audit:

            @asynccontextmanager
            async def serve(user: str) -> AsyncGenerator[ExecutionRequest]:
                server = Server(settings, audit, user, FairSlots())
                work = GuestRun(source="console.log(1); for (;;) await sleep(1000)")
                request = ExecutionRequest(workspace=workspace, actor=user, work=work)
                async with open_paddock(settings, workspace, server=server) as opened:
                    began = asyncio.Event()
                    task = asyncio.create_task(
                        opened.gate.execute(request, on_console=lambda _: began.set(), stop=None)
                    )
                    await asyncio.wait_for(began.wait(), PATIENCE_S)
                    yield request
                    assert (await task).status == "cancelled"

            async with serve("ada") as adas, serve("bob") as bobs:
                ada, bob, owner = LiveRuns("ada"), LiveRuns("bob"), LiveRuns()
                assert [run.id for run in (await owner.list_all()).runs] == [adas.id, bobs.id]
                assert [run.id for run in (await ada.list_all()).runs] == [adas.id]
                assert [paddock.user for paddock in (await bob.list_all()).paddocks] == ["bob"]
                assert (await LiveRuns("eve").list_all()).processes == ()
                assert [await ada.stop_run(bobs.id), await LiveRuns("").stop_run(bobs.id)] == [False, False]
                with pytest.raises(PaddockError, match=f"^{UNKNOWN}$"):
                    await ada.read_output(bobs.id)
                assert await bob.read_output(bobs.id) == OutputNow(stdout="1")
                assert [await bob.stop_run(bobs.id), await owner.stop_run(adas.id)] == [True, True]

    asyncio.run(main())


def test_the_socket_is_private_and_goes_with_the_last_paddock(workspace: Path, settings: Settings) -> None:
    directory = endpoint.find_directory()

    async def main() -> None:
        async with Paddock(workspace, settings=settings), Paddock(workspace, settings=settings):
            (file,) = directory.iterdir()
            assert file.name.startswith(f"{os.getpid()}-")
            assert (stat.S_IMODE(directory.stat().st_mode), stat.filemode(file.stat().st_mode)) == (
                0o700,
                "srw-------",
            )
            assert len((await LiveRuns().list_all()).paddocks) == 2
        assert list(directory.iterdir()) == []
        assert await LiveRuns().list_all() == LiveState(())

    asyncio.run(main())


def test_a_directory_with_a_long_path_serves_as_well(
    workspace: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / ("a" * 200)))

    async def main() -> None:
        async with Paddock(workspace, settings=settings):
            assert len((await LiveRuns().list_all()).processes) == 1

    asyncio.run(main())


def test_without_a_socket_everything_else_works(workspace: Path, settings: Settings) -> None:
    directory = endpoint.find_directory()
    directory.parent.mkdir(parents=True)
    directory.write_text("in the way")

    async def main() -> None:
        async with Paddock(workspace, settings=settings) as paddock:
            assert (await paddock.execute("return 1")).value == 1
            state = await LiveRuns().list_all()
            assert state.processes == ()
            assert state.problems == (
                f"{directory}: it is a file, not a directory; move {directory} away",
                f"{directory}: Not a directory",
            )

    asyncio.run(main())


def test_the_socket_of_a_process_that_died_is_removed(workspace: Path, settings: Settings) -> None:
    directory = endpoint.find_directory()
    directory.mkdir(parents=True, mode=0o700)
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(directory / "99-dead.sock"))

    async def main() -> None:
        assert await LiveRuns().list_all() == LiveState(())

    asyncio.run(main())
    assert list(directory.iterdir()) == []


LIES = {
    "no JSON": b"hello\n",
    "another form": b'{"pid": "x"}\n',
    "a huge number": b'{"pid": 1, "program": "x", "since": 1, "paddocks": [{"workspace": "/", "workers": -1}]}\n',
    "a long name": json.dumps({"pid": 1, "program": "x" * 5000, "since": 1}).encode() + b"\n",
}


@pytest.mark.parametrize("lie", LIES.values(), ids=LIES)
def test_an_answer_of_another_form_counts_as_none(workspace: Path, lie: bytes) -> None:
    assert ask_liar(lie) == ("process 7 did not answer as Paddock does",)


def test_an_answer_without_end_counts_as_none(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert ask_liar(b"x" * (MAX_ANSWER_BYTES + 1)) == ("process 7 did not answer: there was no whole line",)
    assert ask_liar(b"x") == ("process 7 did not answer: there was no whole line",)
    monkeypatch.setattr(reader, "_ANSWERS_WITHIN_S", 1.0)
    assert ask_liar(None) == ("process 7 did not answer within 1 s",)


def ask_liar(lie: bytes | None) -> tuple[str, ...]:
    """Return what is said of a process that answers like this; None for one that does not answer."""
    directory = endpoint.find_directory()
    directory.mkdir(parents=True, mode=0o700, exist_ok=True)
    silent = asyncio.Event()

    async def serve(stream: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await stream.readline()
        if lie is None:
            await silent.wait()
        writer.write(lie or b"")
        writer.close()

    async def main() -> LiveState:
        async with await asyncio.start_unix_server(serve, directory / "7-liar.sock"):
            found = await LiveRuns().list_all()
            silent.set()
            return found

    found = asyncio.run(main())
    assert found.processes == ()
    return found.problems


@pytest.mark.parametrize(
    ("question", "error"),
    [
        (b"hello\n", "this version of Paddock does not know the question"),
        (b'{"ask": "everything"}\n', "this version of Paddock does not know the question"),
        (b'{"ask": "tail", "id": ["a"]}\n', "this version of Paddock does not know the question"),
        (b'{"ask": "tail", "later": 1}\n', UNKNOWN),
        (b'{"ask": "file", "id": "a", "path": "../../etc/passwd"}\n', UNKNOWN),
    ],
)
def test_a_wrong_question_is_refused(
    workspace: Path, settings: Settings, question: bytes, error: str
) -> None:
    assert json.loads(ask_raw(workspace, settings, question)) == {"error": error}


def test_a_question_without_end_is_not_answered(workspace: Path, settings: Settings) -> None:
    assert ask_raw(workspace, settings, b"x" * (endpoint.MAX_QUESTION_BYTES + 1)) == b""


def ask_raw(workspace: Path, settings: Settings, question: bytes) -> bytes:
    """Return what Paddock answers to these bytes."""

    async def main() -> bytes:
        async with Paddock(workspace, settings=settings):
            (file,) = endpoint.find_directory().iterdir()
            stream, writer = await asyncio.open_unix_connection(file)
            try:
                writer.write(question)
                return await asyncio.wait_for(stream.read(), PATIENCE_S)
            except ConnectionResetError:  # it was closed with bytes that nobody has read
                return b""
            finally:
                writer.close()

    return asyncio.run(main())


def test_another_user_is_not_answered(
    as_root: None, workspace: Path, settings: Settings, tmp_path: Path
) -> None:
    """The directory is closed to them; a socket that somebody opened to them asks the kernel who they are."""
    asking = "import os, socket, sys; os.setuid(54321); peer = socket.socket(socket.AF_UNIX); "
    asking += """peer.connect(sys.argv[1]); peer.sendall(b'{"ask": "list"}\\n'); print(peer.recv(9))"""

    async def ask(path: Path) -> tuple[bytes, bytes]:
        process = await asyncio.create_subprocess_exec(
            "/usr/bin/python3", "-c", asking, str(path), stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        said, errors = await asyncio.wait_for(process.communicate(), PATIENCE_S)
        return said.strip(), errors.strip().rpartition(b"\n")[2]

    async def main() -> None:
        async with Paddock(workspace, settings=settings):
            (file,) = endpoint.find_directory().iterdir()
            assert await ask(file) == (b"", b"PermissionError: [Errno 13] Permission denied")
            for above in (file, *list(file.parents)[:-2]):
                above.chmod(0o777)
            said, errors = await ask(file)
            assert (said, errors) in {
                (b"b''", b""),
                (b"", b"ConnectionResetError: [Errno 104] Connection reset by peer"),
                (b"", b"BrokenPipeError: [Errno 32] Broken pipe"),
            }

    asyncio.run(main())


ATTACK = """
import contextlib, glob, os, socket
directory, pid = "DIRECTORY", PID
found = {os.path.join(directory, "NAME")}
for pattern in (directory + "/*", f"/proc/{pid}/fd/*/*.sock", f"/proc/{pid}/root/{directory}/*", "/proc/*/fd/*/*.sock"):
    found.update(glob.glob(pattern))
with contextlib.suppress(OSError):
    found.update(line.split()[-1] for line in open("/proc/net/unix") if ".sock" in line)
    found.update(f"/proc/{pid}/fd/" + each.split("/fd/", 1)[-1] for each in tuple(found) if "/fd/" in each)
for kind in (socket.SOCK_STREAM, socket.SOCK_SEQPACKET, socket.SOCK_DGRAM):
    for path in sorted(found):
        with contextlib.suppress(OSError):
            peer = socket.socket(socket.AF_UNIX, kind)
            peer.connect(path)
            peer.sendall(b'{"ask": "list"}\\\\n')
            print("reached", kind, path, peer.recv(100))
for act in (os.rmdir, os.unlink, os.mkfifo, lambda path: open(path, "rb"), lambda path: os.chmod(path, 0o777)):
    for path in (directory, os.path.join(directory, "NAME")):
        with contextlib.suppress(OSError):
            print(act, path, act(path))
print("ended")
"""


@pytest.mark.parametrize(
    ("tier", "job_user", "network"),
    [
        ("landlock", None, "none"),
        ("landlock", 0, "none"),
        ("landlock", 0, "full"),
        ("namespaces", None, "none"),
        ("namespaces", None, "loopback"),
        ("namespaces", None, "full"),
    ],
)
def test_no_program_reaches_the_socket(
    directory: Path, settings: Settings, tier: Tier, job_user: int | None, network: str
) -> None:
    """The workspace is the state directory, so that only what protects Paddock's own directories keeps it away."""

    async def main() -> Outcome:
        given = settings.replace(runtimes=RuntimeSettings(timeout_ms=LONG_MS, network="full"))
        workspace = directory.parents[1]
        workspace.chmod(0o755)
        async with open_paddock(given, workspace) as opened:
            own = state_paths.list_own_directories(own_directories(given))
            sandbox = KernelSandbox(SandboxFacts(tier=tier), tier, job_user, own=own)
            opened.processes.use_sandbox(sandbox)
            (name,) = os.listdir(directory)  # noqa: PTH208 - no path is wanted
            code = ATTACK.replace("DIRECTORY", str(directory)).replace("NAME", name)
            work = {"kind": "runtime", "runtime": "python", "network": network}
            work["code"] = code.replace("PID", str(os.getpid()))
            request = ExecutionRequest.model_validate({"workspace": workspace, "work": work})
            outcome = await opened.gate.execute(request)
            assert len((await LiveRuns().list_all()).processes) == 1  # it still answers
            return outcome

    outcome = asyncio.run(main())
    assert (outcome.status, outcome.error, outcome.text) == ("ok", None, "ended\n")
