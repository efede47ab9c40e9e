"""What one user of a server has, and what another one tries in order to see, change or stop it."""

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple

from tests.support.tenants import TenantsRunner

from paddock.gate.question_directory import QuestionDirectory
from paddock.model.artifact import Handle
from paddock.model.request import ExecutionRequest, GuestRun, ReplayRun, RuntimeRun
from paddock.model.work_files import InputFile
from paddock.surfaces.tenants import Tenant
from paddock.surfaces.tenants.narrowing import make_user_key

SERVER_PROGRAM = """
import os, socket, socketserver, sys
mark, port = sys.argv[1], int(sys.argv[2])
os.environ["MARK"] = mark
open("/tmp/mark", "w").write(mark)
hidden = socket.socket(socket.AF_UNIX)
hidden.bind("\\0paddock-test-" + str(port))
hidden.listen()
class Answer(socketserver.BaseRequestHandler):
    def handle(self):
        self.request.sendall(mark.encode())
with socketserver.TCPServer(("127.0.0.1", port), Answer) as server:
    print("listening", flush=True)
    server.serve_forever()
"""
"""A program that runs until it is stopped. It shows its mark to whoever reaches it."""


class Belongings(NamedTuple):
    """What a user has on the server."""

    tenant: Tenant
    mark: str
    """A text that is in everything below, and that nobody else may see."""
    session: str
    artifact: str
    recorded: str
    """Id of the run that was recorded."""
    question: str
    asking: str
    """Id of the request that waits for a person."""
    running: str
    """Id of the request that runs."""
    port: int
    """Where its program listens."""
    tasks: "tuple[asyncio.Task[Any], ...]"


def prepare(runner: TenantsRunner, owner: Tenant, port: int) -> Belongings:
    """Let a user open a session, store output, record a run and a signal, ask a person and run a program."""
    mark = f"mark-{secrets.token_hex(8)}"
    opened = runner.execute(
        owner,
        RuntimeRun(
            runtime="python",
            code=f"secret = {mark!r}; open('secret.txt', 'w').write(secret)",
            session="new",
        ),
    )
    assert opened.session is not None, opened
    printed = runner.execute(owner, RuntimeRun(runtime="python", code=f"print({mark!r})"))
    assert printed.program is not None
    assert printed.program.artifact is not None
    noted = runner.execute(owner, GuestRun(source=f"return paddock.cir.capture({mark!r})"))
    assert noted.status == "ok", noted
    recorded = runner.execute(owner, GuestRun(source=f"return {mark!r}", record=True))
    assert recorded.recording is not None, recorded
    wanted = RuntimeRun(runtime="python", code=f"print({mark!r})", access="workspace-write")
    asking, started = runner.make_request(wanted), asyncio.Event()
    program = RuntimeRun(runtime="python", code=SERVER_PROGRAM, args=(mark, str(port)), network="loopback")
    running = runner.make_request(program)
    tasks = (
        runner.begin(owner.execute(asking)),
        runner.begin(owner.execute(running, on_output=lambda *_: started.set())),
    )
    runner.wait_until(lambda: bool(runner.list_questions_of(owner)) and started.is_set())
    (waiting,) = runner.list_questions_of(owner)
    return Belongings(
        owner,
        mark,
        opened.session.id,
        printed.program.artifact,
        recorded.id,
        waiting.question.id,
        asking.id,
        running.id,
        port,
        tasks,
    )


def is_untouched(runner: TenantsRunner, own: Belongings) -> bool:
    """Return whether everything is as it was."""
    tenant = own.tenant
    assert [task.done() for task in own.tasks] == [False, False]
    assert [each.question.id for each in runner.list_questions_of(tenant)] == [own.question]
    assert [each.id for each in tenant.opened.programs.list_sessions(tenant.actor)] == [own.session]
    read = runner.run(tenant.opened.programs.sessions.read_file(tenant.actor, own.session, "secret.txt"))
    stored = tenant.opened.output.artifacts().read(own.artifact, runner.workspace)
    return (read.decode(), stored.decode()) == (own.mark, f"{own.mark}\n")


Attempt = Callable[[Tenant, Belongings], Awaitable[object]]


def _request(tenant: Tenant, work: Any, **fields: Any) -> ExecutionRequest:
    return ExecutionRequest(workspace=tenant.opened.servers._workspace, surface="http", work=work, **fields)


def run_python(code: str, **fields: Any) -> Attempt:
    """Run a program in which words in braces stand for what the other user has."""

    async def attempt(tenant: Tenant, own: Belongings) -> object:
        key = make_user_key(own.tenant.actor)
        serve = own.tenant.settings.serve.directory
        names = {
            "serve": serve,
            "user": serve / "users" / key,
            "artifacts": own.tenant.settings.artifacts.directory,
            "audit": own.tenant.settings.audit.directory,
            "recordings": own.tenant.settings.record.directory,
            "recorded": own.recorded,
            "port": own.port,
        }
        filled = code
        for name, value in names.items():
            filled = filled.replace("{" + name + "}", str(value))
        given = {key: value(own) if callable(value) else value for key, value in fields.items()}
        work = RuntimeRun(runtime="python", code=filled, **given)
        return (await tenant.execute(_request(tenant, work))).model_dump_json()

    return attempt


