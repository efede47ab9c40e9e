"""What a hostile tool, or whoever runs one, must not get."""

import json
import os
import socket
import threading
from pathlib import Path
from typing import Any

import pytest

from paddock.gate.script_tool_service import make_tool_run
from paddock.model.limits import MIB
from paddock.model.nesting import MAX_DEPTH
from paddock.model.outcome import Status, write_outcome
from paddock.model.request import ToolRun

READ = """
    import json, sys
    found = {}
    for path in json.load(sys.stdin)["paths"]:
        try:
            found[path] = open(path).read()
        except OSError as error:
            found[path] = type(error).__name__
    print(json.dumps(found))
"""
REFUSED = {"PermissionError", "FileNotFoundError"}


def test_a_tool_reads_its_own_directory_and_nothing_of_others(workshop: Any, tmp_path: Path):
    other = workshop.make("print('secret of another')")
    (workshop.workspace / "notes.txt").write_text("notes")
    (tmp_path / "key").write_text("PRIVATE KEY")
    tool = workshop.make(READ)
    own = workshop.directory(tool)
    (own / "data.txt").write_text("mine")
    (own / "link").symlink_to(tmp_path / "key")
    ledgers = [str(path) for path in workshop.ledger.rglob("*") if path.is_file()]
    assert ledgers
    hidden = [
        str(workshop.directory(other) / "script.py"),
        str(workshop.workspace / "notes.txt"),
        str(own / "link"),
        str(own / "../../../notes.txt"),
        f"/proc/{os.getpid()}/environ",
        *ledgers,
    ]
    found = workshop.run(tool, paths=[str(own / "data.txt"), *hidden]).output
    assert found.pop(str(own / "data.txt")) == "mine"
    assert set(found.values()) <= REFUSED


WRITE = """
    import json, os, sys
    found = {}
    for path in json.load(sys.stdin)["paths"]:
        try:
            open(path, "w").write("changed")
            found[path] = "written"
        except OSError as error:
            found[path] = type(error).__name__
    print(json.dumps(found))
"""


def test_a_tool_changes_nothing_but_scratch(workshop: Any):
    tool = workshop.make(WRITE)
    own = workshop.directory(tool)
    paths = [
        str(own / "script.py"),
        str(own / "new"),
        str(workshop.workspace / "new"),
        str(workshop.ledger / "new"),
    ]
    found = workshop.run(tool, paths=paths).output
    assert found.pop(paths[2]) in {*REFUSED, "written"}  # where only the sandbox's own /tmp is, that is
    assert "written" not in found.values()
    assert not any(Path(path).exists() for path in paths[1:])
    assert (own / "script.py").read_text().startswith("\nimport json, os")


@pytest.mark.parametrize(
    ("declared", "allowed", "read", "written"),
    [
        ("read-only", "read-only", "notes", False),
        ("workspace-write", "workspace-write", "changed", True),
    ],
)
def test_the_workspace_is_granted_as_declared(
    workshop: Any, declared: str, allowed: str, read: str, *, written: bool
):
    notes = workshop.workspace / "notes.txt"
    notes.write_text("notes")
    workshop.open(access=allowed)
    script = """
        import os
        path = os.path.join(os.environ["PADDOCK_WORKSPACE"], "notes.txt")
        try:
            open(path, "w").write("changed")
        except OSError:
            pass
        print(open(path).read())
    """
    assert workshop.run(workshop.make(script, workspace=declared)).output == {"output": read}
    assert (notes.read_text() == "changed") is written


def test_a_tool_that_may_write_to_the_workspace_does_not_change_tools_for_good(workshop: Any):
    workshop.open(access="workspace-write")
    script = """
        import os
        os.chdir(os.environ["PADDOCK_WORKSPACE"])
        for path in (".paddock/tools/t1/tool.yaml", "paddock.toml"):
            try:
                open(path, "w").write("evil")
            except OSError:
                pass
    """
    tool = workshop.make(script, workspace="workspace-write")
    before = (workshop.directory(tool) / "tool.yaml").read_text()
    workshop.run(tool)
    assert (workshop.directory(tool) / "tool.yaml").read_text() == before
    assert not (workshop.workspace / "paddock.toml").exists()


@pytest.mark.parametrize(
    ("manifest", "rule", "reason"),
    [
        ({"workspace": "workspace-write"}, "tools.access", "tool t1 declares workspace: workspace-write, but at most "
         "read-only is allowed; set `access` under [tools] in the paddock.toml of the user or the system"),
        ({"network": "full"}, "tools.network", "tool t1 declares network: full, but loopback is allowed; set `network` "
         "under [tools] in the paddock.toml of the user or the system"),
    ],
)  # fmt: skip
def test_what_policy_does_not_allow_is_refused(
    workshop: Any, manifest: dict[str, str], rule: str, reason: str
):
    outcome = workshop.outcome(workshop.make("print(1)", **manifest))
    assert (outcome.status, outcome.decision.rule, outcome.decision.reasons) == (
        Status.DENIED,
        rule,
        (reason,),
    )
    assert outcome.tool is None


def test_a_request_that_asks_for_more_than_the_tool_declares_gets_no_more(workshop: Any):
    workshop.open(access="workspace-write")
    (workshop.workspace / "notes.txt").write_text("notes")
    tool = workshop.make(READ)
    path = str(workshop.workspace / "notes.txt")
    work = make_tool_run(workshop.session.scripts.library, tool, {"paths": [path]})
    work = work.model_copy(update={"access": "workspace-write"})
    assert workshop.outcome(tool, work=work).value[path] in REFUSED


