"""Programs with the access `overlay` through the gate: the outcome has a summary, and the record says so."""

import hashlib
from pathlib import Path

import pytest

from paddock.model.changes import ChangesSummary
from paddock.model.directories import GrantedDirectory
from paddock.model.outcome import Status, read_outcome, write_outcome
from paddock.model.sandbox import Tier

from .conftest import Open

METHODS = {"namespaces": "overlayfs", "landlock": "copy"}


@pytest.fixture(params=["namespaces", "landlock"])
def tier(request: pytest.FixtureRequest) -> Tier:
    return request.param


def test_an_outcome_has_a_summary_of_the_changes(tier: Tier, open_programs: Open) -> None:
    programs = open_programs(tier, access="overlay")
    (programs.workspace / "sub").mkdir()
    (programs.workspace / "sub/main.py").write_text(
        "import os\nopen('made', 'w').write(os.path.basename(os.getcwd()))\n"
    )
    secret = "AKIA" + "Q3EGRIC5XWBKZ7LM"
    code = (programs.workspace / "sub/main.py").read_text() + f"open('key', 'w').write('{secret}\\n')\n"
    (programs.workspace / "sub/main.py").write_text(code)
    outcome = programs.run("python", code, file="sub/main.py", cwd="sub", access="overlay")
    changes = outcome.changes
    assert (outcome.status, outcome.error) == ("ok", None)
    assert changes is not None
    assert changes == ChangesSummary(id=changes.id, method=METHODS[tier], added=2, diff=changes.diff)
    assert changes.diff.startswith("diff a/sub/key b/sub/key\n")
    assert "+sub" in changes.diff
    assert secret not in changes.diff
    contents = {
        path.name for path in Path(programs.settings.overlay.directory, changes.id, "contents").iterdir()
    }
    assert hashlib.sha256(f"{secret}\n".encode()).hexdigest() in contents
    assert sorted(path.name for path in (programs.workspace / "sub").iterdir()) == ["main.py"]
    assert read_outcome(write_outcome(outcome).encode()) == outcome
    (end, *_) = programs.records("finished")
    assert {name: end[name] for name in ("changes", "changes_method", "changed")} == {
        "changes": changes.id,
        "changes_method": METHODS[tier],
        "changed": ("2 added", "0 modified", "0 deleted"),
    }


def test_a_program_without_an_overlay_has_no_summary(tier: Tier, open_programs: Open) -> None:
    outcome = open_programs(tier, access="overlay").run("shell", "true")
    assert outcome.changes is None
    assert '"changes"' not in write_outcome(outcome)


def test_a_program_that_changes_nothing_has_an_empty_summary(tier: Tier, open_programs: Open) -> None:
    outcome = open_programs(tier, access="overlay").run("shell", "true", access="overlay")
    assert outcome.changes == ChangesSummary(id="", method=METHODS[tier])


def test_a_failed_program_has_its_changes(tier: Tier, open_programs: Open) -> None:
    outcome = open_programs(tier, access="overlay").run("shell", "echo x > made; exit 3", access="overlay")
    assert (outcome.status, outcome.changes and outcome.changes.added) == (Status.FAILED, 1)


def test_an_overlay_is_granted_as_any_access(tier: Tier, open_programs: Open) -> None:
    outcome = open_programs(tier, access="read-only").run("shell", "true", access="overlay")
    assert outcome.status is Status.DENIED
    assert outcome.decision.reasons == (
        'access overlay to the workspace is not granted (granted: read-only); set `access = "overlay"` under '
        "[runtimes] in the paddock.toml of the user or the system",
    )


def test_a_program_that_changes_too_much_is_at_its_limit(tier: Tier, open_programs: Open) -> None:
    programs = open_programs(tier, access="overlay", overlay={"changes": 5})
    outcome = programs.run("shell", "seq 9 | xargs touch", access="overlay")
    assert outcome.program is not None
    assert outcome.error is not None
    assert outcome.changes is not None
    assert (outcome.status, outcome.program.limit) == (Status.OUTPUT_LIMIT, "changes")
    why = "it changed more than 5 paths (overlay.changes)"
    assert (outcome.error.message, outcome.changes.incomplete) == (f"Its changes are incomplete: {why}", why)
    assert outcome.error.hint.endswith("; `paddock changes show` lists what was found")


def test_a_first_file_that_is_too_large_leaves_nothing_to_show(tier: Tier, open_programs: Open) -> None:
    programs = open_programs(tier, access="overlay", overlay={"bytes": 10})
    outcome = programs.run("shell", "seq 9 > file", access="overlay")
    assert outcome.error is not None
    assert outcome.changes is not None
    assert (outcome.status, outcome.changes.id) == (Status.OUTPUT_LIMIT, "")
    assert outcome.error.hint == "let it change less, or raise the setting in the user's paddock.toml"


def test_changes_in_a_directory_beside_the_workspace(tier: Tier, open_programs: Open, tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    given = GrantedDirectory(path=tmp_path, access="overlay")
    programs = open_programs(tier, access="overlay", directories=(given,))
    code = f"open({str(tmp_path / 'first')!r}, 'w').close()"
    first = programs.run("python", code, session="new")
    if tier == "landlock":
        assert first.error is not None
        assert (first.status, first.error.message) == (
            Status.DENIED,
            f"This machine has no overlay for the directory {tmp_path}, and only the workspace is copied instead; give it "
            "read-only (:ro) or for writing (:rw), or make the tier namespaces available (paddock doctor says how)",
        )
        assert list(tmp_path.iterdir()) == []
        return
    assert first.session is not None
    second = programs.run("python", code.replace("first", "second"), session=first.session.id)
    counts = [[(each.directory, each.added) for each in run.directory_changes] for run in (first, second)]
    assert counts == [[(str(tmp_path), 1)], [(str(tmp_path), 2)]]
    assert (first.changes, list(tmp_path.iterdir())) == (None, [])
    assert read_outcome(write_outcome(first).encode()) == first
    (end, *_) = programs.records("finished")
    assert end["directory_changes"] == (second.directory_changes[0].id,)


def test_executions_of_a_session_have_all_changes_so_far(tier: Tier, open_programs: Open) -> None:
    programs = open_programs(tier, access="overlay")
    code = "import os\nfolder = os.environ.get('PADDOCK_WORKSPACE', {!r})\nopen(f'{{folder}}/first', 'w').close()"
    first = programs.run("python", code.format(str(programs.workspace)), access="overlay", session="new")
    assert first.session is not None
    second = programs.run("python", "open(f'{folder}/second', 'w').close()", session=first.session.id)
    assert [each.changes and each.changes.added for each in (first, second)] == [1, 2]
    assert list(programs.workspace.iterdir()) == []
