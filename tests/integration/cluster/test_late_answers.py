"""Answers to questions of a replica that was killed: whoever gives one is told."""

import re
from contextlib import ExitStack
from pathlib import Path

from mcp_types import ElicitResult
from tests.integration.cluster.test_forwarding import ASK, call_stateless
from tests.support.command import run_paddock
from tests.support.http_api import ApiClient, Background, read_problem
from tests.support.replicas import ReplicaSet, make_token_settings

from paddock.cluster.node import MARK_CHARS

CODE = "return await servers.odd.echo({text: 'hi'})"
# On a busy machine, the lease may be over before the answer is given.
TOLD = "{} waits no longer: the replica that asked has ended(; the answer was withdrawn, and nothing was allowed)?"


def list_questions(api: ApiClient) -> list[str]:
    return [each["question"]["id"] for each in api.get("/v1/approvals").json()["approvals"]]


def test_whoever_answers_a_killed_replica_is_told(url: str, tmp_path: Path) -> None:
    settings, tokens = make_token_settings("alice", "boss", approve="boss")
    replicas = ReplicaSet(tmp_path, url, ASK + settings, 2)
    scripts = replicas.places[0].workspace / ".paddock" / "scripts"
    scripts.mkdir(parents=True)
    (scripts / "hello.ts").write_text("return 'hello'\n")
    with replicas.run(), ExitStack() as stack:
        dying = stack.enter_context(replicas.servers[0].client(tokens["alice"]))
        alice, boss = (
            stack.enter_context(replicas.servers[1].client(tokens[each])) for each in ("alice", "boss")
        )
        paused = call_stateless(dying, "prompts/get", "run-script", elicits=True, arguments={})
        for _ in range(2):
            waiting = call_stateless(dying, "tools/call", "execute_code", arguments={"code": CODE})
            assert waiting["structuredContent"]["status"] == "waiting"
        first, second = list_questions(boss)
        replicas.servers[0].process.kill()
        replicas.servers[0].process.wait()
        over_http = Background(lambda: boss.post(f"/v1/approvals/{first}", json={"verdict": "once"}))
        place = replicas.places[1]
        at_terminal = run_paddock(place.workspace, "approve", second, "--deny", environment=place.environment)
        status, kind, text = read_problem(over_http.result())
        assert (status, kind) == (410, "execution-lost")
        assert re.fullmatch(TOLD.format(first) + r"\.", text)
        assert (at_terminal.returncode, at_terminal.stdout) == (1, "")
        assert re.fullmatch(TOLD.format(second) + "\n", at_terminal.stderr)
        assert list_questions(boss) == []
        form = ElicitResult(action="accept", content={"script": "hello"})
        answers = {"script": form.model_dump(by_alias=True, exclude_none=True)}
        resumed = {"inputResponses": answers, "requestState": paused["requestState"], "arguments": {}}
        mark = paused["requestState"][:MARK_CHARS]
        while (
            alice.get(f"/v1/sessions/s_{mark}{'0' * 32}").status_code == 503
        ):  # replicas read leases now and then
            pass
        late = call_stateless(alice, "prompts/get", "run-script", elicits=True, **resumed)
    assert late["error"] == {
        "code": -32602,
        "message": "The replica of the server that asked has ended, and the paused call with it: the answer reaches "
        "no call. Send the call again, without `requestState`",
    }
