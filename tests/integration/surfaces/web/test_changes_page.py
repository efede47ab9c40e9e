"""`/changes`: change sets are read, accepted in whole or by path, undone and discarded."""

import re
import shlex
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx2
import pytest
from tests.support.change_sets import make_change_set
from tests.support.web import WebPlace
from tests.support.web_forms import Form, read_notice, read_text

from paddock.model.change_set import Change
from paddock.record.changes.store import ChangeStore
from paddock.surfaces.cli.opening import find_actor


class Owner:
    """The owner of a page, and the change sets of its workspace."""

    def __init__(self, place: WebPlace, client: httpx2.Client) -> None:
        self.place = place
        self.client = client
        self.workspace = place.workspace
        self.store = ChangeStore(place.home / ".local/state/paddock/changes")

    def change(
        self, files: dict[str, str | None], *, adapt: Callable[[Change], Change] = lambda change: change
    ) -> str:
        """Store what a program did to files of the workspace; return the ID of the set."""
        changed = self.place.home / "changed"
        copy_tree(self.workspace, changed)
        for name, text in files.items():
            if text is None:
                (changed / name).unlink()
            else:
                (changed / name).parent.mkdir(parents=True, exist_ok=True)
                (changed / name).write_text(text)
        return make_change_set(self.store, self.workspace, changed, adapt=adapt)

    def press(self, set_id: str, action: str = "accept", **fields: str | list[str]) -> httpx2.Response:
        """Press a button of a set."""
        page = self.client.get(f"/changes/{set_id}").text
        given = Form(page, f"/changes/{set_id}/{'discard' if action == 'discard' else 'accept'}").fields
        return self.client.post(f"/changes/{set_id}/{action}", data={**given, **fields})

    def read(self, name: str) -> str | None:
        """Return a file of the workspace; None if there is none."""
        file = self.workspace / name
        return file.read_text() if file.exists() else None


