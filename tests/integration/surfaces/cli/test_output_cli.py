"""`paddock output` as people use it: the installed command on stored output."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.command import PADDOCK, Ended, make_environment, run_paddock
from tests.support.terminal import at_terminal

from paddock.model.artifact import RunFacts
from paddock.policy.redaction.scanner import Scanner
from paddock.policy.settings.schema import ArtifactSettings, RedactionSettings
from paddock.record.output.artifacts import Artifacts

Run = Callable[..., Ended]


@pytest.fixture
def artifacts(tmp_path: Path) -> Artifacts:
    (tmp_path / "ws").mkdir()
    place = tmp_path / "state/paddock/artifacts"
    return Artifacts(ArtifactSettings(directory=place), Scanner(RedactionSettings()))


@pytest.fixture
def run(tmp_path: Path, artifacts: Artifacts) -> Run:
    def run(*args: str, cwd: str = "ws", **more: str) -> Ended:
        environment = make_environment(tmp_path, XDG_STATE_HOME=str(tmp_path / "state"), **more)
        return run_paddock(tmp_path / cwd, "output", *args, environment=environment)

    return run


def store(artifacts: Artifacts, workspace: Path, stdout: str, stderr: str = "") -> str:
    recording = artifacts.record()
    recording.stdout(stdout.encode())
    recording.stderr(stderr.encode())
    facts = RunFacts(workspace=str(workspace), runtime="python", status="ok")
    handle = asyncio.run(recording.finish(facts))
    assert handle is not None, recording.refusal
    return handle


def test_a_shell_completes_handles_of_this_workspace(run: Run, artifacts: Artifacts, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    mine, _ = (store(artifacts, tmp_path / name, "text") for name in ("ws", "other"))
    asked = {"_PADDOCK_COMPLETE": "bash_complete", "COMP_WORDS": "paddock output show ", "COMP_CWORD": "3"}
    assert run(**asked) == (0, f"plain,{mine}\n", "")
    assert run(**{**asked, "COMP_WORDS": "paddock output show --set artifacts.url=s3://a/b ", "COMP_CWORD": "5"}) == (
        0, "\n", "",
    )  # fmt: skip


def test_terms_are_found_with_their_lines(run: Run, artifacts: Artifacts, tmp_path: Path) -> None:
    handle = store(artifacts, tmp_path / "ws", "one\nError: a\nthree\nfour\nError: b\n", "no error\n")
    assert run("query", handle, "-t", "ERROR", "--context", "0", "--max", "2") == (
        0,
        "stdout:2: Error: a\n--\nstdout:5: Error: b\n",
        "there is more: --after 5\n",
    )
    assert run("query", handle, "-t", "error", "--after", "5") == (0, "stderr:1: no error\n", "")
    assert run("query", handle, "--lines", "2-3") == (0, "stdout:2: Error: a\nstdout:3: three\n", "")
    assert run("query", handle, "--lines", "6-9") == (0, "", "no such lines: stdout has 5\n")
    assert run("query", handle, "-t", "absent", "--max", "1") == (
        0,
        "stdout:1: one\n",
        "no match; these are the first lines\n",
    )


def test_json_is_the_response_of_the_spec(run: Run, artifacts: Artifacts, tmp_path: Path) -> None:
    handle = store(artifacts, tmp_path / "ws", "one\n")
    code, out, err = run("query", handle, "--term", "one", "--stream", "stdout", "--json")
    assert (code, json.loads(out), err) == (
        0,
        {
            "artifactHandle": handle,
            "excerpts": [{"lineStart": 1, "lineEnd": 1, "content": "one", "source": "stdout"}],
            "totalLines": 1,
            "totalBytes": 4,
            "searchedStreams": ["stdout"],
            "matchStatus": "matched",
            "matchCount": 1,
        },
        "",
    )


def test_output_is_shown_as_it_was(run: Run, artifacts: Artifacts, tmp_path: Path) -> None:
    handle = store(artifacts, tmp_path / "ws", "out\x1b[2J token=a1b2c3d4e5\n", "err\n")
    assert run("show", handle) == (0, "out\x1b[2J token=[REDACTED:secret]\n", "err\n")
    assert run("show", handle, "--stream", "stderr") == (0, "", "err\n")
    code, out, _ = run("show", handle, "--json")
    assert (code, json.loads(out)["manifest"]["workspace"]) == (0, str(tmp_path / "ws"))


def test_the_list_is_of_one_workspace(run: Run, artifacts: Artifacts, tmp_path: Path) -> None:
    own, other = store(artifacts, tmp_path / "ws", "1"), store(artifacts, tmp_path / "other", "22")
    code, out, _ = run("list")
    [row] = out.splitlines()
    assert (code, row.split("\t")[1:5]) == (0, [own, "python", "ok", "1"])
    code, out, _ = run("list", "--all", "--json")
    # Both may be of one millisecond; then the token decides.
    oldest_first = sorted([own, other], key=lambda handle: handle.split("-")[-2:])
    assert [each["artifactHandle"] for each in json.loads(out)] == oldest_first
    refused = (
        f"Artifact not found in this workspace: {other}; read it from its own workspace, or set "
        "artifacts.cross_workspace = true\n"
    )
    assert run("show", other) == (1, "", refused)
    assert run("show", other, "--set", "artifacts.cross_workspace=true") == (0, "22", "")


def test_gc_deletes_what_has_expired(run: Run, artifacts: Artifacts, tmp_path: Path) -> None:
    handle = store(artifacts, tmp_path / "ws", "x")
    manifest = artifacts.settings.directory / handle / "manifest.json"
    fields = json.loads(manifest.read_text())
    manifest.write_text(json.dumps({**fields, "expiresAt": "2020-01-01T00:00:00Z"}))
    assert run("gc") == (0, "deleted: 1\n", "")
    assert run("gc", "--json") == (0, '{"deleted": 0, "errors": 0}\n', "")
    none = "no output is stored for this workspace; `paddock exec` and `paddock run` store it\n"
    assert run("list") == (0, "", none)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ((), "give --term, --lines or --after"),
        (("--lines", "3-2"), "Invalid value for '--lines': '3-2' is not FIRST-LAST, for example 10-20"),
        (("--lines", "1-2", "-t", "x"), "--lines cannot be combined with --term or --after"),
        (("-t", ""), "give up to 10 terms of 1 to 1000 characters"),
        (("-t", "x", "--max", "101"), "Invalid value for '--max': 101 is not in the range 1<=x<=100."),
    ],
)
def test_questions_that_make_no_sense(run: Run, arguments: tuple[str, ...], why: str) -> None:
    code, out, err = run("query", "runtime-ws-1-0123456789abcdef", *arguments)
    assert (code, out, err.splitlines()[-1]) == (2, "", f"Error: {why}")


def test_s48_s49_handles_that_lead_nowhere(run: Run) -> None:
    assert run("show", "../../etc") == (1, "", "Invalid artifact handle: path traversal detected\n")
    handle = "runtime-ws-1-0123456789abcdef"
    missing = f"Artifact not found: {handle}; it does not exist or has expired (artifacts.ttl_hours)\n"
    assert run("query", handle, "-t", "x") == (1, "", missing)


def test_a_terminal_shows_handles_whole(tmp_path: Path, artifacts: Artifacts) -> None:
    handle = store(artifacts, tmp_path / "ws", "x\n")
    environment = {"HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path / "state"), "COLUMNS": "80"}
    shown, code = at_terminal([PADDOCK, "output", "list"], tmp_path / "ws", environment)
    assert (code, shown.count(handle), shown.count("…")) == (0, 1, 0)


def test_a_list_shows_the_newest_and_says_how_many_older_there_are(
    run: Run, artifacts: Artifacts, tmp_path: Path
) -> None:
    handles = [store(artifacts, tmp_path / "ws", "text") for _ in range(52)]
    handles.sort(key=lambda handle: int(handle.split("-")[-2]))
    for asked, count in (
        ((), 50),
        (("--limit", "3"), 3),
        (("-n", "52"), 52),
        (("--all",), 52),
        (("--all", "-n", "2"), 2),
    ):
        code, out, err = run("list", *asked)
        listed = [line.split("\t")[1].split("-")[-2] for line in out.splitlines()]
        assert (code, listed) == (0, [handle.split("-")[-2] for handle in handles[-count:]])
        assert err == (f"{52 - count} older entries not shown; --limit 52 shows them\n" if count < 52 else "")
    code, out, err = run("list", "--limit", "2", "--json")
    assert (code, len(json.loads(out)), err) == (0, 2, "50 older entries not shown; --limit 52 shows them\n")


def test_what_a_list_does_not_show_is_counted_of_what_it_might(
    run: Run, artifacts: Artifacts, tmp_path: Path
) -> None:
    """Neither of other workspaces, even of the same name, nor of what has expired or was not written whole."""
    for folder in ("ws", "other", "elsewhere/ws"):
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        oldest, *_ = [store(artifacts, tmp_path / folder, "text") for _ in range(3)]
        manifest = artifacts.settings.directory / oldest / "manifest.json"
        fields = json.loads(manifest.read_text())
        manifest.write_text(json.dumps({**fields, "expiresAt": "2020-01-01T00:00:00Z"}))
    artifacts.begin(tmp_path / "ws")

    def count(*args: str, cwd: str = "ws") -> tuple[int, str]:
        code, out, err = run("list", *args, cwd=cwd)
        assert code == 0
        return len(out.splitlines()), err

    for cwd in ("ws", "other", "elsewhere/ws"):
        assert count("-n", "1", cwd=cwd) == (1, "1 older entries not shown; --limit 2 shows them\n")
        assert count("-n", "2", cwd=cwd) == count(cwd=cwd) == (2, "")
    assert count("--all", "-n", "1") == (1, "5 older entries not shown; --limit 6 shows them\n")
    assert count("--all") == (6, "")
    assert count("--set", "artifacts.cross_workspace=true", "-n", "5") == (
        5,
        "1 older entries not shown; --limit 6 shows them\n",
    )
