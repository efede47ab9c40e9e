"""The page of what runs now: other processes of the user, live, and the button that ends a run."""

import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from html import unescape

import pytest
from tests.support.command import PADDOCK
from tests.support.http_api import POLL_S
from tests.support.processes import PATIENCE_S
from tests.support.web import WebPlace

PROGRAM = "import time\nprint('<b>began</b>', flush=True)\ntime.sleep(1000)"
LONG = ("--set", "runtimes.timeout_ms=600000")


@pytest.fixture
def place(tmp_path):
    return WebPlace(tmp_path)


@contextmanager
def run_command(place, *words, stdout=subprocess.PIPE) -> Iterator["subprocess.Popen[str]"]:
    """Run a command beside the page, as another process of the same user."""
    process = subprocess.Popen(
        [PADDOCK, *words],
        cwd=place.workspace,
        env=place.environment,
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def look_until(client, pattern, path="/"):
    """Load a page until it has a text, and return what was found.

    A page leaves out processes that do not answer within two seconds.
    """
    deadline = time.monotonic() + PATIENCE_S
    while not (found := re.search(pattern, page := client.get(path).text)):
        assert time.monotonic() < deadline, page
        time.sleep(POLL_S)
    return found


def find_token(page):
    return re.search(r'name="csrf" value="([^"]+)"', page)[1]


def test_a_run_of_another_process_is_shown_and_ended(place):
    with ExitStack() as stack:
        server = stack.enter_context(place.serve_page())
        client = stack.enter_context(server.client(server.log_in()))
        assert "Nothing runs now. What has run is under Runs." in client.get("/").text
        run = stack.enter_context(run_command(place, "exec", "python", *LONG, "-c", PROGRAM))
        id_ = look_until(client, r'name="run" value="(\w+)"')[1]
        look_until(client, r"<pre><bdi>&lt;b&gt;began&lt;/b&gt;\n</bdi></pre>")
        page = look_until(client, r"<dt>Memory</dt><dd>\d+(\.\d)? MB</dd>").string
        assert re.search(r"<dt>CPU</dt><dd>\d+(\.\d)? m?s</dd>", page)
        assert re.search(
            rf'<h3><a href="/now/{id_}"><bdi>python program</bdi></a> <span class="status">running', page
        )
        look_until(client, "&lt;b&gt;began&lt;/b&gt;", f"/now/{id_}")
        answer = client.post("/now/stop", data={"run": id_, "csrf": find_token(page)})
        assert (answer.status_code, answer.headers["location"]) == (303, "/")
        said, errors = run.communicate(timeout=PATIENCE_S)
        assert (run.returncode, said, errors) == (137, "<b>began</b>\n", "The program was cancelled\n")
        look_until(client, "Nothing runs now")
        ended = client.get(f"/now/{id_}")
        assert (ended.status_code, ended.headers["location"]) == (303, f"/runs/{id_}")
        unknown = client.get("/now/01JD3W0ZV6N4YQ1R2X5T7B8C9D")
        assert unknown.status_code == 404
        assert "This run has ended, or is another user&#39;s." in unknown.text
        # The last event closes the connection of the page: nothing more happens to the run.
        events = client.get(f"/now/{id_}/events").text
        assert "The run has ended." in events
        assert events.endswith("event: ended\ndata:\n\n")
        again = client.post("/now/stop", data={"run": id_, "csrf": find_token(page)})
        assert again.status_code == 303


def test_events_show_a_run_that_begins_and_its_end(place):
    with ExitStack() as stack:
        server = stack.enter_context(place.serve_page())
        client = stack.enter_context(server.client(server.log_in()))
        token = find_token(client.get("/").text)
        events = stack.enter_context(client.stream("GET", "/now/events"))
        assert events.headers["content-type"].startswith("text/event-stream")
        lines = events.iter_lines()
        assert next(lines) == "retry: 1000"

        def read_until(pattern):
            return next(found for line in lines if (found := re.search(pattern, line)))

        read_until("Nothing runs now")
        stack.enter_context(run_command(place, "exec", "python", *LONG, "-c", PROGRAM))
        id_ = read_until(r'name="run" value="(\w+)"')[1]
        read_until("&lt;b&gt;began&lt;/b&gt;")
        with server.client(client.cookies.jar.__iter__().__next__()) as other:
            output = stack.enter_context(other.stream("GET", f"/now/{id_}/events"))
            texts = output.iter_lines()
            assert any("began" in line for line in texts)
            assert client.post("/now/stop", data={"run": id_, "csrf": token}).status_code == 303
            assert any("The run has ended." in line for line in texts)
        read_until("Nothing runs now")


HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "\x1b]0;title\x07\x1b[2J",
    "abc\u202ecba\u2066",
    "data: x\n\nevent: now\ndata: <script>",
    "{{ 7 * 7 }}",
    "x" * 100_000,
)


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_what_a_program_prints_stays_text(place, text):
    program = f"import time\nprint({text!r}, flush=True)\nprint('THE END', flush=True)\ntime.sleep(1000)"
    with ExitStack() as stack:
        server = stack.enter_context(place.serve_page())
        client = stack.enter_context(server.client(server.log_in()))
        words = "exec", "python", *LONG, "-c", program
        stack.enter_context(run_command(place, *words, stdout=subprocess.DEVNULL))
        page = look_until(client, "THE END").string
        assert re.search(r"<script(?! src=\"/static/)|<img src=x|\x1b|\x07|\u202e|\u2066|>49<", page) is None
        assert len(page) < 100_000
        stream = stack.enter_context(client.stream("GET", "/now/events"))
        lines = stream.iter_lines()
        first = [next(lines) for _ in range(3)]
        assert first[0] == "retry: 1000"
        part = []
        for line in lines:
            if not line:
                break
            part.append(line)
        assert all(line.startswith("data: ") for line in part)
        assert len(unescape("".join(part))) > 100


