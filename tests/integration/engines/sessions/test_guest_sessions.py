"""Sessions of JavaScript programs: what one leaves is there for the next, and nothing of it runs in between."""

import asyncio
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from paddock import BlockingPaddock, Outcome, Paddock, Status
from paddock.engines.javascript import held_worker
from paddock.engines.sessions.guests import GuestSession
from paddock.model.limits import LimitOverrides
from paddock.model.request import ExecutionRequest, GuestRun
from paddock.model.session import name_session
from paddock.testing import MemoryAudit

PATIENT = {"limits": {"execute": {"timeout_ms": 120_000}}}
SHORT_MS = 300
"""A timeout for programs that never end; it says nothing about the speed of the others."""


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Interrupt programs for a minute: a busy machine must not lose a session."""
    monkeypatch.setattr(held_worker, "MAX_ROUNDS", 600)


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A workspace, and no settings but its own."""
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    (place := tmp_path / "workspace").mkdir()
    return place


@pytest.fixture
def paddock(workspace: Path) -> Iterator[BlockingPaddock]:
    with BlockingPaddock(workspace, overrides=PATIENT) as p:
        yield p


class Talk:
    """Programs of one session, one after another."""

    def __init__(self, paddock: BlockingPaddock) -> None:
        self.paddock = paddock
        self.handle = "new"

    def run(self, code: str, **options: Any) -> Outcome:
        outcome = self.paddock.execute(code, session=self.handle, **options)
        assert outcome.session is not None, outcome.error
        self.handle = outcome.session.id
        return outcome

    def say(self, code: str, **options: Any) -> object:
        """Return the value of a program, or its error; or what is unusual about its end."""
        outcome = self.run(code, **options)
        assert outcome.session is not None
        assert outcome.session.state == "kept", outcome.session
        if outcome.ok:
            return outcome.value
        assert outcome.error is not None
        return f"{outcome.status.value}: {outcome.error.name}: {outcome.error.message}"


@pytest.fixture
def talk(paddock: BlockingPaddock) -> Talk:
    return Talk(paddock)