def copy_tree(source: Path, target: Path) -> None:
    """Replace a directory by a copy of another one."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target)


@pytest.fixture
def owner(tmp_path: Path) -> Iterator[Owner]:
    place = WebPlace(tmp_path)
    (place.workspace / "old.txt").write_text("one\ntwo\nthree\n")
    with place.serve_page() as server, server.client(server.log_in()) as client:
        yield Owner(place, client)


FILES = {"new.txt": "<b>new</b>\n", "old.txt": "one\n2\nthree\n", "sub/a": "a\n", "sub/b": "b\n"}


def test_a_set_is_listed_and_shown_with_its_differences(owner: Owner) -> None:
    set_id = owner.change(FILES)
    listed = owner.client.get("/changes").text
    assert f'<a href="/changes/{set_id}">' in listed
    assert f"{set_id} open 5 session run-1 this one" in read_text(listed)
    page = owner.client.get(f"/changes/{set_id}").text
    assert '<span class="add"><bdi>+&lt;b&gt;new&lt;/b&gt;</bdi>\n</span>' in page
    assert '<span class="del"><bdi>-two</bdi>\n</span>' in page
    # The directory comes with what is in it, and has no box.
    assert Form(page, f"/changes/{set_id}/accept").ticks == {"at": ["0", "1", "3", "4"], "merge": ["1"]}
    assert owner.client.get("/changes/changes-0").status_code == 404


def test_a_page_beyond_the_last_one_leads_back(owner: httpx2.Client) -> None:
    owner.change(FILES)
    text = owner.client.get("/changes?page=2").text
    assert read_text(text) == "Changes There are no older changes. Newest"
    assert '<a class="button" href="/changes">' in text
    assert '<a class="button" href="/approvals">' in owner.client.get("/approvals?page=2").text


def test_the_whole_set_is_accepted_and_undone(owner: Owner) -> None:
    set_id = owner.change(FILES)
    done = owner.press(set_id, whole="1")
    assert (done.status_code, done.headers["location"]) == (303, f"/changes/{set_id}?done=accept&paths=5")
    page = owner.client.get(done.headers["location"]).text
    assert read_notice(page) == "5 paths were accepted."
    assert {name: owner.read(name) for name in FILES} == FILES
    back = owner.press(set_id, "undo", whole="1")
    assert back.headers["location"] == f"/changes/{set_id}?done=undo&paths=5"
    assert (owner.read("new.txt"), owner.read("old.txt")) == (None, "one\ntwo\nthree\n")
    records = owner.place.paddock("audit", "tail", "--json")
    facts = [each["fields"] for each in records if each["event"] == "finished"]
    assert [(each["surface"], each["actor"], each["action"]) for each in facts] == [
        ("web", find_actor(), "accept"),
        ("web", find_actor(), "undo"),
    ]


def test_only_ticked_paths_are_accepted(owner: Owner) -> None:
    set_id = owner.change(FILES)
    done = owner.press(set_id, at=["1", "3"])
    assert done.headers["location"] == f"/changes/{set_id}?done=accept&paths=3"
    assert {name: owner.read(name) for name in FILES} == {
        **FILES,
        "new.txt": None,
        "sub/b": None,
    }
    nothing = owner.press(set_id)
    assert (nothing.status_code, "Tick at least one path." in nothing.text) == (422, True)
    for number in ("5", "-1", "x"):
        wrong = owner.press(set_id, at=[number])
        assert wrong.status_code == 422
        assert "The form names a path that the change set does not have." in wrong.text
    undone = owner.press(set_id, "undo", at=["3"])
    assert undone.headers["location"] == f"/changes/{set_id}?done=undo&paths=1"
    assert owner.read("sub/a") is None


def test_protected_paths_are_accepted_only_if_they_are_ticked_themselves(owner: Owner) -> None:
    set_id = owner.change({".mcp.json": "{}\n", "new.txt": "new\n"})
    page = owner.client.get(f"/changes/{set_id}").text
    assert "modified .mcp.json protected Difference:" in read_text(page)
    done = owner.press(set_id, whole="1")
    assert done.headers["location"] == f"/changes/{set_id}?done=accept&paths=1&left=1"
    notice = read_notice(owner.client.get(done.headers["location"]).text)
    assert notice == "1 path was accepted. Left, because they must be ticked themselves: 1."
    assert (owner.read(".mcp.json") == "{}\n", owner.read("new.txt")) == (False, "new\n")
    assert owner.press(set_id, at=["0"]).status_code == 303
    assert owner.read(".mcp.json") == "{}\n"


def test_hidden_paths_are_marked_and_never_accepted(owner: Owner) -> None:
    (owner.workspace / ".env").write_text("TOKEN=1\n")
    set_id = owner.change({".env": "TOKEN=2\n", "new.txt": "new\n"})
    assert "modified .env hidden" in read_text(owner.client.get(f"/changes/{set_id}").text)
    refused = owner.press(set_id, at=["0"])
    assert refused.status_code == 409
    assert ".env : workspace.hide hides a file there" in read_text(refused.text)
    assert owner.press(set_id, at=["1"]).status_code == 303
    assert (owner.read(".env"), owner.read("new.txt")) == ("TOKEN=1\n", "new\n")


def test_a_conflict_writes_nothing_and_text_files_can_be_merged(owner: Owner) -> None:
    set_id = owner.change({"old.txt": "one\ntwo\n3\n", "new.txt": "new\n"})
    (owner.workspace / "old.txt").write_text("1\ntwo\nthree\n")
    refused = owner.press(set_id, whole="1")
    assert refused.status_code == 409
    assert "Tick the other paths, or merge text files that were changed since." in read_text(refused.text)
    assert "Nothing was written, because of conflicts: old.txt : it was changed since the run" in read_text(
        refused.text
    )
    assert owner.read("new.txt") is None
    merged = owner.press(set_id, whole="1", merge="1")
    assert merged.headers["location"] == f"/changes/{set_id}?done=accept&paths=2&merged=1"
    assert owner.read("old.txt") == "1\ntwo\n3\n"


def test_a_set_is_discarded(owner: Owner) -> None:
    set_id = owner.change(FILES)
    done = owner.press(set_id, "discard")
    assert done.headers["location"] == f"/changes/{set_id}?done=discard"
    page = owner.client.get(done.headers["location"]).text
    assert read_notice(page) == "The contents of the changes were discarded."
    assert (
        "were accepted" not in owner.client.get(f"/changes/{set_id}?done=accept&paths=2").text
    )  # Back in a browser
    form = Form(page, f"/changes/{set_id}/accept")
    assert (form.ticks, form.buttons) == ({}, [])
    gone = owner.client.post(f"/changes/{set_id}/accept", data={"csrf": form.fields["csrf"], "whole": "1"})
    assert (gone.status_code, "was discarded, and its contents are gone" in gone.text) == (409, True)


def test_where_a_rule_asks_the_person_who_pressed_is_shown_the_question(tmp_path: Path) -> None:
    place = WebPlace(tmp_path)
    place.settings('[[policy.rule]]\nchanges = "accept"\neffect = "ask"\nreason = "look twice"\n')
    with place.serve_page() as server, server.client(server.log_in()) as client:
        owner = Owner(place, client)
        set_id = owner.change({"a": "a\n", "b": "b\n"})
        asked = owner.press(set_id, at=["1"])
        assert (asked.status_code, owner.read("b")) == (200, None)
        text = read_text(asked.text)
        assert "accept changes into the workspace" in text
        assert "Why look twice Rule user rule 1" in text
        assert "+b" in text
        form = Form(asked.text, f"/changes/{set_id}/accept")
        assert form.fields.keys() == {"csrf", "at", "seen"}
        # An answer counts for what was asked, and not for more.
        more = client.post(f"/changes/{set_id}/accept", data={**form.fields, "at": ["0", "1"]})
        assert ("A rule asks you first" in more.text, owner.read("b")) == (True, None)
        done = client.post(f"/changes/{set_id}/accept", data=form.fields)
        assert done.headers["location"] == f"/changes/{set_id}?done=accept&paths=1"
        assert (owner.read("a"), owner.read("b")) == (None, "b\n")
        answers = [
            each["fields"]["answered_by"]
            for each in place.paddock("audit", "tail", "--event", "answered", "--json")
            if each["fields"]["answer"] == "once"
        ]
        assert answers == [f"{find_actor()} (page)"]


def test_a_denied_request_changes_nothing_and_says_why(tmp_path: Path) -> None:
    place = WebPlace(tmp_path)
    place.settings('[[policy.rule]]\nchanges = "*"\neffect = "deny"\nreason = "not here"\n')
    with place.serve_page() as server, server.client(server.log_in()) as client:
        owner = Owner(place, client)
        set_id = owner.change({"a": "a\n"})
        denied = owner.press(set_id, whole="1")
        assert (denied.status_code, "not here" in denied.text, owner.read("a")) == (403, True, None)
        without = client.post(f"/changes/{set_id}/accept", data={"whole": "1"})
        assert without.status_code == 403
        assert client.get(f"/changes/{set_id}/accept").status_code == 405
        csrf = Form(denied.text, "/logout").fields["csrf"]
        assert client.post(f"/changes/{set_id}/eat", data={"csrf": csrf}).status_code == 404


def test_sets_of_another_workspace_are_only_shown(owner: Owner, tmp_path: Path) -> None:
    other = tmp_path / "other one"
    other.mkdir()
    (tmp_path / "changed").mkdir()
    (tmp_path / "changed/a").write_text("a\n")
    set_id = make_change_set(owner.store, other, tmp_path / "changed")
    page = owner.client.get(f"/changes/{set_id}").text
    text = read_text(page)
    assert f"These changes are of another workspace, {other} . Accept them at the command line:" in text
    assert f"--workspace {shlex.quote(str(other))}" in text
    assert Form(page, f"/changes/{set_id}/accept").ticks == {}
    refused = owner.press(set_id, whole="1")
    assert (refused.status_code, list(other.iterdir())) == (404, [])
    assert "Change set not found in this workspace" in refused.text


def test_a_large_set_is_shown_in_pages_and_a_large_difference_alone(owner: Owner) -> None:
    lines = "".join(f"line {number}\n" for number in range(1000))
    set_id = owner.change({**{f"f{number:03}": f"{number}\n" for number in range(120)}, "g": lines})
    first = owner.client.get(f"/changes/{set_id}").text
    assert len(first) < 150_000
    assert len(Form(first, f"/changes/{set_id}/accept").ticks["at"]) == 100
    second = owner.client.get(f"/changes/{set_id}?page=2").text
    assert Form(second, f"/changes/{set_id}/accept").ticks["at"] == [str(n) for n in range(100, 121)]
    assert (f'href="/changes/{set_id}?at=120"' in second, "+line 999" in second) == (True, False)
    alone = owner.client.get(f"/changes/{set_id}?at=120").text
    assert (Form(alone, f"/changes/{set_id}/accept").ticks["at"], "+line 999" in alone) == (["120"], True)
    for odd in ("?page=0", "?page=x", "?page=999999", "?at=999999", "?at=-1", "?done=x&paths=<b>"):
        assert owner.client.get(f"/changes/{set_id}{odd}").status_code == 200


def test_users_see_their_own_sets_and_another_person_is_asked(tmp_path: Path) -> None:
    place = WebPlace(tmp_path)
    place.settings('[runtimes]\naccess = "overlay"\n[approvals]\nwait_ms = 60000\n')
    alice, boss = place.make_token("alice"), place.make_token("boss", "--approve")
    with place.serve_api_with_page() as server:
        with server.client() as api:
            given = {"language": "python", "code": "open('a', 'w').write('a')", "access": "overlay"}
            headers = {"Authorization": f"Bearer {alice}"}
            set_id = api.post("/v1/executions", json=given, headers=headers).json()["changes"]["id"]
        with server.client() as hers, server.client() as theirs:
            for client, token in ((hers, alice), (theirs, boss)):
                assert client.post("/login", data={"token": token}).status_code == 303
            assert theirs.get(f"/changes/{set_id}").status_code == 404
            assert set_id not in theirs.get("/changes").text
            form = Form(hers.get(f"/changes/{set_id}").text, f"/changes/{set_id}/accept")
            with ThreadPoolExecutor(1) as thread:
                accepting = thread.submit(
                    hers.post, f"/changes/{set_id}/accept", data={**form.fields, "whole": "1"}
                )
                while not (
                    found := re.findall(r'action="/approvals/([0-9A-Z]{26})"', theirs.get("/approvals").text)
                ):
                    assert not accepting.done(), accepting.result().text
                question = Form(theirs.get("/approvals").text, f"/approvals/{found[0]}")
                yes = theirs.post(f"/approvals/{found[0]}", data={**question.fields, "verdict": "once"})
                assert yes.status_code == 303
                done = accepting.result()
            assert done.headers["location"] == f"/changes/{set_id}?done=accept&paths=1"
            assert (place.workspace / "a").read_text() == "a"