def test_a_run_of_another_user_is_neither_shown_nor_ended(place):
    ada, bob = place.make_token("ada"), place.make_token("bob")
    with ExitStack() as stack:
        server = stack.enter_context(place.serve_api_with_page())
        api = stack.enter_context(server.client())
        body = {"language": "javascript", "code": "console.log('mine'); for (;;) await sleep(1000)"}
        headers = {"Authorization": f"Bearer {ada}", "Prefer": "respond-async"}
        started = api.post("/v1/executions", json=body, headers=headers)
        assert started.status_code == 202, started.text
        users = {}
        for name, token in (("ada", ada), ("bob", bob)):
            users[name] = stack.enter_context(server.client())
            assert users[name].post("/login", data={"token": token}).status_code == 303
        owner = stack.enter_context(server.client(server.log_in(server.link)))
        id_ = look_until(users["ada"], r'name="run" value="(\w+)"')[1]
        look_until(owner, id_)
        page = users["bob"].get("/").text
        assert id_ not in page
        assert "mine" not in page
        assert users["bob"].get(f"/now/{id_}").status_code == 404
        token = find_token(page)
        assert users["bob"].post("/now/stop", data={"run": id_, "csrf": token}).status_code == 303
        token = find_token(look_until(users["ada"], id_).string)
        assert users["ada"].post("/now/stop", data={"run": id_, "csrf": token}).status_code == 303
        look_until(users["ada"], "Nothing runs now")
        assert id_ not in owner.get("/").text


def test_a_form_without_the_token_ends_nothing(place):
    with ExitStack() as stack:
        server = stack.enter_context(place.serve_page())
        client = stack.enter_context(server.client(server.log_in()))
        stack.enter_context(run_command(place, "exec", "python", *LONG, "-c", PROGRAM))
        id_ = look_until(client, r'name="run" value="(\w+)"')[1]
        assert client.post("/now/stop", data={"run": id_}).status_code == 403
        assert client.get("/now/stop", params={"run": id_}).status_code in {404, 405}
        look_until(client, id_)
