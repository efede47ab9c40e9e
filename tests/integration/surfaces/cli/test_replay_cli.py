"""`paddock run --record`, `paddock replay`, `paddock record purge` and `paddock script test`, as people use them."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.command import Ended, make_environment, run_paddock

SCRIPT = 'console.log("hello", paddock.vars.NAME); return [Date.now(), Math.random()];'


class Person:
    """Somebody with a workspace who types commands."""

    def __init__(self, place: Path) -> None:
        self.workspace = place / "workspace"
        self.workspace.mkdir()
        (place / "home").mkdir()
        self.environment = make_environment(place / "home")

    def type_in(self, *words: str, **options: Any) -> Ended:
        return run_paddock(self.workspace, *words, environment=self.environment, **options)

    def save(self, name: str, text: str) -> None:
        folder = self.workspace / ".paddock" / "scripts"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)

    def record(self, name: str) -> str:
        """Record a script, and return the id of its run."""
        done = self.type_in("run", name, "--var", "NAME=Ada", "--record", "--json")
        return json.loads(done.stdout)["id"]


@pytest.fixture(scope="module")
def person(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Person]:
    """A person with the script `greet`."""
    made = Person(tmp_path_factory.mktemp("person"))
    made.save("greet.js", SCRIPT)
    return made


@pytest.fixture(scope="module")
def run(person: Person) -> str:
    """The id of a recorded run of the script."""
    return person.record("greet")


def test_a_recorded_script_says_how_to_repeat_it(person):
    done = person.type_in("run", "-", "--record", stdin="return 1")
    run = done.stderr.rpartition(" ")[2].strip()
    assert done == Ended(0, "1\n", f"recorded; run it again with: paddock replay {run}\n")
    assert person.type_in("replay", run) == Ended(0, "same: 0 calls, 0 lines on the console\n", "")


def test_a_changed_script_ends_with_1(person, run):
    person.save("other.js", SCRIPT.replace("hello", "good day"))
    done = person.type_in("replay", run, "--code", "other", "--json")
    assert (done.returncode, json.loads(done.stdout)) == (
        1,
        {
            "run": run,
            "same": False,
            "difference": {
                "kind": "console",
                "number": 1,
                "at": "",
                "recorded": "hello Ada",
                "replayed": "good day Ada",
            },
            "calls": 0,
            "lines": 1,
            "redacted": [],
        },
    )


def test_a_run_that_cannot_be_repeated_ends_with_1(person, tmp_path):
    run = "01JD3W0ZV6N4YQ1R2X5T7B8C9D"
    done = person.type_in("replay", run)
    assert (done.returncode, done.stdout) == (1, "")
    assert f"the ledger has no intact record of the end of {run}" in done.stderr


def test_a_setting_of_a_file_forbids_recordings(person, tmp_path):
    other = Person(tmp_path)
    folder = tmp_path / "home" / ".config" / "paddock"
    folder.mkdir(parents=True)
    (folder / "paddock.toml").write_text('[record]\npayloads = "off"\n')
    done = other.type_in("run", "-", "--record", stdin="return 1")
    assert (done.returncode, done.stdout) == (1, "")
    assert 'record.payloads = "asked" allows more than "off"' in done.stderr
    (folder / "paddock.toml").unlink()
    (other.workspace / "paddock.toml").write_text('[record]\npayloads = "kept"\n')
    done = other.type_in("run", "-", stdin="return 1")
    assert "a workspace may not set record.payloads" in done.stderr


def test_a_recorded_run_becomes_a_test_of_its_script(person, run):
    made = person.type_in("script", "test", "greet", "--from", run)
    path = Path(made.stdout.strip())
    document = json.loads(path.read_text())
    assert path.parent == person.workspace / ".paddock" / "tests"
    assert ("source" in document["program"], "actor" in document) == (False, False)
    assert document["actions"] == [{"line": {"level": "log", "text": "hello Ada"}}]
    assert person.type_in("script", "test", "greet") == Ended(0, f"passed: {path.stem}\n", "")
    person.save("greet.js", SCRIPT.replace("hello", "good day"))
    again = person.type_in("script", "test", "greet", "--from", run)
    assert again == Ended(
        1, "", f"{path}: cannot be written: this test exists; delete its file to make it again\n"
    )
    failed = person.type_in("script", "test", "--json")
    person.save("greet.js", SCRIPT)
    path.with_name("broken.json").write_text("{}")
    broken = person.type_in("script", "test", "broken", "--json")
    path.with_name("broken.json").unlink()
    assert (failed.returncode, json.loads(failed.stdout)) == (
        1,
        [
            {
                "test": path.stem,
                "passed": False,
                "difference": {
                    "kind": "console",
                    "number": 1,
                    "at": "",
                    "recorded": "hello Ada",
                    "replayed": "good day Ada",
                },
            }
        ],
    )
    assert (broken.returncode, [each["passed"] for each in json.loads(broken.stdout)]) == (1, [False])


def test_a_test_is_made_of_runs_of_its_script_only(person, run):
    person.save("third.js", "return 3")
    done = person.type_in("script", "test", "third", "--from", run)
    assert (done.returncode, done.stderr) == (
        1,
        f"the run {run} is one of greet.js, not of third.js\n",
    )


def test_a_link_in_a_strange_workspace_leads_no_test_out_of_it(tmp_path):
    """Its author chose where the link leads."""
    person = Person(tmp_path)
    person.save("greet.js", SCRIPT)
    run = person.record("greet")
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "greet-1.json").write_text("secret")
    tests = person.workspace / ".paddock" / "tests"
    tests.symlink_to(outside)
    name = f"greet-{run[-6:].lower()}.json"
    assert person.type_in("script", "test", "greet", "--from", run) == Ended(
        1,
        "",
        f"{tests / name}: cannot be written: .paddock/tests must be directories and no links, because a link "
        "may lead out of the workspace\n",
    )
    assert [file.name for file in outside.iterdir()] == ["greet-1.json"]
    assert person.type_in("script", "test") == Ended(
        1,
        f"failed: greet-1\n  {tests / 'greet-1.json'}: cannot be read: it leads out of the workspace\n",
        "",
    )


def test_recordings_are_listed_and_deleted(tmp_path):
    person = Person(tmp_path)
    person.save("greet.js", SCRIPT)
    assert person.type_in("record", "list") == Ended(
        0, "", "no run was recorded; record one: paddock run NAME --record\n"
    )
    older, run = person.record("greet"), person.record("greet")
    listed = json.loads(person.type_in("record", "list", "--json").stdout)
    assert [each["run"] for each in listed] == [run, older]
    assert [line.split("\t") for line in person.type_in("record", "list").stdout.splitlines()] == [
        [each["run"], f"{each['recorded'][:19]}+00:00", f"{each['bytes']} bytes"] for each in listed
    ]
    assert person.type_in("record", "purge").stdout == "deleted: 0 recordings, 0 bytes\n"
    shown = json.loads(person.type_in("record", "purge", "--before", "0s", "--dry-run", "--json").stdout)
    assert (shown["dry_run"], shown["runs"]) == (True, [older, run])
    deleted = json.loads(person.type_in("record", "purge", "--before", "0s", "--json").stdout)
    assert deleted == {**shown, "dry_run": False}
    done = person.type_in("replay", run)
    assert f"the recording of {run} is gone" in done.stderr
