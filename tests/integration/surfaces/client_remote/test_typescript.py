"""The TypeScript client: its types are those of the OpenAPI document, and it does what the library does."""

import json
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.conftest import script
from tests.support.http_api import TOKEN, ApiServer
from tests.support.scripted_server import (
    EVENTS,
    STARTED,
    Answer,
    Request,
    answer_events,
    answer_plain,
    answer_problem,
    serve_script,
)

ROOT = Path(__file__).resolve().parents[4]
CLIENT = ROOT / "clients" / "typescript"
HERE = Path(__file__).parent
OUTCOME = ("outcome", b'{"id":"01TESTEXECUTION","status":"ok"}')


@pytest.fixture(scope="session")
def modules(npm_modules: Callable[[str, Path], Path]) -> Path:
    return npm_modules("typescript", ROOT / "clients")


@pytest.fixture(scope="session")
def package(modules: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built client."""
    package = tmp_path_factory.mktemp("npm") / "node_modules" / "paddock-client"
    shutil.copytree(CLIENT, package, ignore=shutil.ignore_patterns("node_modules", "dist"))
    compile_project(modules, package)
    return package


def compile_project(modules: Path, project: Path) -> None:
    command = ["node", modules / "typescript/bin/tsc", "-p", project]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def run_node(program: str, package: Path, url: str) -> str:
    done = subprocess.run(
        ["node", HERE / program, package / "dist/index.js", url],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": str(Path(str(shutil.which("node"))).parent), "PADDOCK_TOKEN": TOKEN},
    )
    assert done.returncode == 0, done.stderr
    assert TOKEN not in done.stdout + done.stderr
    return done.stdout


def test_the_types_are_those_of_the_openapi_document(modules: Path) -> None:
    types = script("typescript_client").generate_types(modules)
    assert (CLIENT / "src/schema.ts").read_text() == types, "run: python scripts/typescript_client.py"


def test_the_lock_file_is_that_of_the_package() -> None:
    package, lock = (
        json.loads((CLIENT / name).read_text()) for name in ("package.json", "package-lock.json")
    )
    assert lock["packages"][""]["devDependencies"] == package["devDependencies"]
    assert "dependencies" not in package


def test_the_example_of_the_readme_has_valid_types(modules: Path, package: Path, tmp_path: Path) -> None:
    [example] = re.findall(
        r"^```ts\n(.*?)^```$", (CLIENT / "README.md").read_text(), re.MULTILINE | re.DOTALL
    )
    (tmp_path / "node_modules").symlink_to(package.parent)
    (tmp_path / "package.json").write_text('{"type": "module"}')
    options = {**json.loads((CLIENT / "tsconfig.json").read_text())["compilerOptions"], "rootDir": "."}
    (tmp_path / "tsconfig.json").write_text(json.dumps({"compilerOptions": options, "files": ["example.ts"]}))
    (tmp_path / "example.ts").write_text(example)
    compile_project(modules, tmp_path)


def test_every_method_works_against_a_server(package: Path, server: ApiServer) -> None:
    seen = json.loads(run_node("conversation.mjs", package, server.url))
    absent, closed, invalid, unauthorized, plain = (
        seen.pop(name) for name in ("absent", "closed", "invalid", "unauthorized", "plain")
    )
    assert seen == {
        "guest": ["ok", "x"],
        "events": ["started", "console", "call"],
        "line": {"level": "log", "text": "hi"},
        "output": "hello\n",
        "artifact": "1,2",
        "exit": 3,
        "state": "42",
        "files": ["dir/ü ?#.bin", "in.txt"],
        "bytes": [0, 1],
        "interrupted": "cancelled",
        "sessions": [True],
        "partial": [],
        "aborted": "cancelled",
    }
    assert (absent["status"], absent["type"]) == (404, "not-found")
    assert (closed["status"], closed["type"]) == (410, "session-lost")
    assert (invalid["paddock"], invalid["status"], invalid["type"]) == (True, 422, "invalid-request")
    assert invalid["text"] == "there is no runtime klingon; did you mean kotlin?"
    assert (unauthorized["status"], unauthorized["type"]) == (401, "unauthorized")
    assert plain["text"] == (
        "The token would cross the network to 10.0.0.1 unencrypted. Use https, or set `unencrypted`."
    )


def pour() -> Iterator[bytes]:
    yield EVENTS + STARTED + b"event: outcome\ndata: "
    while True:
        yield b"x" * 65536


@pytest.mark.parametrize(
    ("answer", "printed"),
    [
        (answer_events(OUTCOME), "ok"),
        (answer_events(("outcome", b"{")), "PaddockError: The server's answer is not JSON."),
        (answer_events(("outcome", b"[]")), "PaddockError: The server's answer is not an outcome."),
        (EVENTS + b'event: started\ndata: {"id":"../x"}\n\n', "PaddockError: The server's answer has no valid `id`."),
        (
            answer_plain(200, b"<html>", media_type="text/html"),
            "PaddockError: The server did not answer with events. Is it `paddock serve http`?",
        ),
        (answer_plain(418, b"<html>"), "PaddockError: It answered with the status 418."),
        (answer_problem(500, "internal-error", f"a {TOKEN}"), "PaddockError: a [REDACTED:token]"),
        (lambda _: pour(), "PaddockError: An event has more than 67108864 bytes."),
    ],
    ids=["good", "no JSON", "list", "bad id", "page", "status", "token", "endless"],
)  # fmt: skip
def test_a_server_is_not_trusted(
    answer: Answer | Callable[[Request], Answer], printed: str, package: Path
) -> None:
    with serve_script(answer if callable(answer) else [answer]) as server:
        assert run_node("hostile.mjs", package, server.url) == printed + "\n"


def test_a_request_that_may_have_started_is_not_called_unstarted_later(package: Path) -> None:
    unknown = answer_problem(504, "outcome-unknown", "nobody knows", "Retry-After: 0")
    absent = answer_problem(503, "unavailable", "Nothing was started.", "Retry-After: 0")
    with serve_script([unknown, absent]) as server:
        assert run_node("hostile.mjs", package, server.url) == "PaddockError: nobody knows\n"
        assert len(server.requests) == 6


def test_a_redirect_is_not_followed(package: Path) -> None:
    with serve_script([answer_events(OUTCOME)]) as elsewhere:
        with serve_script([answer_plain(307, b"", f"Location: {elsewhere.url}/x")]) as server:
            printed = run_node("hostile.mjs", package, server.url)
        assert elsewhere.requests == []
    assert printed == "PaddockError: SERVER redirects to another address, to which the token is not sent.\n"


@pytest.mark.parametrize(
    "first",
    [answer_problem(503, "server-busy", "later", "Retry-After: 0"), EVENTS + STARTED],
    ids=["busy", "cut"],
)
def test_an_execution_is_sent_again_with_the_same_key(first: bytes, package: Path) -> None:
    with serve_script([first, answer_events(OUTCOME)]) as server:
        assert run_node("hostile.mjs", package, server.url) == "ok\n"
    one, again = server.requests
    assert one.headers["idempotency-key"] == again.headers["idempotency-key"]
    assert one.body == again.body
