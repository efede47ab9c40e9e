"""A user of a server sees nothing of another one: neither on the pages, nor by the address of anything of theirs.

Ann has one of everything. Bob asks for every address that any of her pages has, and sends every form.
"""

import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple
from urllib.parse import urljoin, urlsplit

import httpx2
import pytest
from tests.support.http_api import ApiClient
from tests.support.page_parts import PageParts
from tests.support.servers import make_entry, write_servers
from tests.support.web import PAGES, WebPlace, WebServer

MARK = "annas-secret"
SETTINGS = """\
[record]
payloads = "kept"

[runtimes]
access = "overlay"
timeout_ms = 600000

[[policy.rule]]
effect = "ask"
tool = "words/ask"

[[policy.rule]]
effect = "deny"
tool = "words/fail"
reason = "this is not allowed"
"""


class Scene(NamedTuple):
    server: WebServer
    ann: httpx2.Client
    bob: httpx2.Client
    carol: httpx2.Client
    """Carol may answer the questions of others."""
    api: ApiClient
    """Ann's."""
    ids: dict[str, str]
    home: str


@contextmanager
def log_in(server: WebServer, token: str) -> Iterator[httpx2.Client]:
    with server.client() as client:
        assert client.post("/login", data={"token": token}).status_code == 303
        yield client


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    place = WebPlace(tmp_path_factory.mktemp("users"))
    place.settings(SETTINGS)
    (place.home / "words.json").write_text('["plain"]')
    write_servers(place.workspace, {"words": make_entry("words", place.home / "words.json")})
    tokens = {name: place.make_token(name) for name in ("ann", "bob")}
    tokens["carol"] = place.make_token("carol", "--approve")
    with place.serve_api_with_page() as server, server.open_api(tokens["ann"]) as api:
        ids = make_everything(api)
        with ExitStack() as stack:
            clients = [stack.enter_context(log_in(server, tokens[name])) for name in ("ann", "bob", "carol")]
            yield Scene(server, *clients, api, ids, str(place.home))


def make_everything(api: ApiClient) -> dict[str, str]:
    """Run programs of Ann that leave one of everything, and return ids."""
    code = (
        f"console.log('{MARK}'); await servers.words.echo({{ text: '{MARK}' }}); throw new Error('{MARK}');"
    )
    ids = {"failed": api.run(language="javascript", code=code)["id"]}
    denied = f"await servers.words.fail({{ text: '{MARK}' }});"
    ids["denied"] = api.run(language="javascript", code=denied)["id"]
    write = f"open('{MARK}.txt', 'w').write('{MARK}'); print('{MARK}')"
    ids["changed"] = api.run(language="python", code=write, access="overlay")["id"]
    ids["stored"] = api.run(language="python", code=write, access="none", outputs=["*"])["id"]
    ids["session"] = api.post("/v1/sessions", json={"language": "python"}).json()["id"]
    api.run(f"/v1/sessions/{ids['session']}/executions", code=write)
    ids["live"] = api.begin(
        language="python",
        code=f"import time; print('{MARK}', flush=True); time.sleep(300)",
        timeout_ms=600_000,
    )
    ids["question"] = api.begin(server="words", tool="ask", arguments={"text": MARK})
    api.wait_for(ids["question"], lambda state: state.get("question"))
    return ids


class Found(NamedTuple):
    """What pages of one user have."""

    links: set[str]
    forms: dict[str, dict[str, str]]
    """Hidden fields of forms by their action."""
    texts: dict[str, str]
    """The pages, by their path."""


def crawl(client: httpx2.Client) -> Found:
    waiting, found = [*PAGES], Found(set(PAGES), {}, {})
    while waiting:
        path = waiting.pop()
        if "/events" in path or path.startswith("/static/"):
            continue
        answer = client.get(path)
        if not answer.headers.get("content-type", "").startswith("text/html"):
            continue
        found.texts[path] = answer.text
        parts = PageParts(answer.text)
        found.forms.update(read_forms(answer.text))
        for link in parts.links:
            target = urljoin(path, link).partition("#")[0]
            if target not in found.links and not target.startswith("/static/"):
                found.links.add(target)
                if len(found.links) < 400:
                    waiting.append(target)
    return found


def read_forms(text: str) -> dict[str, dict[str, str]]:
    forms: dict[str, dict[str, str]] = {}
    for action, body in re.findall(
        r'<form[^>]*method="post"[^>]*action="([^"]*)"[^>]*>(.*?)</form>', text, re.DOTALL
    ):
        fields = re.findall(r'<(?:input|button)[^>]*?name="([^"]*)"[^>]*?value="([^"]*)"', body)
        forms[action] = dict(fields)
    return forms


