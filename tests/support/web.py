"""The page: a real `paddock ui` with a home of its own, and people who are logged in to it."""

import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from http.cookiejar import Cookie
from urllib.parse import parse_qs, urlsplit

import httpx2
from tests.support.command import PADDOCK
from tests.support.http_api import TOKEN, ApiClient, ApiPlace, ApiServer
from tests.support.processes import PATIENCE_S

_LINK = re.compile(r"^(http://127\.0\.0\.1:\d+)/login\?code=\S+$")

PAGES = ("/", "/approvals", "/runs", "/sessions", "/changes", "/servers", "/policy", "/record", "/doctor")
"""The pages of the navigation, in its order."""


class WebServer:
    """A running server of the page. Its owner logs in with the link that it printed."""

    def __init__(self, place: ApiPlace, process: "subprocess.Popen[str]", link: str) -> None:
        self.place = place
        self.process = process
        self.link = link
        """The link that the server printed. It works once."""
        found = _LINK.match(link)
        assert found, link
        self.url = found[1]
        self.host = urlsplit(self.url).netloc

    def make_link(self) -> str:
        """Return another link, as the owner's command prints it."""
        command = [PADDOCK, "ui", "--http", self.host, "--link"]
        printed = subprocess.run(
            command,
            cwd=self.place.workspace,
            env=self.place.environment,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        return printed.stdout.strip()

    def log_in(self, link: str | None = None) -> Cookie:
        """Use a link as a browser does, by default a new one, and return the cookie of the login."""
        [code] = parse_qs(urlsplit(link or self.make_link()).query)["code"]
        with self.client() as client:
            answer = client.post("/login", data={"code": code})
            assert (answer.status_code, answer.headers["location"]) == (303, "/"), answer.text
            [cookie] = client.cookies.jar
            return cookie

    def client(self, cookie: Cookie | None = None) -> httpx2.Client:
        """Return a client that sends what a browser does for requests of the page itself; with a cookie it is logged in."""
        headers = {"Origin": self.url, "Sec-Fetch-Site": "same-origin"}
        client = httpx2.Client(base_url=self.url, headers=headers, timeout=PATIENCE_S, trust_env=False)
        if cookie is not None:
            client.cookies.set(cookie.name, cookie.value or "", domain="127.0.0.1")
        return client

    def open_api(self, token: str | None = TOKEN) -> AbstractContextManager[ApiClient]:
        """Return a context with a client of the API that is served beside the page."""
        return ApiServer(self.process, self.url).client(token)

    def stop(self) -> int:
        """Ask the server to end, as a supervisor does, and return its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE_S)


class WebPlace(ApiPlace):
    """A workspace with the servers `odd` and `even`, a home and an environment, for servers of the page."""

    @contextmanager
    def serve_page(self, *flags: str, address: str = "127.0.0.1:0") -> Iterator[WebServer]:
        """Serve the page of this state directory to its owner."""
        with self._start("ui", "--http", address, *flags) as server:
            yield server

    @contextmanager
    def serve_api_with_page(self, *flags: str, address: str = "127.0.0.1:0") -> Iterator[WebServer]:
        """Serve the API, with the page beside it."""
        with self._start("serve", "http", "--ui", "--http", address, *flags) as server:
            yield server

    @contextmanager
    def _start(self, *arguments: str) -> Iterator[WebServer]:
        said = self.home / "server.log"
        with said.open("ab") as log:
            process = subprocess.Popen(
                [*self.inside, PADDOCK, *arguments],
                cwd=self.workspace,
                env={**self.environment, "PADDOCK_TOKEN": TOKEN},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        assert process.stdout is not None
        try:
            link = process.stdout.readline().strip()
            assert _LINK.match(link), link + said.read_text()
            yield WebServer(self, process, link)
        finally:
            if process.poll() is None:
                process.kill()
            process.communicate()


def log_in_with_token(server: WebServer, token: str) -> Cookie:
    """Return the cookie of the login of a user of the server."""
    with server.client() as client:
        answer = client.post("/login", data={"token": token})
        assert (answer.status_code, answer.headers["location"]) == (303, "/"), answer.text
        [cookie] = client.cookies.jar
        return cookie