def run_guest(source: Callable[[Belongings], str], **fields: Any) -> Attempt:
    """Run JavaScript."""

    async def attempt(tenant: Tenant, own: Belongings) -> object:
        given = {key: value(own) if callable(value) else value for key, value in fields.items()}
        return (
            await tenant.execute(_request(tenant, GuestRun(source=source(own), **given)))
        ).model_dump_json()

    return attempt


def claim_to_be(work: Callable[[Belongings], Any], *, direct: bool = False) -> Attempt:
    """Send a request in the name of the other user."""

    async def attempt(tenant: Tenant, own: Belongings) -> object:
        request = _request(tenant, work(own), actor=own.tenant.actor)
        if direct:
            return (await tenant.opened.gate.execute(request)).model_dump_json()
        return (await tenant.execute(request)).model_dump_json()

    return attempt


def replay(owner: Callable[[Belongings], str] = lambda _own: "") -> Attempt:
    """Repeat the recorded run with another program. The report has the recorded value, which is different."""

    async def attempt(tenant: Tenant, own: Belongings) -> object:
        work = ReplayRun(run=own.recorded, owner=owner(own), source="return 1")
        return (await tenant.execute(_request(tenant, work))).model_dump_json()

    return attempt


async def repeat_id(tenant: Tenant, own: Belongings) -> object:
    """Run something under the id of the other user's running request."""
    work = RuntimeRun(runtime="python", code="print(1)")
    return await tenant.execute(_request(tenant, work, id=own.running))


async def answer_in_directory(tenant: Tenant, own: Belongings) -> object:
    """Look for the question in the attacker's own directory."""
    return QuestionDirectory(tenant.settings.approvals.directory).find_question(own.question)


async def close_own_session(tenant: Tenant, _own: Belongings) -> object:
    """End everything that the attacker can end."""
    await tenant.opened.gate.aclose()
    await tenant.close()
    await tenant.open()
    return tenant.opened.programs.list_sessions(tenant.actor)


def now(work: Callable[[Tenant, Belongings], object]) -> Attempt:
    """Make an attempt of a function."""

    async def attempt(tenant: Tenant, own: Belongings) -> object:
        found = work(tenant, own)
        return await found if isinstance(found, Awaitable) else found

    return attempt


async def find_records(tenant: Tenant) -> list[Any]:
    """Return the records that a user sees, without its attempts to replay: these have the owner whom it named."""
    return [each for each in await tenant.find_records() if each.fields.get("kind") != "replay"]


def _sessions(tenant: Tenant) -> Any:
    return tenant.opened.programs.sessions


def _artifacts(tenant: Tenant) -> Any:
    return tenant.opened.output.artifacts()


IN_SESSION = RuntimeRun(runtime="python", code="print(secret)", session="new")

