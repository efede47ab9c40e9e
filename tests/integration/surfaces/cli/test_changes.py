"""`paddock changes`: what a program changed in an overlay is shown, accepted, undone and discarded."""

import json
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.support.command import make_environment, run_paddock

ROOT = Path(__file__).resolve().parents[4]
PROGRAM = """
import os
open("src/app.py", "a").write("print('two')\\n")
os.remove("old.txt")
os.makedirs("new/deep")
open("new/deep/x.txt", "w").write("token = 'ghp_0123456789abcdefghijABCDEFGHIJ012345'\\n")
os.makedirs(".git/hooks")
open(".git/hooks/pre-commit", "w").write("#!/bin/sh\\n")
os.symlink("/etc/passwd", "out")
"""


class Place:
    """A workspace whose program has run."""

    def __init__(self, root: Path) -> None:
        self.workspace, self.home = root / "ws", root / "home"
        (self.workspace / "src").mkdir(parents=True)
        self.home.mkdir()
        (self.workspace / "src/app.py").write_text("print('one')\n")
        (self.workspace / "old.txt").write_text("old\n")
        self.environment = make_environment(self.home)

    def run(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        return run_paddock(self.workspace, *arguments, environment=self.environment)

    def read(self, *arguments: str) -> Any:
        done = self.run(*arguments, "--json")
        return json.loads(done.stdout)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place(tmp_path)
    done = place.run("exec", "--access", "overlay", "python", "-c", PROGRAM)
    assert done.returncode == 0, done.stderr
    return place


def test_changes_are_listed_shown_and_compared(place: Place) -> None:
    (listed,) = place.read("changes", "list")
    set_id = listed["id"]
    assert (listed["state"], listed["paths"], listed["accepted"]) == ("open", 9, [])
    done = place.run("changes", "show", set_id.removeprefix("changes-")[:10])
    assert done.stdout.splitlines() == [
        f"{set_id}: 7 added, 1 modified, 1 deleted, open",
        "  + .git",
        "  + .git/hooks (protected)",
        "  + .git/hooks/pre-commit (protected)",
        "  + new",
        "  + new/deep",
        "  + new/deep/x.txt",
        "  - old.txt",
        "  + out (a link out of the workspace)",
        "  ~ src/app.py",
    ]
    shown = place.read("changes", "show", set_id)
    assert [each["path"] for each in shown["changes"] if each.get("protected") or each.get("outward")] == [
        ".git/hooks",
        ".git/hooks/pre-commit",
        "out",
    ]
    done = place.run("changes", "diff", set_id, "src", "new")
    assert "ghp_" not in done.stdout
    assert "+token = '[REDACTED:" in done.stdout
    assert done.stdout.splitlines()[-6:] == [
        "diff a/src/app.py b/src/app.py",
        "--- a/src/app.py",
        "+++ b/src/app.py",
        "@@ -1 +1,2 @@",
        " print('one')",
        "+print('two')",
    ]
    assert place.read("changes", "diff", set_id, "src", "--stat") == [
        {"path": "src/app.py", "added": 1, "removed": 0}
    ]


def test_changes_are_accepted_undone_and_discarded(place: Place) -> None:
    set_id = place.read("changes", "list")[0]["id"]
    done = place.run("changes", "accept", set_id)
    assert done.returncode == 0
    assert done.stdout.splitlines() == [
        ".git",
        "new",
        "new/deep",
        "new/deep/x.txt",
        "old.txt",
        "src/app.py",
    ]
    assert done.stderr.splitlines() == [
        "6 paths accepted",
        "left: .git/hooks: protected; name it to accept it",
        "left: .git/hooks/pre-commit: protected; name it to accept it",
        "left: out: a link out of the workspace; name it to accept it",
    ]
    assert "ghp_" in (place.workspace / "new/deep/x.txt").read_text()
    assert not (place.workspace / ".git/hooks").exists()
    report = place.read("changes", "undo", set_id, "src", "old.txt")
    assert report["paths"] == ["old.txt", "src/app.py"]
    assert (place.workspace / "src/app.py").read_text() == "print('one')\n"
    (place.workspace / "src/app.py").write_text("mine\n")
    done = place.run("changes", "accept", set_id, "src/app.py")
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        "nothing was written, because of 1 conflict:",
        "  src/app.py: it was changed since the run",
        "name the other paths to accept them, or merge text files with --merge",
    ]
    done = place.run("changes", "accept", set_id, "src/app.py", "--merge")
    assert done.stderr.splitlines() == [
        "nothing was written, because of 1 conflict:",
        "  src/app.py: it was changed since the run, and both changed the same lines",
        "name the other paths to accept them, or run the program again",
    ]
    (place.workspace / "src/app.py").unlink()
    done = place.run("changes", "accept", set_id, "src/app.py")
    assert done.stderr.splitlines() == [
        "nothing was written, because of 1 conflict:",
        "  src/app.py: it was removed since the run",
        "name the other paths to accept them, or run the program again",
    ]
    (place.workspace / "new/deep/x.txt").write_text("mine\n")
    done = place.run("changes", "undo", set_id, "new/deep/x.txt")
    assert done.stderr.splitlines() == [
        "nothing was written, because of 1 conflict:",
        "  new/deep/x.txt: it was changed since it was accepted",
        "name the other paths to undo them",
    ]
    assert place.run("changes", "discard", set_id).stderr == f"{set_id} discarded\n"
    assert place.run("changes", "discard", set_id).stderr == f"{set_id} was discarded before\n"
    assert place.read("changes", "discard", set_id) == {"id": set_id, "action": "discard", "repeated": True}
    done = place.run("changes", "accept", set_id)
    assert (done.returncode, done.stderr) == (
        1,
        f"The change set {set_id} was discarded, and its contents are gone; run it again\n",
    )
    done = place.run("changes", "diff", set_id)
    assert (done.returncode, done.stdout, done.stderr) == (
        1,
        "",
        f"The change set {set_id} was discarded, and its contents are gone\n",
    )
    assert place.run("audit", "verify").returncode == 0


