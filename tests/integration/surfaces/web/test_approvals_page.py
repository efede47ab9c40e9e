"""`/approvals`: who sees a question, who may answer it, and what an answer does."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx2
import pytest
from tests.support.http_api import TOKEN, ApiClient
from tests.support.processes import PATIENCE_S
from tests.support.questions import ENDED, asking, make_question
from tests.support.web import WebPlace, WebServer
from tests.support.web_forms import Form, read_notice, read_text

from paddock.model.ids import new_id
from paddock.surfaces.cli.opening import find_actor

ASK = '[[policy.rule]]\neffect = "ask"\ntool = "odd/echo"\nreason = "echoes carry far"\n'
CALL = {"server": "odd", "tool": "echo", "arguments": {"text": "hello"}}
GONE = (
    "This question does not wait any more, and your answer changed nothing: it was answered elsewhere, it has expired, "
    "or the program that asked has ended. The history shows which."
)
OWN = "This question is your own. Another person answers it."


def read_count(page: str) -> str:
    """Return the number in the navigation."""
    [found] = re.findall(r'data-count="(\d+)"', page)
    return found


def read_digest(page: str) -> str:
    """Return what a page sends to learn whether the list has changed."""
    [found] = re.findall(r'hx-get="/approvals/waiting\?seen=([0-9a-f]+)"', page)
    return found


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> WebPlace:
    return WebPlace(tmp_path_factory.mktemp("page"))


@pytest.fixture(scope="module")
def server(place: WebPlace) -> Iterator[WebServer]:
    with place.serve_page() as server:
        yield server


@pytest.fixture
def owner(server: WebServer) -> Iterator[httpx2.Client]:
    with server.client(server.log_in()) as client:
        yield client


def send(client: httpx2.Client, id_: str, verdict: str, **fields: str) -> httpx2.Response:
    """Press a button of a question."""
    form = Form(client.get("/approvals").text, f"/approvals/{id_}")
    return client.post(f"/approvals/{id_}", data={**form.fields, "verdict": verdict, **fields})


@pytest.mark.parametrize(
    ("verdict", "notice"),
    [
        ("once", "You allowed this call, once."),
        ("run", "You allowed this call, and all such calls of its run."),
        ("denied", "You denied this call."),
    ],
)
def test_each_button_gives_its_answer_in_the_name_of_the_person(place, owner, verdict, notice) -> None:
    question = make_question()
    with asking(place.home, question) as answer:
        form = Form(owner.get("/approvals").text, f"/approvals/{question.id}")
        assert form.buttons == ["once", "run", "denied"]
        done = send(owner, question.id, verdict)
        assert (done.status_code, done.headers["location"]) == (
            303,
            f"/approvals?answered={verdict}&question={question.id}",
        )
        given = answer.result(PATIENCE_S)
    assert (given.verdict, given.by) == (verdict, f"{find_actor()} (page)")
    after = owner.get(done.headers["location"]).text
    assert read_notice(after) == notice
    assert "No request waits for a person." in after


def test_a_question_shows_all_that_a_person_decides_on(place, owner) -> None:
    question = make_question(scopes=("once",))
    with asking(place.home, question):
        page = owner.get("/approvals").text
        assert Form(page, f"/approvals/{question.id}").buttons == ["once", "denied"]
        text = read_text(page)
        assert re.search(
            r"call odd/echo waits [\d.]+ s left for an answer For agent \(mcp\) Why echoes", text
        )
        assert "Why echoes carry far Rule user rule 1 Run" in text
        assert "Arguments text hello times 3 Allow once Deny" in text
        refused = send(owner, question.id, "run")
        assert refused.status_code == 422
        assert "This question can be allowed only once." in refused.text


def test_a_question_about_changes_shows_the_difference(place, owner) -> None:
    set_id = "changes-" + "0" * 32
    lines = (
        '["1 of 1 path: 1 added", "diff a/x b/x", "--- a/x", "@@ -1 +1 @@", "+<b>new</b>", "-old \\u202e", '
        '"diff a/y b/y", "--- a/y"]'
    )
    question = make_question(
        what="accept changes into the workspace", details=f'{{"id": "{set_id}", "difference": {lines}}}'
    )
    with asking(place.home, question):
        page = owner.get("/approvals").text
    assert f'<a href="/changes/{set_id}">' in page
    assert '<span class="add"><bdi>+&lt;b&gt;new&lt;/b&gt;</bdi>\n</span>' in page
    assert re.findall(r'<span class="same"><bdi>(--- .*)</bdi>', page) == ["--- a/x", "--- a/y"]
    assert '<span class="del"><bdi>-old \\u202e</bdi>\n</span>' in page


def test_arguments_that_were_shortened_are_shown_as_they_are(place, owner) -> None:
    question = make_question(details='{"text": "a [... 9 characters not shown ...] <b>"')
    with asking(place.home, question):
        text = read_text(owner.get("/approvals").text)
    assert "The arguments were too long to be shown in whole:" in text
    assert '{"text": "a [... 9 characters not shown ...] <b>"' in text


def test_the_first_answer_counts(place, owner) -> None:
    question = make_question()
    with asking(place.home, question) as answer:
        form = Form(owner.get("/approvals").text, f"/approvals/{question.id}")
        sent = [
            owner.post(f"/approvals/{question.id}", data={**form.fields, "verdict": verdict})
            for verdict in ("denied", "once")
        ]
        assert answer.result(PATIENCE_S).verdict == "denied"
    assert [each.status_code for each in sent] == [303, 409]
    already = f"Your answer changed nothing: {question.id} already has an answer; the first answer counts."
    assert read_notice(sent[1].text) in {GONE, already}


def test_an_answer_that_comes_too_late_changes_nothing(place, owner) -> None:
    question = make_question()
    with asking(place.home, question) as answer:
        form = Form(owner.get("/approvals").text, f"/approvals/{question.id}")
    assert answer.result(PATIENCE_S) == ENDED
    late = owner.post(f"/approvals/{question.id}", data={**form.fields, "verdict": "once"})
    assert (late.status_code, read_notice(late.text)) == (409, GONE)
    for id_ in (new_id(), "x"):
        unknown = owner.post(f"/approvals/{id_}", data={**form.fields, "verdict": "once"})
        assert (unknown.status_code, read_notice(unknown.text)) == (409, GONE)


def test_a_form_counts_only_for_the_question_that_it_showed(place, owner) -> None:
    question = make_question()
    with asking(place.home, question) as answer:
        changed = send(owner, question.id, "once", shown="0" * 64)
        assert changed.status_code == 409
        assert read_notice(changed.text) == (
            "The question was changed since this page showed it, and your answer did not count. Read it again."
        )
        invalid = send(owner, question.id, "yes")
        assert (invalid.status_code, "An answer is one of: once, run, denied." in invalid.text) == (422, True)
        foreign = send(owner, question.id, "once", csrf="0" * 64)
        without = send(owner, question.id, "once", csrf="")
        assert (foreign.status_code, without.status_code) == (403, 403)
        other = owner.post(
            f"/approvals/{question.id}", data={"verdict": "once"}, headers={"Origin": "http://127.0.0.1:1"}
        )
        assert other.status_code == 403
        assert owner.get(f"/approvals/{question.id}").status_code == 405
        assert not answer.done()


def test_the_list_and_the_number_come_only_when_they_have_changed(place, owner) -> None:
    before = owner.get("/approvals").text
    assert read_count(before) == "0"
    seen = {"seen": read_digest(before)}
    part = {"HX-Request": "true"}
    assert owner.get("/approvals/waiting", params=seen, headers=part).status_code == 204
    assert owner.get("/approvals/count", params={"seen": "0"}, headers=part).status_code == 204
    with asking(place.home, make_question()):
        listed = owner.get("/approvals/waiting", params=seen, headers=part)
        assert (listed.status_code, "<html" in listed.text, "Allow once" in listed.text) == (200, False, True)
        again = {"seen": read_digest(listed.text)}
        assert owner.get("/approvals/waiting", params=again, headers=part).status_code == 204
        counted = owner.get("/approvals/count", params={"seen": "0"}, headers=part)
        assert (counted.status_code, read_count(counted.text)) == (200, "1")
        assert read_count(owner.get("/runs").text) == "1"


def test_a_part_leads_to_the_login_as_a_whole(server) -> None:
    with server.client() as client:
        answer = client.get("/approvals/count", headers={"HX-Request": "true"})
    assert (answer.status_code, answer.headers["hx-redirect"], answer.text) == (200, "/login", "")


class People:
    """Users of a server, each with a browser and with a client of the API."""

    def __init__(self, server: WebServer, tokens: dict[str, str]) -> None:
        self.pages: dict[str, httpx2.Client] = {}
        self.api: dict[str, ApiClient] = {}
        for name, token in tokens.items():
            self.pages[name] = server.client()
            assert self.pages[name].post("/login", data={"token": token}).status_code == 303
            headers = {"Authorization": f"Bearer {token}"}
            http = httpx2.Client(base_url=server.url, headers=headers, timeout=PATIENCE_S, trust_env=False)
            self.api[name] = ApiClient(http)
        self.pages["owner"] = server.client(server.log_in())

    def close(self) -> None:
        """Close all connections."""
        for client in (*self.pages.values(), *(each.http for each in self.api.values())):
            client.close()

    @contextmanager
    def asking(self, name: str) -> Iterator[tuple[str, Any]]:
        """Run something that asks; yield the execution and the question."""
        api = self.api[name]
        id_ = api.begin(**CALL)
        try:
            yield id_, api.wait_for(id_, lambda state: state["question"])["question"]
        finally:
            api.delete(f"/v1/executions/{id_}")


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> Iterator[People]:
    place = WebPlace(tmp_path_factory.mktemp("users"))
    place.settings(ASK)
    tokens = {"alice": place.make_token("alice"), "bob": place.make_token("bob")}
    tokens |= {"boss": place.make_token("boss", "--approve"), "owners": TOKEN}
    with place.serve_api_with_page() as server:
        people = People(server, tokens)
        yield people
        people.close()


def test_another_user_with_the_right_says_yes(people: People) -> None:
    with people.asking("alice") as (id_, question):
        assert read_count(people.pages["boss"].get("/").text) == "1"
        waiting = read_text(people.pages["alice"].get("/approvals").text)
        assert re.search(r"History .* server odd/echo token:alice user rule 1 waits", waiting)
        assert send(people.pages["boss"], question["id"], "once").status_code == 303
        outcome = people.api["alice"].wait_for(id_, lambda state: state["state"] == "finished")["outcome"]
    assert (outcome["status"], outcome["value"]) == ("ok", "hello")
    alice, bob = (read_text(people.pages[name].get("/approvals").text) for name in ("alice", "bob"))
    assert re.search(
        r"History .* server odd/echo token:alice user rule 1 allowed once token:boss \(page\)", alice
    )
    assert "token:alice" not in bob
    owner = read_text(people.pages["owner"].get("/approvals").text)
    assert "server odd/echo token:alice user rule 1 allowed once token:boss (page)" in owner
    assert "once by token:boss (page)" in read_text(people.pages["owner"].get("/record?event=answered").text)


def test_nobody_answers_their_own_question(people: People) -> None:
    for name in ("alice", "boss"):
        with people.asking(name) as (id_, question):
            page = people.pages[name].get("/approvals").text
            assert (OWN in page, f"/approvals/{question['id']}" in page) == (True, False)
            assert read_count(page) == "0"
            csrf = Form(page, "/logout").fields["csrf"]
            data = {"csrf": csrf, "verdict": "once", "shown": "0" * 64}
            refused = people.pages[name].post(f"/approvals/{question['id']}", data=data)
            assert (refused.status_code, OWN in refused.text) == (403, True)
            assert people.api[name].look_up(id_)["question"] == question


def test_a_user_without_the_right_neither_sees_nor_answers_the_questions_of_others(people: People) -> None:
    with people.asking("alice") as (id_, question):
        bob = people.pages["bob"]
        page = bob.get("/approvals").text
        assert question["id"] not in page
        data = {"csrf": Form(page, "/logout").fields["csrf"], "verdict": "once", "shown": "0" * 64}
        refused = bob.post(f"/approvals/{question['id']}", data=data)
        assert refused.status_code == 403
        assert "This token may not answer questions." in refused.text
        assert people.api["alice"].look_up(id_)["question"] == question


def test_the_owner_answers_the_questions_of_all_users(people: People) -> None:
    for name in ("alice", "boss", "owners"):
        with people.asking(name) as (id_, question):
            assert send(people.pages["owner"], question["id"], "denied").status_code == 303
            outcome = people.api[name].wait_for(id_, lambda state: state["state"] == "finished")["outcome"]
        assert outcome["error"]["message"] == f"echoes carry far: denied by {find_actor()} (page)"
