"""`paddock servers enable|disable|refresh` as a person uses them, over a registry on loopback."""

import json
import ssl
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

import pytest
from tests.support.command import PADDOCK, Ended, make_environment, run_paddock
from tests.support.terminal import at_terminal


def offered(name: str) -> dict[str, Any]:
    package = {"registryType": "npm", "identifier": name, "version": "1.2.3", "transport": {"type": "stdio"}}
    return {"server": {"name": f"io.example/{name}", "description": "Says it again", "packages": [package]}}


PAGES = {
    "": {"servers": [offered("@good/echo")], "metadata": {"nextCursor": "two &"}},
    "two &": {"servers": [offered("@bad/echo")], "metadata": {}},
}


class Handler(BaseHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        pass

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        asked = parse_qs(parts.query)
        if parts.path == "/moved":
            self.send_response(302)
            self.send_header("Location", "/v0/servers")
            self.end_headers()
            return
        assert asked["limit"] == ["1"]
        body = json.dumps(PAGES[asked.get("cursor", [""])[0]]).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class Home(NamedTuple):
    workspace: Path
    environment: dict[str, str]

    def paddock(self, *arguments: str) -> Ended:
        return run_paddock(self.workspace, "servers", *arguments, environment=self.environment)

    def settings(self, text: str) -> None:
        file = Path(self.environment["HOME"]) / ".config/paddock/paddock.toml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("certificate")
    key, made = folder / "key.pem", folder / "certificate.pem"
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
    ]
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-days", "2"]
    subprocess.run(
        [*command, *names, "-keyout", str(key), "-out", str(made)], check=True, capture_output=True
    )
    return made, key


@pytest.fixture
def registry(certificate: tuple[Path, Path]) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"https://localhost:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def home(tmp_path: Path, certificate: tuple[Path, Path]) -> Home:
    workspace, own = tmp_path / "ws", tmp_path / "home"
    workspace.mkdir()
    own.mkdir()
    environment = make_environment(own, PATH="/usr/bin:/bin", SSL_CERT_FILE=str(certificate[0]))
    return Home(workspace, environment)


def test_a_list_is_fetched_and_a_trusted_server_enabled_and_disabled(home: Home, registry: str) -> None:
    home.settings(f'[servers]\nregistry_source = "{registry}/v0/servers?limit=1"\n')
    assert home.paddock("enable", "@good/echo")[2] == (
        "there is no server '@good/echo' in the registry's list; `paddock servers refresh` fetches the list\n"
    )
    assert home.paddock("refresh") == (0, "2 servers can be enabled\n", "")
    assert home.paddock("refresh", "--json")[1] == '{"offers": 2}\n'
    trust = Path(home.environment["HOME"]) / ".config/paddock/trusted-servers.json"
    code, _, errors = home.paddock("enable", "@good/echo")
    shown = "@good/echo\n  command: npx -y @good/echo@1.2.3\n  variables: none\n"
    told = (
        f'{shown}@good/echo is not trusted; to trust it, write "npm:@good/echo" into {trust}, a JSON array\n'
    )
    assert (code, errors) == (1, told)
    trust.write_text('["@good/*"]')
    file = home.workspace / ".paddock/servers.json"
    assert home.paddock("enable", "@good/echo") == (0, f"echo is enabled in {file}\n", shown)
    entry = {"command": "npx", "args": ["-y", "@good/echo@1.2.3"]}
    assert json.loads(file.read_text()) == {"mcpServers": {"echo": entry}}
    assert [each["name"] for each in json.loads(home.paddock("list", "--json")[1])] == ["echo"]
    backup = file.with_name("servers.json.backup")
    assert home.paddock("disable", "echo") == (
        0,
        f"echo is disabled in {file}\n",
        f"backup: {backup}\n",
    )
    assert json.loads(home.paddock("list", "--json")[1]) == []
    facts = {"name": "echo", "file": str(file), "entry": entry, "backup": f"{backup}.2"}
    assert json.loads(home.paddock("enable", "echo", "--json")[1]) == facts


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("", "no registry is configured; set servers.registry_source to its https address, or to a file"),
        ("http://localhost/list", "servers.registry_source: http://localhost/list: only https addresses"),
        ("REGISTRY/moved", "localhost: the registry answers HTTP 302"),
        ("https://localhost:1/list", "localhost: the registry cannot be reached: connection refused\n"),
        (
            "https://localhost:99999/list",
            "servers.registry_source: https://localhost:99999/list: this is not a valid address; write "
            "https://HOST/PATH, where a port is 1 to 65535\n",
        ),
        (
            "https://[::1/list",
            "servers.registry_source: https://[::1/list: this is not a valid address; write https://HOST/PATH, "
            "where a port is 1 to 65535\n",
        ),
        ("WORKSPACE/none.json", "none.json: cannot be read: "),
        ("WORKSPACE/other.json", "other.json: no list `servers`; this is not a registry's list"),
        ("WORKSPACE/broken.json", "broken.json: this is not JSON"),
        (
            "WORKSPACE/\\u0000",
            "servers.registry_source: this is an address or a path, but contains a NUL character",
        ),
    ],
)
def test_a_list_that_cannot_be_had_leaves_the_old_one(
    home: Home, registry: str, source: str, message: str
) -> None:
    whole = home.workspace / "list.json"
    whole.write_text(json.dumps(PAGES[""]))
    (home.workspace / "other.json").write_text("[]")
    (home.workspace / "broken.json").write_text("{")
    home.settings(f'[servers]\nregistry_source = "{whole}"\n')
    assert home.paddock("refresh", "--json")[1] == '{"offers": 1}\n'
    kept = next(Path(home.environment["HOME"]).rglob("registry.json"))
    before = kept.read_bytes()
    place = source.replace("REGISTRY", registry).replace("WORKSPACE", str(home.workspace))
    home.settings(f'[servers]\nregistry_source = "{place}"\n')
    code, _, errors = home.paddock("refresh")
    assert (code, message in errors) == (1, True), errors
    assert kept.read_bytes() == before
    assert [each.name for each in kept.parent.iterdir()] == [kept.name]