def test_mistakes_are_explained(place: Place) -> None:
    set_id = place.read("changes", "list")[0]["id"]
    for arguments, text in (
        (
            ("changes", "show", "feed"),
            "Change set not found: 'feed'; `paddock changes list` shows those of a workspace",
        ),
        (
            ("changes", "accept", set_id, "sr"),
            "Nothing changed at 'sr'; `paddock changes show` lists the paths of a change set",
        ),
        (("changes", "accept", set_id, "/etc"), f"/etc is not in the workspace {place.workspace}"),
        (
            ("changes", "undo", set_id),
            f"Nothing of the change set {set_id} is accepted, so there is nothing to undo",
        ),
    ):
        done = place.run(*arguments)
        assert (done.returncode, " ".join(done.stderr.split())) == (1, text)


def test_a_damaged_set_can_only_be_discarded(place: Place) -> None:
    set_id = place.read("changes", "list")[0]["id"]
    manifest = place.home / ".local/state/paddock/changes" / set_id / "manifest.json"
    manifest.write_bytes(manifest.read_bytes().replace(b"src/app.py", b"src/bad.py"))
    for action in ("show", "diff", "accept", "undo"):
        done = place.run("changes", action, set_id)
        assert (done.returncode, " ".join(done.stderr.split())) == (
            1,
            f"The change set {set_id} cannot be used: its manifest was changed; remove it: "
            f"paddock changes discard {set_id}",
        )
    assert place.read("changes", "list") == []
    assert place.run("changes", "discard", set_id).returncode == 0
    assert not manifest.parent.exists()


