"""Files that hold secrets are hidden from everything that runs in a workspace, and each says so."""

import asyncio
import json
import shutil

import pytest
from tests.support.command import make_environment, run_paddock
from tests.support.servers import FOLDER, write_servers

from paddock import Paddock, Settings, Status
from paddock.confinement.sandbox.sandbox import KernelSandbox
from paddock.gate.open_paddock import open_paddock
from paddock.model.outcome import SandboxFacts
from paddock.policy.settings.schema import AuditSettings, ServerSettings, WorkspaceSettings

READ = "print(open('.env').read())"
HINT = (
    ".env is hidden from programs, because it holds secrets (workspace.hide); a person can show it with `paddock exec "
    "--show .env`, or for agents with `show` under [workspace] in the user's paddock.toml"
)
TOOL = "import os\nprint(open(os.environ['WORKSPACE'] + '/.env').read())\n"


@pytest.fixture
def workspace(tmp_path):
    (folder := tmp_path / "ws").mkdir()
    (folder / ".env").write_text("SECRET")
    (folder / ".env.example").write_text("PUBLIC")
    return folder


def open_here(folder, **settings):
    return Paddock(
        folder, settings=Settings(audit=AuditSettings(directory=folder.parent / "audit"), **settings)
    )


def run(work):
    return asyncio.run(asyncio.wait_for(work, 120))


def test_a_program_and_each_program_of_a_session_get_a_hint(workspace):
    code = READ.replace(".env", f"{workspace}/.env")

    async def go():
        async with open_here(workspace) as paddock:
            alone = await paddock.exec("python", READ)
            async with paddock.session("python") as session:  # it works in a separate directory
                return alone, await session.run(code), await session.run("1"), await session.run(code)

    alone, first, between, last = run(go())
    assert between.status is Status.OK
    assert [(each.status, each.error.hint) for each in (alone, first, last)] == [(Status.FAILED, HINT)] * 3


def test_a_program_that_reads_what_is_shown_works(workspace):
    async def go():
        async with open_here(workspace, workspace=WorkspaceSettings(show=(".env",))) as paddock:
            return await paddock.exec("shell", "cat .env .env.example")

    assert run(go()).program.stdout.head == "SECRETPUBLIC"


def test_a_file_that_a_person_runs_is_run_from_a_copy(workspace):
    (workspace / ".env.local").write_text("echo ran; cat .env.local")

    async def go():
        async with open_here(workspace) as paddock:
            return await paddock.exec("shell", file=".env.local")

    outcome = run(go())
    assert (outcome.status, outcome.program.stdout.head) == (Status.FAILED, "ran\n")


def test_a_script_tool_reads_no_hidden_file_of_the_workspace_nor_of_its_own_folder(workspace):
    folder = workspace / ".paddock" / "tools" / "t"
    folder.mkdir(parents=True)
    (folder / "tool.yaml").write_text(json.dumps({"id": "t", "name": "t", "script": "script.py"}))
    (folder / "script.py").write_text(READ)
    (folder / ".env").write_text("SECRET")

    async def go():
        async with open_here(workspace) as paddock:
            return await paddock.tool("t")

    end = run(go()).tool
    assert (end.success, end.stdout, end.error.splitlines()[-1]) == (False, "", f"hint: {HINT}")


@pytest.mark.parametrize("tier", ["namespaces", "landlock"])
@pytest.mark.parametrize(
    ("confine", "expected"),
    [
        ({"read": ["."]}, ["PermissionError", "PUBLIC"]),
        ({"read": ["."], "write": ["data"]}, ["PermissionError", "PUBLIC"]),
        ({"read": ["code", ".env"]}, ["SECRET"]),
    ],
)
def test_a_confined_server_reads_a_hidden_file_only_if_its_entry_names_it(tier, confine, expected, workspace):
    for name in ("data", "code"):
        (workspace / name).mkdir()
    program = shutil.copy(FOLDER / "hostile.py", workspace / "code")
    entry = {"command": "/usr/bin/python3", "args": ["-I", "-S", str(program)], "timeoutMs": 3_600_000}
    write_servers(workspace, {"evil": {**entry, "paddock": {"confine": confine}}})
    settings = Settings(
        audit=AuditSettings(directory=workspace.parent / "audit"),
        servers=ServerSettings(state=workspace.parent / "state"),
    )

    async def go():
        async with open_paddock(settings, workspace) as opened:
            opened.processes.use_sandbox(KernelSandbox(SandboxFacts(tier=tier), tier, job_user=0))
            found = []
            for name in (".env", ".env.example"):
                code = f"print(open({str(workspace / name)!r}).read(), end='')"
                result = await opened.servers.call_tool("evil", "attack", {"code": code}, limit_ms=600_000)
                found.append(result.raw["content"][0]["text"])
            return found

    kinds = [text.partition(":")[0] for text in run(go())]
    assert kinds[: len(expected)] == expected


def test_the_command_line_shows_a_file_explains_what_is_hidden_and_lets_no_workspace_show_any(workspace):
    environment = make_environment(workspace.parent / "home")

    def command(*arguments):
        done = run_paddock(workspace, *arguments, environment=environment)
        return done.returncode, done.stdout, done.stderr

    code, out, err = command("exec", "shell", "-c", "cat .env")
    assert (code, out, err.splitlines()[-1]) == (1, "", f"  hint: {HINT}")
    assert command("exec", "shell", "-c", "cat .env", "--show", ".env")[:2] == (0, "SECRET")
    assert command("policy", "explain", "shell")[1].splitlines()[-1] == "workspace.hide\thides\t.env"
    assert json.loads(command("policy", "explain", "shell", "--json")[1])["hidden"] == [".env"]
    (workspace / "paddock.toml").write_text('[workspace]\nhide = ["plan.txt"]\n')
    (workspace / "plan.txt").write_text("PLAN")
    assert command("exec", "shell", "-c", "cat plan.txt .env.example 2>/dev/null")[1] == "PUBLIC"
    (workspace / "paddock.toml").write_text('[workspace]\nshow = [".env"]\n')
    code, _, err = command("exec", "shell", "-c", "cat .env")
    assert code == 125
    assert "a workspace may not set workspace.show; set it in" in err
