"""The SDK inside of a program: which calls wait, which are promises, and how their errors look."""

import asyncio

import pytest

from paddock.engines.javascript.task import GuestTask, HostReply
from paddock.model.limits import Grants, GuestLimits
from paddock.model.outcome import Status
from paddock.model.request import GuestRun

NAMES = {
    "changes": ["accept", "discard", "undo"],
    "cir": ["capture", "contradictions", "query", "search", "stats"],
    "health": ["check"],
    "ledger": ["verify"],
    "notify": ["send"],
    "output": ["query"],
    "script": ["run"],
    "sequence": ["list", "run"],
    "temporal": ["fire", "list"],
    "vault": ["get", "list", "set"],
    "webhook": ["delete", "list", "register", "test"],
}


class Host:
    """A host that echoes, slowly for servers; `refuse` names what it refuses."""

    def __init__(self):
        self.asked = []
        self.now = asyncio.Event()

    async def call(self, server, tool, arguments, on_reply, *, raw, encoded=(), is_method=False):
        self.asked.append(f"{server}/{tool}")
        await self.now.wait()
        on_reply(HostReply(Status.OK, value=[server, tool, arguments]))

    async def sdk(self, name, arguments, on_reply):
        self.asked.append(name)
        self.now.set()
        if name == "vault.get" and arguments == ["forbidden"]:
            error = {
                "name": "PolicyError",
                "message": "no secrets here",
                "status": "denied",
                "retryable": False,
            }
            on_reply(HostReply(Status.DENIED, error=error))
        else:
            on_reply(HostReply(Status.OK, value=None if arguments == [] else [name, arguments]))


@pytest.fixture
def run(guest):
    def run(source, **limits):
        async def job():
            host = Host()
            job = GuestTask(
                GuestRun(source=source),
                GuestLimits(**{"timeout_ms": 60_000, **limits}),
                Grants(),
                guest.workspace,
            )
            return await guest.session.gate.engines.guest.run(job, host), host.asked

        return guest.runner.run(job())

    return run


def test_the_names_are_frozen_and_complete(run):
    source = """
    const names = {};
    for (const group of Object.keys(paddock)) {
      if (Object.isFrozen(paddock[group]) && typeof paddock[group] === "object") names[group] = Object.keys(paddock[group]).sort();
    }
    const functions = Object.keys(paddock).filter((name) => typeof paddock[name] === "function").sort();
    return [names, functions, Object.isFrozen(paddock), paddock === mentu, Object.isFrozen(paddock.exec), paddock.exec.name];
    """
    result, _ = run(source)
    assert result.value == [
        {**NAMES, "vars": [], "workspace": ["path"]},
        ["compute", "exec", "tool"],
        True,
        True,
        True,
        "exec",
    ]


def test_older_scripts_get_values_without_await_and_newer_ones_with_it(run):
    result, asked = run(
        "return [mentu.vault.get('key', {scope: 'a'}), await paddock.cir.stats(1), typeof mentu.cir.stats()]"
    )
    assert result.value == [["vault.get", ["key", {"scope": "a"}]], ["cir.stats", [1]], "undefined"]
    assert asked == ["vault.get", "cir.stats", "cir.stats"]
    assert [(call.server, call.tool, call.status) for call in result.calls] == [
        ("paddock", "vault.get", Status.OK),
        ("paddock", "cir.stats", Status.OK),
        ("paddock", "cir.stats", Status.OK),
    ]


def test_answers_to_others_that_come_while_a_call_waits_are_not_lost(run):
    source = """
    const slow = [servers.a.one(), servers.b.two({x: 1}), paddock.exec("python", "1")];
    const now = paddock.vault.get("k");
    return [now, ...(await Promise.all(slow)).map((reply) => reply[0])];
    """
    result, asked = run(source)
    assert result.value == [["vault.get", ["k"]], "a", "b", "exec"]
    assert sorted(asked) == ["a/one", "b/two", "exec", "vault.get"]


def test_a_refusal_is_an_error_that_can_be_caught_where_it_happened(run):
    source = """try {
      paddock.vault.get("forbidden");
    } catch (error) {
      return [error instanceof Error, String(error), error.status, error.retryable];
    }"""
    result, _ = run(source)
    assert result.value == [True, "PolicyError: no secrets here", "denied", False]


def test_an_error_that_nobody_catches_shows_the_line_of_the_call(run):
    result, _ = run("const a = 1;\npaddock.vault.get('forbidden');")
    assert (result.status, result.error.message, result.error.line) == (Status.FAILED, "no secrets here", 2)


def test_a_large_answer_and_a_large_argument_pass_whole(run):
    result, _ = run("const big = 'é'.repeat(200000); return paddock.notify.send(big)[1][0] === big")
    assert result.value is True


def test_the_limit_of_calls_counts_both_ways(run):
    source = """
    paddock.vault.get("a");
    await paddock.exec("python", "1");
    try { paddock.vault.get("b") } catch (error) { return error.message }
    """
    result, _ = run(source, host_calls=2)
    assert result.value == "Host call limit reached (2 calls in one execution)"


def test_a_waiting_call_ends_at_the_wall_limit(guest, run):
    class Silent(Host):
        async def sdk(self, name, arguments, on_reply):
            await asyncio.Event().wait()

    async def job():
        limits = GuestLimits(timeout_ms=2_000)
        work = GuestRun(source="try { paddock.vault.get('a') } finally { console.log('no') }")
        return await guest.session.gate.engines.guest.run(
            GuestTask(work, limits, Grants(), guest.workspace), Silent()
        )

    result = guest.runner.run(job())
    assert (result.status, result.error.message, result.console) == (Status.TIMEOUT, "Execution timeout", ())
    assert result.error.hint == "it was waiting for paddock.vault.get; the limit is 2000 ms"


def test_arguments_beyond_the_limit_of_a_message_are_refused_in_the_program(run):
    result, asked = run("paddock.vault.set('a', 'x'.repeat(20_000_000))")
    assert result.error.message == "paddock.vault.set: the arguments are larger than 16777216 bytes"
    assert asked == []


def test_a_listener_that_fails_ends_the_program_and_is_named(guest):
    def listener(line):
        raise RuntimeError("listener trouble")

    request = guest.request("console.log('a'); await sleep(5000); return 1")
    outcome = guest.execute(request, on_console=listener)
    assert (outcome.status, outcome.error.message) == (
        Status.ERROR,
        "what serves the program failed outside of it (RuntimeError)",
    )
    assert guest.value("return 1") == 1