def test_a_rule_denies_accepting_at_the_command_line(place: Place) -> None:
    set_id = place.read("changes", "list")[0]["id"]
    settings = place.home / ".config/paddock/paddock.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text('[[policy.rule]]\nchanges = "accept"\neffect = "deny"\nreason = "not here"\n')
    done = place.run("changes", "accept", set_id)
    assert done.returncode == 126
    assert "not here" in done.stderr
    assert (place.workspace / "old.txt").exists()


def test_the_rule_of_the_docs_leaves_accepting_to_the_command_line(place: Place) -> None:
    set_id = place.read("changes", "list")[0]["id"]
    rule = re.search(r"```toml\n(.*?)```", (ROOT / "docs/overlay.md").read_text(), re.DOTALL)
    settings = place.home / ".config/paddock/paddock.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text(rule[1] if rule is not None else "")
    (place.workspace / "accept.js").write_text(f"return await paddock.changes.accept('{set_id}')")
    refused = place.run("run", "./accept.js")
    assert "PolicyError: changes are accepted at the command line" in refused.stderr
    assert (place.workspace / "old.txt").exists()
    assert place.run("changes", "accept", set_id).returncode == 0
    assert not (place.workspace / "old.txt").exists()


KILLED = """
import os, signal, sys
from paddock.engines.changes.accept import Acceptor
from paddock.engines.changes.journal import Journal
from paddock.surfaces.cli import main
owner, name = {"write_applied": (Journal, "write_applied"), "finish": (Acceptor, "_finish")}[sys.argv.pop(1)]
setattr(owner, name, lambda *_: os.kill(os.getpid(), signal.SIGKILL))
main()
"""


def accept_and_be_killed(place: Place, moment: str, set_id: str) -> None:
    command = [sys.executable, "-c", KILLED, moment, "changes", "accept", set_id]
    done = subprocess.run(
        command, cwd=place.workspace, env=place.environment, capture_output=True, check=False
    )
    assert done.returncode == -signal.SIGKILL, done.stderr


@pytest.mark.parametrize(
    ("moment", "told", "status", "paths"),
    [
        ("write_applied", "nothing of it is left", "failed", []),
        (
            "finish",
            "it was finished now",
            "ok",
            [".git", "new", "new/deep", "new/deep/x.txt", "old.txt", "src/app.py"],
        ),
    ],
)
def test_the_next_command_undoes_or_finishes_what_a_killed_one_left_and_records_it(
    place: Place, moment: str, told: str, status: str, paths: list[str]
) -> None:
    set_id = place.read("changes", "list")[0]["id"]
    accept_and_be_killed(place, moment, set_id)
    assert not (place.workspace / "old.txt").exists()
    done = place.run("changes", "list")
    assert done.stderr == f"warning: a command was killed while it accepted {set_id}; {told}\n"
    assert (place.workspace / "old.txt").exists() == (status == "failed")
    assert place.run("changes", "list").stderr == ""
    (start,) = (
        each
        for each in place.read("audit", "tail", "--event", "started")
        if each["fields"].get("changes") == set_id
    )
    end = place.read("audit", "tail", "--event", "finished")[-1]
    assert end["request"] == start["request"]
    assert end["fields"] == {
        "status": status,
        "recovered": True,
        "path_count": len(paths),
        "paths": paths,
    }


def test_the_record_of_a_recovery_has_long_names_shortened_and_no_secret(place: Place) -> None:
    name, token = "n" * 200, "ghp_0123456789abcdefghijABCDEFGHIJ012345"
    code = f"open('{name}', 'w'); open('{token}', 'w')"
    assert place.run("exec", "--access", "overlay", "python", "-c", code).returncode == 0
    accept_and_be_killed(place, "finish", place.read("changes", "list")[0]["id"])
    assert "it was finished now" in place.run("changes", "list").stderr
    end = place.read("audit", "tail", "--event", "finished")[-1]
    assert end["fields"]["paths"] == ["[REDACTED:github-token]", f"{'n' * 62}...{'n' * 62}"]
