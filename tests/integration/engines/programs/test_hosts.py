"""Programs with the network `hosts`: what the rules allow is reached through the proxy, everything is on the record."""

import asyncio
import contextlib
import http.server
import json
import os
import textwrap
import threading
from pathlib import Path

import pytest
from tests.support.network import make_authority
from tests.support.processes import PATIENCE_S
from tests.support.session import find_session

from paddock import BlockingPaddock, Settings, Status
from paddock.confinement.network import tls
from paddock.engines.programs.outcome_mapping import PROXY_ONLY
from paddock.engines.secrets.vault import open_vault
from paddock.gate.approvals import MAX_QUESTIONS_PER_RUN
from paddock.model.approval import Answer
from paddock.model.network import NetworkRule
from paddock.policy.settings.schema import AuditSettings, NetworkSettings, RuntimeSettings, VaultSettings

FETCH = """
import sys, urllib.error, urllib.request
for address in sys.argv[1:]:
    try:
        print(urllib.request.urlopen(address).read().decode())
    except urllib.error.HTTPError as error:
        print(error.code, error.read().decode().strip())
    except OSError as error:
        print(error)
"""


class _Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(f"{self.headers['Host']} {self.path}".encode())

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def port():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        server.shutdown()


def allow(host, port, effect="allow", **fields):
    return NetworkRule(
        host=host, effect=effect, ports=(port,), addresses=("127.0.0.0/8",), origin="user", **fields
    )


@contextlib.contextmanager
def open_programs(folder, *rules, asker=None, vault=None, **runtimes):
    settings = Settings(
        vault=vault or VaultSettings(directory=folder / "vault"),
        audit=AuditSettings(directory=folder / "audit"),
        runtimes=RuntimeSettings(**{"network": "hosts", **runtimes}),
        network=NetworkSettings(rule=rules),
    )
    (folder / "workspace").mkdir(exist_ok=True)
    with BlockingPaddock(folder / "workspace", settings=settings, asker=asker) as paddock:
        yield paddock


def list_shown(outcome):
    assert outcome.status is Status.OK, outcome.text
    return outcome.program.stdout.text


def records(paddock, event="connected"):
    return [dict(record.fields) | {"parent": record.parent} for record in paddock.find_records(event=event)]


def test_a_program_reaches_the_hosts_that_a_rule_allows_and_no_other(tmp_path, port):
    with open_programs(tmp_path, allow("localhost", port)) as paddock:
        addresses = [f"http://localhost:{port}/a", f"http://127.0.0.1:{port}/", "http://other.example.com/"]
        outcome = paddock.exec("python", FETCH, args=addresses, network="hosts")
        fix = 'add a [[network.rule]] with host = "other.example.com", effect = "allow" and ports = [80] to the user\'s paddock.toml'
        refused = f"other.example.com:80 is not allowed by any of the user network rules; {fix}"
        direct = "<urlopen error [Errno 111] Connection refused>"
        assert list_shown(outcome) == f"localhost:{port} /a\n{direct}\n403 Paddock: {refused}\n"
        first, second = sorted(
            outcome.network, key=lambda each: each.host
        )  # in the order in which they ended
        facts = (first.host, first.port, first.address, first.verdict, first.rule, first.reason)
        assert facts == ("localhost", port, "127.0.0.1", "allowed", "user network rule 1", "")
        assert first.sent_bytes > 0
        assert first.received_bytes > 0
        facts = (second.host, second.port, second.address, second.verdict, second.rule, second.reason)
        assert facts == ("other.example.com", 80, "", "refused", "user network rules", refused)
        found = [
            (each["host"], each["verdict"], each.get("reason", ""), each["parent"], each["sent_bytes"])
            for each in records(paddock)
        ]
        assert sorted(found) == [
            ("localhost", "allowed", "", outcome.id, first.sent_bytes),
            ("other.example.com", "refused", refused[:200], outcome.id, second.sent_bytes),
        ]