@pytest.mark.parametrize("before", ["print('reviewed')", None])
def test_a_script_that_is_swapped_after_somebody_said_yes_to_it_does_not_run(
    workshop: Any, before: str | None
):
    tool = workshop.make(before or "")
    script = workshop.directory(tool) / "script.py"
    if before is None:
        script.unlink()
    work = make_tool_run(workshop.session.scripts.library, tool, {})
    script.write_text("print('never seen')")
    outcome = workshop.outcome(tool, work=work)
    assert (outcome.status, outcome.tool.error, outcome.tool.stdout) == (
        Status.INVALID,
        "Script has changed since it was asked for; ask again",
        "",
    )


def test_the_network_is_there_for_tools_that_may_use_it(workshop: Any):
    script = """
        import json, socket, sys
        try:
            with socket.create_connection(("127.0.0.1", json.load(sys.stdin)["port"]), timeout=5) as peer:
                print(peer.recv(5).decode())
        except OSError as error:
            print(type(error).__name__)
    """
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            peer, _ = server.accept()
            with peer:
                peer.sendall(b"hello")

        thread = threading.Thread(target=serve)
        thread.start()
        port = server.getsockname()[1]
        assert workshop.run(workshop.make(script), port=port).output["output"] != "hello"
        workshop.open(network="full")
        assert workshop.run(workshop.make(script, network="full"), port=port).output == {"output": "hello"}
        thread.join()


@pytest.mark.parametrize("way", ["link", "path", "absolute"])
def test_a_script_elsewhere_is_not_run(workshop: Any, tmp_path: Path, way: str):
    (tmp_path / "evil.py").write_text("print('evil')")
    named = {"link": "script.py", "path": "../../../../evil.py", "absolute": str(tmp_path / "evil.py")}[way]
    tool = workshop.make("print(1)")
    directory = workshop.directory(tool)
    (directory / "tool.yaml").write_text(json.dumps({"id": tool, "name": tool, "script": named}))
    if way == "link":
        (directory / "script.py").unlink()
        (directory / "script.py").symlink_to(tmp_path / "evil.py")
    assert workshop.run(tool).error == f"Script not allowed: {named} leads out of the tool's directory"


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_flood_is_stopped_at_its_limit(workshop: Any, stream: str):
    tool = workshop.make(f"import sys\nwhile True: sys.{stream}.write('x' * 65536)", timeout=60_000)
    workshop.open(output_bytes=2 * MIB)
    outcome = workshop.outcome(tool)
    assert outcome.status is Status.OUTPUT_LIMIT
    end = outcome.tool
    assert (end.success, end.output, end.exit_code) == (False, None, -1)
    assert end.error == f"Script wrote more than 2097152 bytes to {stream}"
    assert len(end.stdout) + len(end.stderr) < 2 * MIB + 100


def test_output_that_would_fill_the_memory_when_read_stays_a_text(workshop: Any):
    tool = workshop.make("print('[' + '[],' * 600_000 + '[]]')")
    end = workshop.run(tool)
    assert end.success
    assert end.output == {"output": end.stdout.strip()}


def test_a_hog_is_stopped_at_its_limit(workshop: Any):
    workshop.open(memory_bytes=100 * MIB)
    tool = workshop.make("x = b'x' * (150 << 20)\nimport time; time.sleep(30)", timeout=60_000)
    outcome = workshop.outcome(tool)
    assert outcome.status is Status.MEMORY_LIMIT
    assert outcome.tool.error == f"Script used more than {100 * MIB} bytes of memory"


def test_whatever_a_tool_leaves_behind_is_gone(workshop: Any):
    script = """
        import os
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                os.execvp("sleep", ["sleep", "654.321"])
            os._exit(0)
        os.wait()
        print("done")
    """
    assert workshop.run(workshop.make(script, timeout=20_000)).output == {"output": "done"}
    assert [path for path in Path("/proc").glob("[0-9]*/cmdline") if b"654.321" in _read(path)] == []


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def test_hostile_schemas_keep_a_tool_from_running(workshop: Any):
    for schema, why in (
        (
            {"properties": {"x": {"pattern": "(a+)+(?=b)"}}},
            "this is no JSON Schema: the pattern '(a+)+(?=b)' is no regular expression, or none that takes linear "
            "time and 512 KiB",
        ),
        (
            {"allOf": [{"$ref": "#"}, {"$ref": "#"}]},
            "this is no JSON Schema: it refers to itself without end",
        ),
    ):
        tool = workshop.make("print('ran')", schema=schema)
        outcome = workshop.outcome(tool, work=ToolRun(tool=tool))
        assert outcome.status is Status.INVALID
        assert outcome.error.message == f"{workshop.directory(tool)}: schema.json: {why}"


def test_patterns_take_linear_time(workshop: Any):
    schema = {"properties": {"x": {"type": "string", "pattern": "^(a+)+$"}}}
    tool = workshop.make("print('ran')", schema=schema)
    error = workshop.run(tool, x="a" * 5000 + "!").error
    assert error.startswith("Input validation failed: Field 'x': ")
    assert len(error) < 500


def test_tools_that_are_switched_off_do_not_run(workshop: Any):
    tool = workshop.make("print(1)")
    workshop.open(enabled=False)
    outcome = workshop.outcome(tool)
    assert outcome.status is Status.DENIED
    assert outcome.error.message == "Script tools are disabled in configuration (tools.enabled = false)"


def test_output_that_is_nested_too_deep_to_be_written_again_stays_text(workshop: Any):
    for depth in (MAX_DEPTH, MAX_DEPTH + 1, 900):
        text = "[" * depth + "]" * depth
        outcome = workshop.outcome(workshop.make(f"print({text!r})"))
        taken = json.loads(text) if depth == MAX_DEPTH else {"output": text}
        assert (outcome.status, outcome.value) == (Status.OK, taken)
        assert json.loads(write_outcome(outcome))["tool"]["output"] == taken