@pytest.fixture(scope="module")
def found(scene: Scene) -> Found:
    return crawl(scene.ann)


KINDS = ("/runs/", "/changes/", "/sessions/", "/now/", "/record/", "/servers/")


def test_ann_sees_what_is_hers(scene: Scene, found: Found) -> None:
    shown = "".join(found.texts.values())
    assert shown.count(MARK) > 10
    assert [kind for kind in KINDS if not any(link.startswith(kind) for link in found.links)] == []
    assert {urlsplit(action).path.split("/")[1] for action in found.forms} >= {
        "now",
        "sessions",
        "changes",
        "logout",
    }
    assert all(id_ in shown for name, id_ in scene.ids.items() if name != "session")


def list_secrets(scene: Scene, found: Found) -> set[str]:
    """Return texts that only Ann's pages have: the mark, and the ids of what is hers."""
    own = {name for link in found.links for name in re.findall(r"[0-9A-Za-z_-]{20,}", link)}
    return {MARK, *scene.ids.values(), *own}


@pytest.mark.parametrize("who", ["bob", "carol"])
def test_pages_of_another_user_have_nothing_of_it(scene: Scene, found: Found, who: str) -> None:
    secrets = list_secrets(scene, found)
    for path, text in crawl(getattr(scene, who)).texts.items():
        shown = {each for each in secrets if each in text and each not in path}
        if who == "carol" and path.startswith("/approvals"):  # she answers Ann's question
            shown -= {MARK, scene.ids["question"]}
        assert shown == set(), path


def test_no_address_of_it_shows_another_user_anything(scene: Scene, found: Found) -> None:
    for link in sorted(found.links):
        if "/events" in link:
            with scene.bob.stream("GET", link) as answer:
                assert MARK not in read_some(answer), link
            continue
        answer = scene.bob.get(link, follow_redirects=True)
        assert MARK not in answer.text, link
        own = re.findall(r"[0-9A-Z]{26}|s_[0-9a-f]{30,}|changes-\S+", link.partition("?")[0])
        if own and link.startswith(("/runs/", "/changes/", "/sessions/", "/now/", "/record/")):
            assert answer.status_code in {403, 404, 405}, link


def read_some(answer: httpx2.Response) -> str:
    text = ""
    for piece in answer.iter_text():
        text += piece
        if text.count("\n\n") >= 2:
            break
    return text


def test_no_form_of_another_user_does_anything_to_it(scene: Scene, found: Found) -> None:
    def describe() -> Any:
        states = {name: scene.api.look_up(scene.ids[name])["state"] for name in ("live", "question")}
        sessions = [each["id"] for each in scene.api.get("/v1/sessions").json()["sessions"]]
        changes = [(each["id"], each["state"]) for each in scene.api.get("/v1/changes").json()["changes"]]
        return states, sessions, changes

    before = describe()
    [csrf] = set(re.findall(r'name="csrf" value="(\w+)"', scene.bob.get("/").text))
    for action, fields in found.forms.items():
        if action == "/logout":
            continue
        for name in ("accept", "undo", "discard"):
            target = re.sub(r"/accept$", f"/{name}", action)
            sent = {**fields, "csrf": csrf, "whole": "1", "at": "0", "verdict": "once"}
            answer = scene.bob.post(target, data=sent)
            assert MARK not in answer.text
            assert answer.status_code in {303, 403, 404, 409, 422}, (target, answer.status_code)
    assert describe() == before


def test_a_user_cannot_send_a_form_with_the_token_of_another(scene: Scene, found: Found) -> None:
    for action, fields in found.forms.items():
        assert scene.bob.post(action, data=fields).status_code == 403


def test_nobody_answers_their_own_question(scene: Scene) -> None:
    text = scene.carol.get("/approvals").text
    [(action, fields)] = [
        (action, fields) for action, fields in read_forms(text).items() if action.startswith("/approvals/")
    ]
    for client in (scene.ann, scene.bob):
        [csrf] = set(re.findall(r'name="csrf" value="(\w+)"', client.get("/").text))
        answer = client.post(action, data={**fields, "csrf": csrf, "verdict": "once"})
        assert answer.status_code in {403, 404, 409}, answer.text
    assert scene.api.look_up(scene.ids["question"])["state"] != "finished"


@pytest.mark.parametrize("path", ["/doctor", "/doctor/proof", "/record/verification"])
def test_pages_of_the_server_itself_are_for_its_owner(scene: Scene, path: str) -> None:
    assert scene.ann.get(path).status_code == 403
    [csrf] = set(re.findall(r'name="csrf" value="(\w+)"', scene.ann.get("/").text))
    assert scene.ann.post("/record/verify", data={"csrf": csrf}).status_code == 403