def test_a_program_that_used_its_proxy_gets_no_hint_to_use_it(tmp_path):
    code = "import sys; print('Temporary failure in name resolution', file=sys.stderr); sys.exit(3)"
    with open_programs(tmp_path, allow("nowhere.invalid", 80)) as paddock:
        unused = paddock.exec("python", code, network="hosts")
        assert (unused.network, unused.error.hint) == ((), PROXY_ONLY)
        used = paddock.exec("python", FETCH + code, args=["http://nowhere.invalid/"], network="hosts")
    [connection] = used.network
    assert (used.status, connection.host, connection.verdict) == (Status.FAILED, "nowhere.invalid", "allowed")
    assert used.error.hint == ""


@pytest.mark.parametrize(
    ("proxy", "told"),
    [
        ("http://[::1", "is not an address such as http://proxy.example:3128"),
        ("http://proxy.example:99999", "is not an address such as http://proxy.example:3128"),
        (
            "socks5://proxy.example:1080",
            "names a proxy with the scheme socks5; programs reach hosts only through a proxy with the scheme http",
        ),
        (
            "https://proxy.example",
            "names a proxy with the scheme https; programs reach hosts only through a proxy with the scheme http",
        ),
    ],
)
def test_a_proxy_that_paddock_cannot_use_is_reported_before_anything_starts(
    tmp_path, monkeypatch, proxy, told
):
    monkeypatch.delenv("https_proxy", raising=False)
    monkeypatch.setenv("HTTPS_PROXY", proxy)
    with open_programs(tmp_path, allow("localhost", 443)) as paddock:
        for more in ({}, {"session": "new"}):
            outcome = paddock.exec("python", "print(1)", network="hosts", **more)
            assert (outcome.status, outcome.program) == (Status.UNAVAILABLE, None)
            assert outcome.error.message == f"HTTPS_PROXY {told}"
        assert list_shown(paddock.exec("python", "print(1)")) == "1\n"


def test_the_hint_on_a_failed_program_says_what_would_allow_its_connections(tmp_path, port):
    with open_programs(tmp_path, allow("localhost", port)) as paddock:
        addresses = [f"http://h{number}.example.com/" for number in (1, 2, 1, 3, 4, 5)]
        outcome = paddock.exec("python", FETCH + "sys.exit(3)", args=addresses, network="hosts")
        fixes = [
            f"h{number}.example.com:80 is not allowed by any of the user network rules; add a [[network.rule]] with "
            f'host = "h{number}.example.com", effect = "allow" and ports = [80] to the user\'s paddock.toml'
            for number in (1, 2, 3)
        ]
        assert (outcome.status, outcome.error.hint) == (Status.FAILED, "; ".join([*fixes, "and 2 more"]))
        served = f"http://localhost:{port}/"
        for arguments, code in (([served], "sys.exit(3)"), (addresses, "")):
            outcome = paddock.exec("python", FETCH + code, args=arguments, network="hosts")
            assert outcome.error is None or outcome.error.hint == ""
        session = paddock.exec("python", "x = 1", session="new", network="hosts").session.id
        fetch = "__import__('urllib.request').request.urlopen('http://h1.example.com/')"
        outcome = paddock.exec("python", fetch, session=session)
        assert (outcome.status, outcome.error.hint) == (Status.FAILED, fixes[0])


def test_node_reaches_hosts_with_fetch_and_http(tmp_path, port):
    program = """
        import http from "node:http";
        const [, , granted, refused] = process.argv;
        const get = (address) => new Promise((done) => http.get(address, (answer) => {
          let text = "";
          answer.on("data", (data) => { text += data; }).on("end", () => done(text));
        }).on("error", (error) => done(`${error.code} ${error.message}`)));
        const ask = (address) => fetch(address).then((answer) => answer.text(), (error) => error.cause.message);
        for (const address of [granted, refused]) console.log(await ask(address), "|", await get(address));
        const own = http.createServer((_, answer) => answer.end("own")).listen(0, "127.0.0.1", async () => {
          const address = `http://127.0.0.1:${own.address().port}/`;
          console.log(await ask(address), await get(address));
          own.closeAllConnections();
          own.close();
        });
        """
    with open_programs(tmp_path, allow("localhost", port)) as paddock:
        (tmp_path / "workspace" / "main.mjs").write_text(textwrap.dedent(program))
        addresses = [f"http://localhost:{port}/a", f"http://other.example.com:{port}/"]
        outcome = paddock.exec("node", file="main.mjs", args=addresses, network="hosts")
        fix = f'add a [[network.rule]] with host = "other.example.com", effect = "allow" and ports = [{port}] to the user\'s paddock.toml'
        refused = f"Paddock: other.example.com:{port} is not allowed by any of the user network rules; {fix}"
        served = f"localhost:{port} /a"
        assert (
            list_shown(outcome) == f"{served} | {served}\n{refused} | ERR_PROXY_TUNNEL {refused}\nown own\n"
        )