def test_a_workspace_may_not_say_where_servers_come_from(home: Home) -> None:
    (home.workspace / ".paddock").mkdir()
    (home.workspace / ".paddock/paddock.toml").write_text(
        '[servers]\nregistry_source = "https://evil.example"\n'
    )
    code, _, errors = home.paddock("refresh")
    assert code != 0
    assert "servers.registry_source" in errors


@pytest.mark.parametrize(("answer", "code"), [("y", 0), ("n", 1)])
def test_a_person_at_a_terminal_sees_command_and_variables_before_the_file_changes(
    home: Home, answer: str, code: int
) -> None:
    offer = offered("@good/echo")
    offer["server"]["packages"][0]["environmentVariables"] = [{"name": "ECHO_TOKEN", "isRequired": True}]
    (home.workspace / "list.json").write_text(json.dumps({"servers": [offer]}))
    home.settings(f'[servers]\nregistry_source = "{home.workspace}/list.json"\n')
    (Path(home.environment["HOME"]) / ".config/paddock/trusted-servers.json").write_text('["npm:@good/echo"]')
    assert home.paddock("refresh")[0] == 0
    command = [PADDOCK, "servers", "enable", "@good/echo"]
    shown, ended = at_terminal(command, home.workspace, home.environment, early=f"{answer}\n")
    before, question, _ = shown.replace("\r\n", "\n").partition("Enable it? [y/N]: ")
    assert before.endswith("@good/echo\n  command: npx -y @good/echo@1.2.3\n  variables: ECHO_TOKEN\n")
    assert (bool(question), ended, (home.workspace / ".paddock/servers.json").exists()) == (
        True,
        code,
        code == 0,
    )


@pytest.mark.parametrize(
    ("proxy", "told"),
    [
        (
            "http://127.0.0.1:99999",
            "HTTPS_PROXY names port 99999, but a port is 1 to 65535; correct it, or unset it\n",
        ),
        (
            "http://127.0.0.1:9",
            "registry.example: the registry cannot be reached: the proxy http://127.0.0.1:9 that HTTPS_PROXY names: "
            "connection refused. Correct HTTPS_PROXY, unset it, or name the host in NO_PROXY\n",
        ),
    ],
)
def test_a_proxy_in_the_way_to_the_registry_is_named(home: Home, proxy: str, told: str) -> None:
    home.settings('[servers]\nregistry_source = "https://registry.example/list"\n')
    home.environment["HTTPS_PROXY"] = proxy
    assert home.paddock("refresh") == (1, "", told)


def test_entries_of_the_trust_file_that_trust_nobody_are_told(home: Home) -> None:
    (home.workspace / "list.json").write_text(json.dumps(PAGES[""]))
    home.settings(f'[servers]\nregistry_source = "{home.workspace}/list.json"\n')
    assert home.paddock("refresh")[0] == 0
    trust = Path(home.environment["HOME"]) / ".config/paddock/trusted-servers.json"
    trust.write_text('["gem:x", "@good/echo"]')
    warning = (
        f'warning: {trust}: entry 1, "gem:x", trusts no server: "gem" is not a source of servers; write npm:NAME, pypi:NAME or '
        "remote:NAME\n"
    )
    code, output, errors = home.paddock("enable", "@good/echo", "--json")
    assert (code, json.loads(output)["name"], errors.startswith(warning)) == (0, "echo", True), errors
    assert home.paddock("disable", "echo")[0] == 0
    trust.write_text('{"npm": ["@good/echo"]}')
    (home.workspace / ".paddock/servers.json").unlink()
    code, output, errors = home.paddock("enable", "@good/echo")
    assert (code, output, errors.splitlines()[0]) == (
        1,
        "",
        f"warning: {trust}: this is not a JSON array; it trusts no server; "
        'write strings such as ["npm:@scope/name", "pypi:name@1.2.3"]',
    )