def test_the_navigation_of_a_user_has_no_page_that_is_for_the_owner(scene: Scene) -> None:
    assert 'href="/doctor"' not in scene.ann.get("/").text


def test_no_page_of_a_user_has_a_path_of_the_server(scene: Scene, found: Found) -> None:
    for path, text in found.texts.items():
        assert scene.home not in text, path


def test_a_user_does_not_learn_where_the_workspace_is(scene: Scene, found: Found) -> None:
    workspace = str(scene.server.place.workspace)
    for path, text in [*found.texts.items(), *crawl(scene.carol).texts.items()]:
        assert workspace not in text, path


def test_a_question_of_another_user_has_no_links_that_lead_nowhere(scene: Scene) -> None:
    text = scene.carol.get("/approvals").text
    assert f"<code>{scene.ids['question']}</code>" in text
    links = re.findall(r'<a [^>]*href="(/[^"]*)"', text)
    assert {link: scene.carol.get(link).status_code for link in links} == dict.fromkeys(links, 200)


@pytest.fixture
def owner(scene: Scene) -> Iterator[httpx2.Client]:
    with scene.server.client(scene.server.log_in()) as client:
        yield client


def test_the_owner_reads_changes_of_a_user_and_cannot_settle_them(scene: Scene, owner: httpx2.Client) -> None:
    [target] = re.findall(r'href="(/changes/[^"]+)"', owner.get(f"/runs/{scene.ids['changed']}").text)
    listed = owner.get("/changes").text
    assert re.search(rf'<a href="{target}">.*</a> <span class="tag">of a user</span>', listed)
    page = owner.get(target)
    assert page.status_code == 200
    assert f"<bdi>+{MARK}</bdi>" in page.text
    assert "These changes are of a user of the server" in page.text
    assert "<button" not in page.text.partition("<main")[2]
    [csrf] = set(re.findall(r'name="csrf" value="(\w+)"', page.text))
    for action in ("accept", "undo", "discard"):
        answer = owner.post(f"{target}/{action}", data={"csrf": csrf, "whole": "1"})
        assert answer.status_code == 404, action
    assert not (scene.server.place.workspace / f"{MARK}.txt").exists()


def test_the_owner_reads_what_the_command_line_left(scene: Scene, owner: httpx2.Client) -> None:
    place = scene.server.place
    write = "open('here.txt', 'w').write('of the owner'); print('printed', 'here')"
    done = place.paddock("exec", "--access", "overlay", "--json", "python", "-c", write)
    [record] = place.paddock("audit", "tail", "-n", "1", "--json")
    assert "printed here" in owner.get(f"/runs/{record['request']}").text
    page = owner.get(f"/changes/{done['changes']['id']}").text
    assert "<bdi>+of the owner</bdi>" in page
    assert f"paddock changes accept {done['changes']['id']}</pre>" in page
    assert "<button" not in page.partition("<main")[2]
    place.paddock("changes", "discard", done["changes"]["id"], "--json")
    assert "paddock changes accept" not in owner.get(f"/changes/{done['changes']['id']}").text


def test_filters_cannot_widen_what_a_user_sees(scene: Scene) -> None:
    for query in (
        "actor=token:ann",
        "actor=",
        "actor=*",
        "actor=token:bob&actor=token:ann",
        f"text={MARK}",
        "name=%25",
    ):
        for page in ("/runs", "/record", "/record/export"):
            answer = scene.bob.get(f"{page}?{query}&format=jsonl")
            assert MARK not in answer.text.replace(f'value="{MARK}"', ""), (page, query)
            assert "token:ann" not in answer.text.replace('value="token:ann"', ""), (page, query)


def test_a_live_page_ends_when_the_token_is_revoked(scene: Scene) -> None:
    place = scene.server.place
    token = place.make_token("dora")
    with log_in(scene.server, token) as dora, dora.stream("GET", "/now/events") as answer:
        pieces = answer.iter_text()
        assert next(pieces).startswith("retry: ")
        done = place.paddock("serve", "token", "revoke", "dora", "--json")
        assert done
        with pytest.raises(httpx2.RemoteProtocolError, match="incomplete chunked read"):
            for _ in pieces:
                pass
        assert dora.get("/").status_code in {303, 403}


def test_a_live_page_ends_at_the_logout(scene: Scene) -> None:
    token = scene.server.place.make_token("emma")
    with log_in(scene.server, token) as emma, emma.stream("GET", "/now/events") as answer:
        pieces = answer.iter_text()
        assert next(pieces).startswith("retry: ")
        [csrf] = set(re.findall(r'name="csrf" value="(\w+)"', emma.get("/").text))
        emma.post("/logout", data={"csrf": csrf})
        with pytest.raises(httpx2.RemoteProtocolError, match="incomplete chunked read"):
            for _ in pieces:
                pass