BEFORE = "Cannot access 'x' before initialization"
FIXED = "failed: TypeError: Cannot assign to read only property 'x' of object '#<Object>'"
TALKS: dict[str, list[tuple[str, object]]] = {
    "let": [("let x = 1", None), ("x += 1", 2), ("x", 2)],
    "several": [("let a = 1, b, [c, { d = 4, ...e }] = [3, { f: 6 }]", None), ("[a, b === undefined, c, d, e]", [1, True, 3, 4, {"f": 6}])],
    "const": [("const x = 1", None), ("x = 2", FIXED), ("x", 1)],
    "const, written in its own program": [("const x = 1; x = 2", FIXED), ("x", 1)],
    "var": [("if (true) { var x = 1; for (var i of [7]) { } }", None), ("[x, i]", [1, 7]), ("var x; x", 1)],
    "functions": [("function f() { return g() }\nfunction g() { return 1 }", None), ("f()", 1)],
    "a function without a call": [("function main() { return 1 }", None), ("main()", 1)],
    "generators and async functions": [("function* g() { yield 1 } async function a() { return 2 }", None), ("[...g(), await a()]", [1, 2])],
    "names of functions": [("function f() {}\nclass C { }", None), ("[f.name, C.name]", ["f", "C"])],
    "hoisting": [("f(); function f() { return 1 }", 1), ("f()", 1)],
    "classes": [("class A { n = 1 }\nclass B extends A { m() { return this.n } }", None), ("new B().m()", 1)],
    "decorated classes": [("function d(c) { return c }\n@d class A { accessor n = 1 }", None), ("new A().n", 1)],
    "a mended function": [("function f() { return 1 }\nconst g = () => f()", None), ("function f() { return 2 }", None), ("g()", 2)],
    "const again": [("const x = 1; const read = () => x", None), ("const x = 2; read()", 2)],
    "const as let": [("const x = 1", None), ("let x = 2", None), ("x = 3", 3)],
    "before its declaration": [("x; let x = 1", f"failed: ReferenceError: {BEFORE}"), ("typeof x", "undefined")],
    "its own value": [("let x = 1", None), ("let x = x + 1", f"failed: ReferenceError: {BEFORE}"), ("x", 1)],
    "a declaration that failed": [
        ("const x = 1", None),
        ("const x = await Promise.reject(new Error('no'))", "failed: Error: no"),
        ("x", 1),
    ],
    "return and await": [("const x = await 1; return x + 1; let y = 5", 2), ("x", 1), ("typeof y", "undefined")],
    "TypeScript": [("enum E { A = 3 }\nlet n: number = E.A; n", 3), ("E.A + n", 6)],
    "exports": [("export const x = 1; export function f() { return x }", None), ("f()", 1)],
    "no semicolons": [("let x = [1, 2]\nlet y = x\nlet z\n[x, y, z] = [3, 4, 1]", [3, 4, 1]), ("[x, y, z]", [3, 4, 1])],
    "input": [("input", None), ("input", None), ("let input = 5", None), ("input", 5)],
    "a block stays a block": [("{ let x = 1 }; for (let x = 0; x < 1; x++) { }", None), ("typeof x", "undefined")],
    "names of the host": [("const servers = 1", None), ("servers", 1)],
    "its variables": [("let x = 1; const y = 2; function z() {}", None), ("Object.keys(globalThis)", ["z", "x", "y"])],
    "a fixed name": [
        ("Object.defineProperty(globalThis, 'x', { value: 1 }); 0", 0),
        ("let x = 2", "failed: TypeError: Cannot declare x: the global object has a fixed property of this name"),
        ("x", 1),
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", TALKS)
def test_declarations_outlive_their_program(talk: Talk, name: str) -> None:
    assert [talk.say(code) for code, _ in TALKS[name]] == [value for _, value in TALKS[name]]


def test_an_outcome_tells_of_its_session(talk: Talk) -> None:
    first, second = talk.run("1").session, talk.run("2").session
    assert first is not None
    assert second is not None
    assert (first.id, first.number, second.number) == (second.id, 1, 2)
    assert (second.state, second.reason, second.expires_in_s) == ("kept", "", 900.0)


def test_input_belongs_to_one_program(talk: Talk) -> None:
    assert talk.say("input.a", input={"a": 1}) == 1
    assert talk.say("[input, paddock.input]") == [None, None]


def test_an_error_names_the_line_of_the_text_that_failed(talk: Talk) -> None:
    talk.run("function f() {\n\n\n  null.x }")
    error = talk.run("1\n\n  f()").error
    assert error is not None
    assert (error.line, error.column, error.excerpt) == (3, 3, "  f()\n  ^")


def test_a_text_that_is_no_program_changes_nothing(talk: Talk) -> None:
    talk.run("let x = 1")
    error = talk.run("let x = ;").error
    assert error is not None
    assert error.phase == "parse"
    assert talk.say("x") == 1


ENDLESS = {
    "computing": "while (true);",
    "catching": "for (;;) { try { for (;;); } catch { } finally { for (;;); } }",
    "printing": "for (;;) console.log('x'.repeat(100))",
    "in microtasks": "for (;;) await null",
    "in a timer": "setTimeout(() => { for (;;); }); await sleep(100000)",
    "waiting for a timer": "await sleep(100000)",
    "in a pattern": "/(a*)*b/.test('a'.repeat(50))",
    "starting over and over": "(function again() { try { again() } finally { again() } })()",
}


@pytest.mark.parametrize("name", ENDLESS)
def test_a_limit_ends_the_program_and_not_the_session(talk: Talk, name: str) -> None:
    talk.run("let x = 1")
    assert talk.run(ENDLESS[name], timeout_ms=SHORT_MS).status is Status.TIMEOUT
    assert talk.say("x += 1; await sleep(1); x") == 2


def test_a_promise_that_nothing_settles_ends_the_program(talk: Talk) -> None:
    assert talk.run("await new Promise(() => {})").status is Status.TIMEOUT
    assert talk.say("1") == 1


def test_what_cannot_be_interrupted_loses_the_session(talk: Talk, monkeypatch: pytest.MonkeyPatch) -> None:
    talk.run("let x = 1")
    monkeypatch.setattr(held_worker, "MAX_ROUNDS", 2)
    outcome = talk.run("Array.prototype.includes.call({ length: 2 ** 53 - 1 }, 1)", timeout_ms=SHORT_MS)
    reason = "its program did not end when it was interrupted"
    assert outcome.status is Status.TIMEOUT
    assert outcome.session is not None
    assert (outcome.session.state, outcome.session.reason) == ("lost", reason)
    again = talk.run("x")
    assert again.error is not None
    assert again.session is not None
    assert (again.status, again.error.message) == (
        Status.LOST,
        f"The session is lost: {reason}. Nothing ran.",
    )
    assert (again.error.hint, again.session.state) == ('open another one with the session "new"', "lost")


def test_memory_over_the_limit_loses_the_session(talk: Talk) -> None:
    talk.run("const kept = []; kept.length")
    grown = [talk.say("kept.push(new ArrayBuffer(2 ** 25)); kept.length") for _ in range(3)]
    assert grown == [1, 2, 3]
    lost = [
        outcome
        for _ in range(40)
        if (outcome := talk.run("kept.push(new Array(2 ** 20).fill(0.5)); 1")).session and not outcome.ok
    ]
    ended = lost[0]
    assert (ended.status, ended.session and ended.session.state) == (Status.MEMORY_LIMIT, "lost")
    assert {outcome.status for outcome in lost[1:]} == {Status.LOST}


def test_a_program_cannot_raise_the_memory_of_its_session(workspace: Path) -> None:
    """The limit is that of the program with the least, as a limit of the kernel cannot be raised again."""

    async def main() -> list[Status]:
        async with Paddock(workspace, overrides=PATIENT) as p:
            session = p._require_session()

            async def run(code: str, memory_bytes: int, handle: str) -> Outcome:
                work = GuestRun(source=code, session=handle)
                limits = LimitOverrides(memory_bytes=memory_bytes, timeout_ms=60_000)
                request = ExecutionRequest(workspace=workspace, work=work, limits=limits)
                return await session.gate.execute(request)

            big = "new ArrayBuffer(2 ** 27).byteLength"
            first = await run("1", 2**28, "new")
            assert first.session is not None
            later = [await run(code, size, first.session.id) for code, size in (("2", 2**26), (big, 2**28))]
            return [first.status, *(outcome.status for outcome in later)]

    assert asyncio.run(main()) == [Status.OK, Status.OK, Status.MEMORY_LIMIT]


LEFT = {
    "a timer": "setTimeout(() => { globalThis.ran = true; servers.local.note({ text: 'late' }) }, 1)",
    "an interval": "setInterval(() => { globalThis.ran = true; servers.local.note({ text: 'late' }) }, 1)",
    "a sleep": "sleep(1).then(() => { globalThis.ran = true; servers.local.note({ text: 'late' }) })",
    "a signal": "AbortSignal.timeout(1).onabort = () => { globalThis.ran = true; servers.local.note({ text: 'late' }) }",
}


@pytest.mark.parametrize("name", LEFT)
def test_nothing_that_a_program_left_runs_during_the_next_one(workspace: Path, name: str) -> None:
    noted: list[str] = []
    with BlockingPaddock(workspace, overrides=PATIENT) as p:

        @p.tool
        def note(text: str) -> None:
            noted.append(text)

        talk = Talk(p)
        talk.run(f"globalThis.ran = false; {LEFT[name]}; return 1")
        assert talk.say("await sleep(50); ran") is False
    assert noted == []


def test_a_call_after_the_end_of_its_program_is_refused(workspace: Path) -> None:
    noted: list[str] = []
    with BlockingPaddock(workspace, overrides=PATIENT) as p:

        @p.tool
        def note(text: str) -> None:
            noted.append(text)

        talk = Talk(p)
        late = "Promise.resolve().then(() => {}).then(() => {}).then(() => {}).then(() => {}).then(() => {})"
        talk.run(
            f"globalThis.refused = []; {late}.then(async () => {{ for (let i = 0; i < 50; i++) await null;"
            "  try { await servers.local.note({ text: 'late' }) } catch (error) { refused.push(String(error)) }"
            "  try { paddock.vault.list() } catch (error) { refused.push(String(error)) } });"
            "return 1"
        )
        refusal = "Error: The execution that this code belongs to has ended; the call was not made"
        assert talk.say("refused") == [refusal, refusal]
    assert noted == []


def test_a_program_that_wakes_code_of_an_earlier_one_answers_for_its_calls(workspace: Path) -> None:
    """What an execution has called is decided, counted and recorded as its own, whoever wrote the code."""
    noted: list[str] = []
    with BlockingPaddock(workspace, overrides=PATIENT) as p:

        @p.tool
        def note(text: str) -> str:
            noted.append(text)
            return text

        talk = Talk(p)
        first = talk.run(
            "let wake; const woken = new Promise((resolve) => { wake = resolve })"
            ".then(() => servers.local.note({ text: 'woken' })); return 1"
        )
        second = talk.run("wake(); await woken")
        assert (first.calls, second.value, [call.tool for call in second.calls]) == ((), "woken", ["note"])
        third = talk.run("const text = 'dry'; (() => servers.local.note({ text }))()", mode="dry_run")
        assert [call.tool for call in third.planned] == ["note"]
    assert noted == ["woken"]


def test_a_program_that_is_woken_later_does_not_answer_for_the_later_one(talk: Talk) -> None:
    talk.run(
        "let go; await new Promise((resolve) => { go = resolve }); globalThis.woken = true; return 'old'"
    )
    assert talk.say("go(); await sleep(5); return [woken, 'new']") == [True, "new"]
    talk.run("let stop; await new Promise((_, reject) => { stop = reject })")
    assert talk.say("stop(new Error('old')); await sleep(5); return 'new'") == "new"


def test_calls_that_a_program_did_not_wait_for_never_settle(workspace: Path) -> None:
    with BlockingPaddock(workspace, overrides=PATIENT) as p:
        never = asyncio.Event()

        @p.tool
        async def hang() -> None:
            await never.wait()

        talk = Talk(p)
        left = talk.run("globalThis.settled = 0; servers.local.hang().finally(() => settled++); return 1")
        assert left.error is not None
        assert left.error.name == "UnawaitedCall"
        assert talk.say("await sleep(20); settled") == 0
        assert talk.run("await servers.local.hang()", timeout_ms=SHORT_MS).status is Status.TIMEOUT
        assert talk.say("settled") == 0


def test_budgets_are_of_one_program(workspace: Path) -> None:
    limits = {"limits": {"execute": {"timeout_ms": 120_000, "host_calls": 2, "output_bytes": 1024}}}
    with BlockingPaddock(workspace, overrides=limits) as p:

        @p.tool
        def note() -> int:
            return 1

        talk = Talk(p)
        three = "let n = 0; for (let i = 0; i < 3; i++) n += await servers.local.note().catch(() => 100); n"
        assert [talk.say(three) for _ in range(2)] == [102, 102]
        outcomes = [talk.run("console.log('x'.repeat(900))") for _ in range(2)]
        assert [outcome.console_truncated for outcome in outcomes] == [False, False]


def test_secrets_are_removed_and_every_program_is_recorded(workspace: Path) -> None:
    audit = MemoryAudit()
    with BlockingPaddock(workspace, overrides=PATIENT, audit=audit) as p:
        talk = Talk(p)
        token = "ghp_" + "a1B2" * 9
        talk.run("let secret", input=token)
        outcome = talk.run("secret = input; console.log(secret); secret", input=token)
        assert token not in str(outcome.value) + outcome.console[0].text
        handle = talk.handle
    record = str(audit.records)
    assert (record.count("'session_state': 'kept'"), record.count(handle)) == (2, 0)
    assert (
        record.count(f"'session': '{name_session(handle)}'") == 3
    )  # two ends, and the beginning of the second


# --- between programs ---------------------------------------------------------------------------------------------


def state_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


async def held(p: Paddock, handle: str) -> GuestSession:
    found = p._require_session().programs.sessions.find_open("local", handle)
    assert isinstance(found, GuestSession)
    return found


async def start(p: Paddock, code: str, handle: str) -> "asyncio.Task[Outcome]":
    """Return a program that has printed a line."""
    printed = asyncio.Event()
    running = asyncio.create_task(p.execute(code, session=handle, on_console=lambda _: printed.set()))
    await printed.wait()
    return running


def test_the_process_is_stopped_between_programs(workspace: Path) -> None:
    async def main() -> None:
        async with Paddock(workspace, overrides=PATIENT) as p:
            for code in ("1", "null.x", "for (;;);"):
                outcome = await p.execute(code, session="new", timeout_ms=SHORT_MS)
                assert outcome.session is not None
                pid = (await held(p, outcome.session.id)).worker.worker.pid
                deadline = time.monotonic() + 60
                while (state := state_of(pid)) != "T" and time.monotonic() < deadline:  # noqa: ASYNC110 - the kernel has no event
                    await asyncio.sleep(0)
                assert state == "T"

    asyncio.run(main())


@pytest.mark.parametrize("when", ["between", "during"])
def test_a_killed_worker_is_a_lost_session(workspace: Path, when: str) -> None:
    async def main() -> tuple[Outcome, Outcome]:
        async with Paddock(workspace, overrides=PATIENT) as p:
            opened = await p.execute("let x = 1", session="new")
            assert opened.session is not None
            handle = opened.session.id
            worker = (await held(p, handle)).worker.worker
            code = "console.log(1); await sleep(100000)"
            running = await start(p, code, handle) if when == "during" else None
            os.kill(worker.pid, signal.SIGKILL)
            await worker.death
            first = await (running or p.execute("x", session=handle))
            return first, await p.execute("x", session=handle)

    first, second = asyncio.run(main())
    assert (first.status, second.status) == (Status.LOST, Status.LOST)
    reason = "its worker ended between two programs" if when == "between" else "its worker broke down"
    assert first.session is not None
    assert second.error is not None
    assert (first.session.state, first.session.reason) == ("lost", reason)
    assert second.error.message == f"The session is lost: {reason}. Nothing ran."


def test_programs_of_one_session_wait_for_each_other(workspace: Path) -> None:
    async def main() -> None:
        async with Paddock(workspace, overrides=PATIENT) as p:
            opened = await p.execute("let running = 0, most = 0", session="new")
            assert opened.session is not None
            code = "most = Math.max(most, ++running); await sleep(5); running--; most"
            outcomes = await asyncio.gather(*(p.execute(code, session=opened.session.id) for _ in range(5)))
            assert [outcome.value for outcome in outcomes] == [1] * 5
            assert sorted(outcome.session.number for outcome in outcomes if outcome.session) == [
                2,
                3,
                4,
                5,
                6,
            ]

    asyncio.run(main())


def test_a_cancelled_program_leaves_its_session(workspace: Path) -> None:
    async def main() -> None:
        async with Paddock(workspace, overrides=PATIENT) as p:
            opened = await p.execute("let x = 1", session="new")
            assert opened.session is not None
            running = await start(p, "x = 2; console.log(1); for (;;);", opened.session.id)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            assert (await p.execute("x", session=opened.session.id)).value == 2

    asyncio.run(main())


def test_a_session_can_be_closed_and_interrupted(workspace: Path) -> None:
    async def main() -> None:
        async with Paddock(workspace, overrides=PATIENT) as p:
            table = p._require_session().programs.sessions
            opened = await p.execute("let x = 1", session="new")
            assert opened.session is not None
            handle = opened.session.id
            running = await start(p, "console.log(1); for (;;);", handle)
            table.interrupt("local", handle)
            assert (await running).status is Status.CANCELLED
            assert (await p.execute("x", session=handle)).value == 1
            [listed] = await p.sessions()
            assert (listed.id, listed.language, listed.executions, listed.running) == (
                handle,
                "javascript",
                3,
                False,
            )
            assert listed.memory_bytes > 0
            assert await table.close_session("local", handle)
            ended = await p.execute("x", session=handle)
            assert ended.error is not None
            assert ended.error.message == "The session is lost: it was closed. Nothing ran."

    asyncio.run(main())


# --- who may use one ----------------------------------------------------------------------------------------------


def test_a_handle_belongs_to_its_actor(workspace: Path) -> None:
    async def main() -> list[tuple[str, str]]:
        async with Paddock(workspace, overrides=PATIENT) as p:
            gate = p._require_session().gate
            opened = await p.execute("1", session="new")
            assert opened.session is not None
            ends: list[tuple[str, str]] = []
            for actor, handle in (("other", opened.session.id), ("local", "s_" + "0" * 32)):
                work = GuestRun(source="1", session=handle)
                outcome = await gate.execute(ExecutionRequest(actor=actor, workspace=workspace, work=work))
                assert outcome.error is not None
                ends.append((outcome.status.value, outcome.error.message))
            return ends

    unknown = ("invalid", "there is no such session, or it belongs to another caller")
    assert asyncio.run(main()) == [unknown, unknown]


def test_sessions_of_two_kinds_are_kept_apart(paddock: BlockingPaddock) -> None:
    guest = paddock.execute("1", session="new").session
    program = paddock.exec("python", "1", session="new").session
    assert guest is not None
    assert program is not None
    first, second = paddock.exec("python", "1", session=guest.id), paddock.execute("1", session=program.id)
    assert first.error is not None
    assert second.error is not None
    assert (first.status, first.error.message) == (
        Status.INVALID,
        "this session is one of JavaScript programs (execute_code)",
    )
    assert (second.status, second.error.message) == (
        Status.INVALID,
        "this session is one of programs in another language (run_program)",
    )


def test_sessions_can_be_turned_off(workspace: Path) -> None:
    with BlockingPaddock(workspace, overrides={"sessions": {"enabled": False}}) as p:
        outcome = p.execute("1", session="new")
    assert outcome.error is not None
    assert (outcome.status, outcome.error.message.partition(";")[0]) == (
        Status.DENIED,
        "sessions are turned off",
    )


def test_the_one_not_used_for_longest_makes_room(workspace: Path) -> None:
    overrides = {**PATIENT, "sessions": {"max_per_actor": 2}}
    with BlockingPaddock(workspace, overrides=overrides) as p:
        opened = [p.execute(f"let x = {number}", session="new").session for number in range(3)]
        ends = [p.execute("x", session=session.id) for session in opened if session]
    assert [end.status for end in ends] == [Status.LOST, Status.OK, Status.OK]


# --- hostile programs ---------------------------------------------------------------------------------------------

POISONS = {
    "the iterator of arrays": "Array.prototype[Symbol.iterator] = () => { throw new Error('poison') }",
    "methods of arrays": "for (const n of Object.getOwnPropertyNames(Array.prototype)) try { Array.prototype[n] = () => { throw 1 } } catch {}",
    "methods of maps": "for (const n of ['get', 'set', 'has', 'delete', 'clear', 'forEach']) Map.prototype[n] = () => { throw 1 }",
    "methods of promises": "Promise.prototype.then = () => { throw 1 }; Promise.resolve = Promise.reject = () => { throw 1 }",
    "methods of strings": "for (const n of Object.getOwnPropertyNames(String.prototype)) try { String.prototype[n] = () => { throw 1 } } catch {}",
    "reflection": "Reflect.apply = Reflect.defineProperty = Object.defineProperty = Object.getOwnPropertyDescriptor = () => { throw 1 }",
    "JSON": "JSON.parse = JSON.stringify = () => '0'",
    "a getter of a setting": "try { Object.defineProperty(Object.prototype, 'session', { get() { throw 1 } }) } catch {}",
    "numbers": "Number = String = BigInt = Error = TypeError = () => { throw 1 }",
    "its wrapper": "globalThis.__paddock = () => {}",
    "its timers": "globalThis.setTimeout = globalThis.sleep = globalThis.console = 1",
}  # fmt: skip


@pytest.mark.parametrize("name", POISONS)
def test_a_program_cannot_poison_what_serves_the_next_one(workspace: Path, name: str) -> None:
    with BlockingPaddock(workspace, overrides=PATIENT) as p:

        @p.tool
        def double(n: int) -> int:
            return 2 * n

        talk = Talk(p)
        talk.run("const call = (n) => servers.local.double({ n })")
        talk.run(f"{POISONS[name]}; 1")
        assert talk.say("return await call(input)", input=21) == 42
        assert talk.run("let z = 1; null.x").error is not None
        assert (
            talk.say(
                "let y = 3, [ ...w ] = 'a'; return y"
                if "iterator" not in name and "strings" not in name
                else "let y = 3; return y"
            )
            == 3
        )


def test_a_frozen_global_object_harms_only_its_session(talk: Talk) -> None:
    talk.run("Object.freeze(globalThis); 1")
    after = talk.run("1")
    assert after.status is Status.FAILED
    assert Talk(talk.paddock).say("1") == 1


def test_two_sessions_share_nothing(paddock: BlockingPaddock) -> None:
    one, other = Talk(paddock), Talk(paddock)
    one.run("let x = 1; globalThis.y = 2; Array.prototype.at = () => 3")
    assert other.say("[typeof x, typeof y, [0].at(0)]") == ["undefined", "undefined", 0]