def test_a_request_narrows_to_the_hosts_that_it_names(tmp_path, port):
    with open_programs(tmp_path, allow("localhost", port), allow("files.example.com", port)) as paddock:
        address = f"http://localhost:{port}/"
        outcome = paddock.exec("python", FETCH, args=[address], network=["files.example.com"])
        refused = f"localhost:{port} is not among the hosts of this request (files.example.com); request localhost, too"
        assert list_shown(outcome) == f"403 Paddock: {refused}\n"
        assert (
            list_shown(paddock.exec("python", FETCH, args=[address], network=["localhost"]))
            == f"localhost:{port} /\n"
        )


def test_hosts_that_no_rule_allows_are_refused_before_the_start(tmp_path, port):
    fix = "to the user's paddock.toml"
    with open_programs(tmp_path, allow("localhost", port)) as paddock:
        outcome = paddock.exec("python", FETCH, network=["api.example.com"])
        reason = f'no rule allows api.example.com; add a [[network.rule]] with host = "api.example.com" and effect = "allow" {fix}'
        assert (outcome.status, outcome.decision.reasons) == (Status.DENIED, (reason,))
        widened = paddock.exec("python", FETCH, network="full")
        assert widened.decision.reasons == (
            'network full is not granted (granted: hosts); set `network = "full"` under [runtimes] in the paddock.toml '
            "of the user or the system",
        )
    with open_programs(tmp_path) as paddock:
        outcome = paddock.exec("python", FETCH, network="hosts")
        reason = f'no rule allows a host; add a [[network.rule]] with host = "api.example.com" and effect = "allow" {fix}'
        assert (outcome.status, outcome.decision.reasons) == (Status.DENIED, (reason,))


def test_a_decision_on_some_hosts_does_not_hold_for_others(tmp_path, port):
    """Decisions are remembered by what they depend on."""
    with open_programs(tmp_path, allow("localhost", port)) as paddock:
        address = f"http://localhost:{port}/"
        assert (
            list_shown(paddock.exec("python", FETCH, args=[address], network=["localhost"]))
            == f"localhost:{port} /\n"
        )
        assert (
            paddock.exec("python", FETCH, args=[address], network=["api.example.com"]).status is Status.DENIED
        )
        unresolved = "<urlopen error [Errno -3] Temporary failure in name resolution>\n"
        assert list_shown(paddock.exec("python", FETCH, args=[address])) == unresolved


@pytest.mark.parametrize(("verdict", "answer"), [("once", "allowed"), ("denied", "refused")])
def test_a_person_is_asked_where_a_rule_says_so(tmp_path, port, verdict, answer):
    questions = []

    async def ask(question):
        questions.append((question.what, json.loads(question.details), question.reasons))
        return Answer(verdict=verdict, by="ada")

    rule = allow("localhost", port, effect="ask", reason="the files of the team")
    with open_programs(tmp_path, rule, asker=ask) as paddock:
        address = f"http://localhost:{port}/"
        outcome = paddock.exec("python", FETCH, args=[address, address], network="hosts")
        assert questions == [
            (
                f"connect a program to localhost:{port}",
                {"host": "localhost", "port": port},
                ("the files of the team",),
            )
        ]
        assert {each.verdict for each in outcome.network} == {answer}
        told = "403 Paddock: the files of the team; the answer was no, or there was none\n"
        assert list_shown(outcome) == (f"localhost:{port} /\n" if answer == "allowed" else told) * 2
        [asked] = records(paddock, "asked")
        assert (asked["kind"], asked["name"]) == ("connection", f"connect a program to localhost:{port}")


