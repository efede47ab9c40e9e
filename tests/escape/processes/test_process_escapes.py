"""Every attack of attacks/ ends as its file says, in every place and tier; docs/confinement.md is made from them."""

import re
from pathlib import Path

import pytest

ATTACKS = sorted((Path(__file__).parent / "attacks").glob("*.py"))
AS_ROOT = {"root", "docker"}
PLACES = [
    ("root", "landlock"),
    ("job-root", "landlock"),
    ("user", "landlock"),
    ("unsupervised", "landlock"),
    ("no-userns", "landlock"),
    ("docker", "landlock"),
    ("root", "namespaces"),
    ("user", "namespaces"),
    ("user", "unconfined"),
]


def expected(path, place, tier):
    """Return what an attack's file says of a tier; `landlock as root` and so on where that differs."""
    text = path.read_text()
    kind = "as root" if place in AS_ROOT else place
    differing = re.search(rf"^{tier} {kind}: (.+)$", text, re.MULTILINE)
    return (differing or re.search(rf"^{tier}: (.+)$", text, re.MULTILINE))[1]


@pytest.mark.parametrize(("place", "tier"), PLACES)
def test_attacks_end_as_their_files_say(drive, place, tier):
    """The tier `unconfined` is the control: there an attack that can succeed does, so none is refused by mistake."""
    wanted = {path.stem: expected(path, place, tier) for path in ATTACKS}
    tried = {name: result for name, result in wanted.items() if result != "not tried"}
    report = drive("escape_driver.py", place, tier, *tried)
    assert all(seen["started"] for seen in report.values()), report
    differing = {
        name: (seen, tried[name]) for name, seen in report.items() if tried[name] not in {seen["seen"], "any"}
    }
    assert differing == {}


@pytest.mark.parametrize("tier", ["landlock", "namespaces"])
def test_memory_that_was_taken_before_the_first_look_counts(drive_with_late_look, tier):
    """As on a busy machine, where the warden gets its turn late."""
    report = drive_with_late_look("escape_driver.py", "user", tier, "memory_files", "memory_in_flight")
    assert {name: (seen["started"], seen["seen"]) for name, seen in report.items()} == {
        "memory_files": (True, "closed"),
        "memory_in_flight": (True, "closed"),
    }
