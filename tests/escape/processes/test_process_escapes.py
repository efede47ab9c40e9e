"""Every attack of attacks/ ends as its file says, in every place and tier; docs/confinement.md is made from them."""

import re
from pathlib import Path

import pytest

ATTACKS = sorted((Path(__file__).parent / "attacks").glob("*.py"))
AS_ROOT = {"root", "docker"}
PLACES = [
    ("root", "landlock", "none"),
    ("job-root", "landlock", "none"),
    ("user", "landlock", "none"),
    ("unsupervised", "landlock", "none"),
    ("no-userns", "landlock", "none"),
    ("docker", "landlock", "none"),
    ("root", "namespaces", "none"),
    ("no-landlock", "namespaces", "none"),
    ("user", "namespaces", "none"),
    ("user", "namespaces", "loopback"),
    ("root", "namespaces", "hosts"),
    ("user", "unconfined", "none"),
]
OWN_NETWORKS = {"loopback", "hosts"}


def find_expected(path, place, tier, network):
    """Return what an attack's file says of a tier, or of a case of it where that differs."""
    cases = [tier, f"{tier} {'as root' if place in AS_ROOT else place}"]
    cases += [f"{tier} with loopback"] if network in OWN_NETWORKS else []
    told = dict(re.findall(r"^([a-z ]+): (.+)$", path.read_text(), re.MULTILINE))
    return next(told[case] for case in reversed(cases) if case in told)


@pytest.mark.parametrize(("place", "tier", "network"), PLACES)
def test_attacks_end_as_their_files_say(drive, place, tier, network):
    """The tier `unconfined` is the control: there an attack that can succeed does, so none is refused by mistake."""
    wanted = {path.stem: find_expected(path, place, tier, network) for path in ATTACKS}
    tried = {name: result for name, result in wanted.items() if result != "not tried"}
    report = drive("escape_driver.py", place, tier, network, *tried)
    assert all(seen["started"] for seen in report.values()), report
    differing = {
        name: (seen, tried[name]) for name, seen in report.items() if tried[name] not in {seen["seen"], "any"}
    }
    assert differing == {}


@pytest.mark.parametrize("tier", ["landlock", "namespaces"])
def test_memory_that_was_taken_before_the_first_look_counts(drive_with_late_look, tier):
    """As on a busy machine, where the warden gets its turn late.

    Memory in flight is searched for when the machine's shared memory has grown. Other tests that give theirs back at
    the same moment hide that, and then the attack is tried again.
    """
    for _ in range(3):
        report = drive_with_late_look(
            "escape_driver.py", "user", tier, "none", "memory_files", "memory_in_flight"
        )
        if report["memory_in_flight"]["seen"] == "closed":
            break
    assert {name: (seen["started"], seen["seen"]) for name, seen in report.items()} == {
        "memory_files": (True, "closed"),
        "memory_in_flight": (True, "closed"),
    }