def test_a_person_is_asked_about_each_request_where_a_rule_has_methods(tmp_path, port):
    questions = []

    async def ask(question):
        questions.append((question.what, json.loads(question.details)))
        return Answer(verdict="denied" if question.what.startswith("send GET /b ") else "once", by="ada")

    rule = allow("localhost", port, effect="ask").replace(methods=("GET",))
    with open_programs(tmp_path, rule, asker=ask) as paddock:
        addresses = [f"http://localhost:{port}{path}" for path in ("/a?x", "/b", "/a?y")]
        outcome = paddock.exec("python", FETCH, args=addresses, network="hosts")
        where = f"localhost:{port}"
        assert questions == [
            (
                f"send GET {path} to {where} for a program",
                {"host": "localhost", "port": port, "request": f"GET {path}"},
            )
            for path in ("/a", "/b")
        ]
        told = f"sending GET {where}/b needs a person's approval, says user network rule 1; the answer was no, or there was none"
        assert list_shown(outcome) == f"{where} /a?x\n403 Paddock: {told}\n{where} /a?y\n"
        assert sorted(asked["name"] for asked in records(paddock, "asked")) == [what for what, _ in questions]


def test_without_a_person_to_ask_the_connection_is_refused(tmp_path, port):
    with open_programs(tmp_path, allow("localhost", port, effect="ask")) as paddock:
        outcome = paddock.exec("python", FETCH, args=[f"http://localhost:{port}/"], network="hosts")
        [refused] = outcome.network
        assert (refused.verdict, refused.reason) == (
            "refused",
            f"connecting to localhost:{port} needs a person's approval, says user network rule 1; the answer was no, or "
            "there was none",
        )


def find_states():
    """Return the states of the processes that have the number of this one as their name (proc_pid_stat(5))."""
    states = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            name, _, rest = stat.read_text().partition(") ")
            if name.endswith(f"({os.getpid()}"):
                states.add(rest[0])
    return states


@pytest.mark.parametrize("session", [None, "new"])
def test_a_program_stands_still_while_a_person_is_asked(tmp_path, port, session):
    found = []

    async def ask(_):
        async with asyncio.timeout(PATIENCE_S):
            while find_states() != {"t"}:  # noqa: ASYNC110 - /proc announces nothing
                await asyncio.sleep(0.01)
        found.append(find_states())
        return Answer(verdict="once", by="ada")

    named = f"import ctypes; ctypes.CDLL(None).prctl(15, b'{os.getpid()}')\n"  # PR_SET_NAME
    fetch = f"import urllib.request as r; print(r.urlopen('http://localhost:{port}/').read().decode())"
    with open_programs(tmp_path, allow("localhost", port, effect="ask"), asker=ask) as paddock:
        outcome = paddock.exec("python", named + fetch, network="hosts", session=session)
        assert list_shown(outcome) == f"localhost:{port} /\n"
        assert found == [{"t"}]


def test_questions_are_bounded_however_many_hosts_a_program_names(tmp_path):
    """Its clock stands while a person is asked: a program must not stop it for ever."""
    questions = []

    async def ask(question):
        questions.append(question.what)
        return Answer(verdict="denied", by="ada")

    addresses = [f"http://h{number}.example.com/" for number in range(MAX_QUESTIONS_PER_RUN + 5)]
    with open_programs(tmp_path, allow("*.example.com", 80, effect="ask"), asker=ask) as paddock:
        outcome = paddock.exec("python", FETCH, args=addresses, network="hosts")
        assert questions == [
            f"connect a program to h{number}.example.com:80" for number in range(MAX_QUESTIONS_PER_RUN)
        ]
        assert {each.verdict for each in outcome.network} == {"refused"}
        assert len(outcome.network) == len(addresses)


