"""`/doctor`: the rows of `paddock doctor`, first those without a proof, then all of them."""

import re
from html import unescape

import pytest
from tests.support.command import run_paddock

from paddock.gate.machine_check import MachineReport
from paddock.model.sandbox import Examination, TierReport
from paddock.surfaces.web.render import open_environment


@pytest.fixture
def owner(place):
    with place.serve_page() as server, server.client(server.log_in()) as client:
        yield client


def get(client, path):
    answer = client.get(path)
    assert answer.status_code == 200, answer.text
    return answer.text


def list_rows(page):
    """Return name, state, and detail with remedy of each check."""
    rows = re.findall(r"<tr>\s*<th scope=\"row\">(.*?)</th>(.*?)</tr>", page, re.DOTALL)
    return [
        (
            unescape(name),
            *(
                " ".join(unescape(re.sub(r"<button.*?</button>|<.*?>", "", cell, flags=re.DOTALL)).split())
                for cell in re.findall(r"<td>(.*?)</td>", cells, re.DOTALL)
            ),
        )
        for name, cells in rows
    ]


def list_printed(place):
    """Return the same of the command."""
    done = run_paddock(place.workspace, "doctor", environment=place.environment)
    rows = [line.split("\t") for line in done.stdout.splitlines() if line.count("\t") == 3]
    return [
        (re.sub(r"^(tier|layer|files) ", "", name), state, f"{detail} {fix}".strip())
        for name, state, detail, fix in rows
    ]


def test_what_needs_no_proof_is_there_at_once_and_the_page_asks_for_the_rest(place, owner):
    page = get(owner, "/doctor")
    shown = list_rows(page)
    assert [name for name, *_ in shown[:5]] == ["packages", "types", "jit", "flow", "ledger"]
    assert 'hx-get="/doctor/proof" hx-trigger="load"' in page
    assert '<a class="button" href="/doctor?run=1">Run the checks</a>' in page
    assert "The minimum tier is <strong>landlock</strong>." in page


def test_with_and_without_script_the_checks_are_those_of_the_command(place, owner):
    part = get(owner, "/doctor/proof")
    page = get(owner, "/doctor?run=1")
    assert part.strip() in page  # the result is shown for a minute
    assert part.strip() in get(owner, "/doctor")
    assert re.search(r"Programs run in the tier <strong>(namespaces|landlock)</strong>", part)
    printed, shown = list_printed(place), list_rows(page)
    assert sorted(each for each in shown if "logins" not in each[0]) == sorted(
        each for each in printed if "logins" not in each[0]
    )
    assert [name for name, *_ in list_rows(part)][:3] == [
        "namespaces",
        "landlock",
        "unconfined",
    ]


def test_each_remedy_has_a_button_to_copy_it(owner):
    page = get(owner, "/doctor?run=1")
    remedies = re.findall(r'data-copy="([\w-]+)"', page)
    assert len(remedies) == len(set(remedies)) > 0
    for remedy in remedies:
        assert len(re.findall(f'<code id="{remedy}">', page)) == 1


def test_a_machine_that_runs_nothing_says_why():
    """The part for such a machine, as this one may prove every tier."""
    refused = TierReport(tier="landlock", proved=False, why="the canary could <read>", fix="a newer kernel")
    found = Examination(layers=(), tiers=(refused,), minimum="landlock", effective=None)
    proof = {"machine": MachineReport(found, "copy", {}), "at": 0.0}
    part = open_environment().get_template("doctor_proof.html").render(proof=proof, statuses={})
    assert "Programs do not run: the strongest tier is none, and the minimum is landlock." in part
    assert list_rows(part)[0] == ("landlock", "not proved", "the canary could <read> a newer kernel")
    assert "<read>" not in part
    failed = {"machine": None, "problem": "no <process>", "at": 0.0}
    part = open_environment().get_template("doctor_proof.html").render(proof=failed, statuses={})
    assert "The checks could not run: no &lt;process&gt;" in part