ATTEMPTS: Mapping[str, Attempt] = {
    "run a program in the session": run_python("print(secret)", session=lambda own: own.session),
    "run a program in the session in its owner's name": claim_to_be(
        lambda own: IN_SESSION.replace(session=own.session)
    ),
    "the same through the gate": claim_to_be(
        lambda own: IN_SESSION.replace(session=own.session), direct=True
    ),
    "run JavaScript in the session": run_guest(lambda _own: "secret", session=lambda own: own.session),
    "find the session": now(lambda t, own: _sessions(t).find_open(t.actor, own.session)),
    "find the session in its owner's name": now(
        lambda t, own: _sessions(t).find_open(own.tenant.actor, own.session)
    ),
    "list sessions": now(lambda t, _own: t.opened.programs.list_sessions(t.actor)),
    "list sessions in their owner's name": now(
        lambda t, own: t.opened.programs.list_sessions(own.tenant.actor)
    ),
    "interrupt the session": now(lambda t, own: _sessions(t).interrupt(own.tenant.actor, own.session)),
    "close the session": now(lambda t, own: _sessions(t).close_session(own.tenant.actor, own.session)),
    "learn how the session ended": now(
        lambda t, own: _sessions(t).explain_end(own.tenant.actor, own.session)
    ),
    "read a file of the session": now(
        lambda t, own: _sessions(t).read_file(own.tenant.actor, own.session, "secret.txt")
    ),
    "list files of the session": now(
        lambda t, own: t.opened.programs.list_session_files(own.tenant.actor, own.session)
    ),
    "remove a file of the session": now(
        lambda t, own: _sessions(t).remove_file(own.tenant.actor, own.session, "secret.txt")
    ),
    "read the artifact": now(
        lambda t, own: _artifacts(t).read(own.artifact, own.tenant.opened.servers._workspace)
    ),
    "read the artifact from any workspace": now(lambda t, own: _artifacts(t).read(own.artifact, None)),
    "find the artifact": now(lambda t, own: _artifacts(t).find(own.artifact, None)),
    "list artifacts": now(lambda t, _own: [*map(str, _artifacts(t).list())]),
    "list the newest artifacts": now(lambda t, _own: [*map(str, _artifacts(t).newest_handles(None))]),
    "read the artifact by a path": now(
        lambda t, own: _artifacts(t).read(f"../{make_user_key(own.tenant.actor)}/{own.artifact}", None)
    ),
    "delete the artifact": now(lambda t, own: _artifacts(t).drop(Handle.parse(own.artifact))),
    "sweep artifacts": now(lambda t, _own: _artifacts(t).sweep()),
    "take the artifact as a file": run_python(
        "print(open('taken').read())",
        files=lambda own: (InputFile(path="taken", artifact=own.artifact),),
    ),
    "query the artifact from a program": run_guest(
        lambda own: f"return paddock.output.query({own.artifact!r}, {{lines: [1, 9]}})"
    ),
    "replay the recorded run": replay(),
    "name its owner in the replay": replay(lambda own: own.tenant.actor),
    "replay it in the name of its owner": claim_to_be(
        lambda own: ReplayRun(run=own.recorded, source="return 1"), direct=True
    ),
    "read the recording": run_python("print(open('{recordings}/{recorded}.recording', 'rb').read())"),
    "list questions": now(lambda t, _own: t.list_questions()),
    "list own questions": now(lambda t, _own: t.list_own_questions()),
    "allow the question": now(lambda t, own: t.answer_question(own.question, "once")),
    "deny the question": now(lambda t, own: t.answer_question(own.question, "denied")),
    "find the question in a directory": answer_in_directory,
    "read records": now(lambda t, _own: find_records(t)),
    "read records of the running request": now(lambda t, own: t.find_records(name=own.running)),
    "read records of the request that asks": now(
        lambda t, own: t.find_records(name=own.asking, event="asked")
    ),
    "verify the ledger from a program": run_guest(lambda _own: "return paddock.ledger.verify()"),
    "query signals": run_guest(lambda _own: "return paddock.cir.query({})"),
    "search signals": run_guest(lambda own: f"return paddock.cir.search({own.mark[:4]!r})"),
    "count signals": run_guest(lambda _own: "return paddock.cir.stats()"),
    "repeat the id of the running request": repeat_id,
    "end everything": close_own_session,
    "kill every process": run_python("import os, signal; os.kill(-1, signal.SIGKILL)"),
    "kill every process by number": run_python(
        "import os, signal\n"
        "for pid in range(2, 99999):\n"
        "    try: pid != os.getpid() and os.kill(pid, signal.SIGKILL)\n"
        "    except OSError: pass\n"
    ),
    "read the environment and the command of every process": run_python(
        "import glob\n"
        "for path in glob.glob('/proc/[0-9]*/*'):\n"
        "    if path.split('/')[-1] in ('environ', 'cmdline', 'maps'):\n"
        "        try: print(open(path, 'rb').read())\n"
        "        except OSError: pass\n"
    ),
    "read every temporary file": run_python(
        "import os\n"
        "for root in ('/tmp', '/var/tmp', '/dev/shm', '/run'):\n"
        "    for folder, _, names in os.walk(root):\n"
        "        for name in names:\n"
        "            path = os.path.join(folder, name)\n"
        "            try: os.path.isfile(path) and print(path, open(path, 'rb').read(1000))\n"
        "            except OSError: pass\n"
    ),
    "read the hashes of tokens": run_python("print(open('{serve}/tokens.json').read())"),
    "read the other user's directory": run_python(
        "import os\nfor each in os.walk('{user}'): print(each)\nprint(os.listdir('{user}/approvals'))"
    ),
    "read stored output": run_python("import os\nfor each in os.walk('{artifacts}'): print(each)"),
    "read the ledger": run_python(
        "import os\nfor each in os.listdir('{audit}'): print(open('{audit}/' + each).read())"
    ),
    "reach the program by its port": run_python(
        "import socket\nprint(socket.create_connection(('127.0.0.1', {port}), 2).recv(100))",
        network="loopback",
    ),
    "reach the program by its abstract socket": run_python(
        "import socket\ns = socket.socket(socket.AF_UNIX)\ns.connect('\\0paddock-test-{port}')\nprint(s.recv(100))",
        network="loopback",
    ),
}

OWNER_SEES = (
    "run a program in the session",
    "the same through the gate",
    "read a file of the session",
    "read the artifact",
    "take the artifact as a file",
    "query the artifact from a program",
    "replay the recorded run",
    "replay it in the name of its owner",
    "list own questions",
    "find the question in a directory",
    "query signals",
    "search signals",
)
"""Attempts that show the owner what they do not show another user. So they are not vain by a mistake in them."""