def test_a_session_keeps_its_hosts_and_each_execution_has_its_connections(tmp_path, port):
    fetch = f"print(__import__('urllib.request').request.urlopen('http://localhost:{port}/').status)"
    with open_programs(tmp_path, allow("localhost", port)) as paddock:
        first = paddock.exec("python", "x = 1", session="new", network="hosts")
        handle = first.session.id
        second = paddock.exec("python", fetch, session=handle)
        third = paddock.exec("python", "print(x)", session=handle)
        assert [list_shown(each) for each in (first, second, third)] == ["", "200\n", "1\n"]
        assert [len(each.network) for each in (first, second, third)] == [0, 1, 0]
        assert [each["parent"] for each in records(paddock)] == [second.id]
        other = paddock.exec("python", "print(x)", session=handle, network=["files.example.com"])
        assert other.status is not Status.OK


def test_secrets_in_names_of_hosts_are_not_recorded(tmp_path, port):
    token = "ghp_" + "a1B2c3D4e5F6" * 3
    with open_programs(tmp_path, allow("localhost", port)) as paddock:
        outcome = paddock.exec("python", FETCH, args=[f"http://{token}.example.com/"], network="hosts")
        recorded = json.dumps([records(paddock), [each.model_dump() for each in outcome.network]])
        assert token.lower() not in recorded.lower()


def test_connections_end_with_their_program(tmp_path, port):
    """A process that the program leaves behind keeps no connection; a killed one neither."""
    hold = f"""
import os, socket, time
s = socket.create_connection(("127.0.0.1", 3128))
s.sendall(b"CONNECT localhost:{port} HTTP/1.1\\r\\nHost: localhost:{port}\\r\\n\\r\\n")
print(s.recv(12))
if os.fork() == 0:
    time.sleep(600)
"""
    with open_programs(tmp_path, allow("localhost", port)) as paddock:
        outcome = paddock.exec("python", hold, network="hosts")
        assert list_shown(outcome) == "b'HTTP/1.1 200'\n"
        assert [each.verdict for each in outcome.network] == ["allowed"]
        assert find_session(paddock) is not None


ASK = """
import subprocess, sys, urllib.error, urllib.request
for path in ("/echo", "/other"):
    try:
        print(urllib.request.urlopen(sys.argv[1] + path).read().decode())
    except urllib.error.HTTPError as error:
        print(error.code, error.read().decode().strip())
print(subprocess.run(["curl", "-sS", sys.argv[1] + "/echo"], capture_output=True, text=True).stdout)
print("in the program:", sys.argv[2] in open("/proc/self/environ").read())
"""


class _TokenHandler(_Handler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        token = (self.headers["Authorization"] or "").removeprefix("Bearer ")
        self.wfile.write(f"{len(token)} {self.path}".encode())


def test_a_secret_is_added_to_requests_that_the_program_never_sees(tmp_path, monkeypatch):
    token = "a-token-of-the-vault"
    authority = make_authority(tmp_path / "authority", "localhost")
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))
    tls._make_client_context.cache_clear()
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _TokenHandler) as server:
        server.socket = authority.server.wrap_socket(
            server.socket, server_side=True, do_handshake_on_connect=False
        )
        threading.Thread(target=server.serve_forever, daemon=True).start()
        port = server.server_port
        rule = allow("localhost", port, paths=("/echo",), header={"Authorization": "Bearer ${vault:TOKEN}"})
        vault = VaultSettings(backend="file", directory=tmp_path / "vault")
        open_vault(vault).set("global", "TOKEN", token)
        with open_programs(tmp_path, rule, vault=vault) as paddock:
            outcome = paddock.exec("python", ASK, args=[f"https://localhost:{port}", token], network="hosts")
            answered = f"{len(token)} /echo"
            where = f"GET localhost:{port}/other"
            fix = "add its path to `paths` of network rule 1 in the user's paddock.toml"
            refused = f"403 Paddock: {where} is not allowed by any of the user network rules; {fix}"
            assert list_shown(outcome) == f"{answered}\n{refused}\n{answered}\nin the program: False\n"
            assert token not in json.dumps([records(paddock), outcome.model_dump(mode="json")])
        server.shutdown()
    tls._make_client_context.cache_clear()
