"""`paddock ui`: its link, its address, and the end of logins."""

import json
import re
import socket

import pytest
from tests.support.command import run_paddock
from tests.support.http_api import wait_until_free
from tests.support.web import WebPlace


@pytest.fixture
def place(tmp_path):
    return WebPlace(tmp_path)


def run(place, *arguments):
    return run_paddock(place.workspace, "ui", *arguments, environment=place.environment)


def test_a_link_logs_in_once_and_the_next_command_prints_another(place):
    with place.serve_page() as server:
        cookie = server.log_in(server.link)
        with server.client(cookie) as client:
            assert client.get("/").status_code == 200
        with server.client() as client:
            code = server.link.partition("code=")[2]
            answer = client.post("/login", data={"code": code})
        assert answer.status_code == 403
        assert "The link was used already, or is older than a minute" in answer.text
        assert server.log_in() != cookie
        assert server.stop() == 0
    told = "The link logs you in once, within a minute. Ctrl-C ends the page."
    assert (place.home / "server.log").read_text().splitlines()[0] == told


def test_without_a_login_every_page_leads_to_the_login(place):
    with place.serve_page() as server, server.client() as client:
        answer = client.get("/runs")
        assert (answer.status_code, answer.headers["location"]) == (303, "/login")
        page = client.get("/login").text
        assert f'<pre class="command">paddock ui --link --http {server.host}</pre>' in page
        assert 'name="token"' not in page  # only a server has tokens


def test_logging_out_ends_the_login(place):
    with place.serve_page() as server, server.client(server.log_in()) as client:
        token = re.search(r'name="csrf" value="(\w+)"', client.get("/").text)
        answer = client.post("/logout", data={"csrf": token[1]})
        assert (answer.status_code, answer.headers["location"]) == (303, "/login")
        assert client.get("/").status_code == 303


def test_revoke_ends_logins_of_a_running_server(place):
    with place.serve_page() as server, server.client(server.log_in()) as client:
        assert client.get("/").status_code == 200
        assert run(place, "--revoke").stdout == "ended 1 login\n"
        assert client.get("/").headers["location"] == "/login"
    assert json.loads(run(place, "--revoke", "--json").stdout) == {"ended": 0}


def test_a_login_holds_for_the_next_server_on_the_same_address(place):
    with place.serve_page() as server:
        cookie = server.log_in()
        server.stop()
    wait_until_free(int(server.host.rpartition(":")[2]))
    with place.serve_page("--http", server.host) as again, again.client(cookie) as client:
        assert client.get("/").status_code == 200


def test_a_taken_address_is_refused_with_the_remedy(place):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        done = run(place, "--http", address)
    assert done.returncode == 1
    assert done.stderr == (
        f"--http {address}: cannot listen there: Address already in use. If the page is served there already, "
        "`paddock ui --link` prints a link to it.\n"
    )


def test_an_address_that_is_not_valid_has_no_hint_about_a_served_page(place):
    done = run(place, "--http", "65536")
    assert (done.returncode, done.stderr) == (1, "--http 65536: a port is at most 65535\n")


def test_an_address_that_others_reach_is_refused(place):
    done = run(place, "--http", "0.0.0.0:0")
    assert done.returncode == 2
    assert "Serve the page to them with `paddock serve http --ui`" in " ".join(done.stderr.split())


def test_a_link_to_an_address_without_a_server_is_refused(place):
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    done = run(place, "--http", address, "--link")
    assert done.returncode == 1
    assert done.stdout == ""
    assert "nothing listens there. Start the page with `paddock ui`" in " ".join(done.stderr.split())


def test_revoke_and_link_are_two_commands(place):
    done = run(place, "--revoke", "--link")
    assert done.returncode == 2
    assert "--revoke ends logins" in done.stderr


def test_the_pages_of_a_server_know_its_tokens(place):
    token = place.make_token("bob")
    with place.serve_api_with_page() as server:
        with server.client(server.log_in(server.link)) as client:
            assert "you see the runs of all actors" in client.get("/").text
        with server.client() as client:
            assert 'name="token"' in client.get("/login").text
            assert client.post("/login", data={"token": token}).headers["location"] == "/"
            page = client.get("/").text
            assert "you see your own runs" in page
            assert "token:bob" in page
            assert client.post("/login", data={"token": "wrong"}).status_code == 403
            # The API is where it was.
            assert client.get("/v1/ping").text == '"pong"'
            assert client.get("/v1/executions").status_code == 401
