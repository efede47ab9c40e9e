"""Resources and prompts of servers for the hub: what is sent, what comes back, and what hostile servers achieve."""

import asyncio
import os
from dataclasses import replace

import pytest
from tests.support.servers import make_command

from paddock.engines.servers.config import StdioServer
from paddock.engines.servers.methods import MethodResult
from paddock.engines.servers.person import PERSON
from paddock.model.errors import InvalidArguments, ServerRejected, ServerUnavailable
from paddock.policy.redaction.known import ServerSecrets

from .conftest import failure

SECRET = "tok-0123456789abcdef"
RESOURCES = int(os.environ.get("PADDOCK_LISTED_RESOURCES", "50000"))
"""Resources of a hostile server; the long form has 1000000."""
VALUES = 100_000
READ, LIST = "resources/read", "resources/list"


@pytest.fixture
def library():
    def make(*flags):
        command, *rest = make_command("library", *flags)
        secrets = ServerSecrets({SECRET})
        return StdioServer(
            "lib", command, tuple(rest), env={"LIBRARY_TOKEN": SECRET}, secrets=secrets, credentials=secrets
        )

    return make


def run(hub, server, *requests):
    """Return what methods of a server return or raise, and its warnings."""

    async def main():
        async with hub(server) as h:
            found = [
                await asyncio.gather(h.request("lib", *each), return_exceptions=True) for each in requests
            ]
            return [each for [each] in found], h.list_status()["lib"].warnings

    return asyncio.run(main())


def test_resources_and_prompts_are_returned_without_credentials(hub, library):
    found, warnings = run(
        hub,
        library(),
        (LIST, {}),
        (READ, {"uri": "file:///notes.md"}),
        (READ, {"uri": "file:///dot.png"}),
        ("prompts/list", {}),
        ("prompts/get", {"name": "greet", "arguments": {"who": "Ada"}}),
    )
    hidden = {"seen": "[REDACTED:server]"}
    message = {"role": "user", "content": {"type": "text", "text": "Hello Ada"}}
    assert [each.value for each in found] == [
        [
            {"uri": "file:///notes.md", "name": "notes.md", "mimeType": "text/markdown"},
            {"uri": "file:///dot.png", "name": "dot.png", "mimeType": "image/png"},
        ],
        [{"uri": "file:///notes.md", "mimeType": "text/markdown", "text": "# Notes", "_meta": hidden}],
        [{"uri": "file:///dot.png", "mimeType": "image/png", "blob": "iVBORw0KGgo=", "_meta": hidden}],
        [{"name": "greet", "description": "Greets", "arguments": [{"name": "who"}]}],
        {"description": "A greeting", "messages": [message]},
    ]
    assert warnings == ()


def test_what_no_server_accepts_is_not_sent(hub, library):
    found, _ = run(
        hub,
        library(),
        (READ, {}),
        (READ, {"uri": "notes.md"}),
        (READ, {"uri": "file:///a\nb"}),
        (READ, {"uri": "file:///a\u200bb"}),
        (READ, {"uri": "x:" + "a" * 8191}),
        (LIST, {"cursor": "1"}),
        ("prompts/get", {"name": ""}),
        ("prompts/get", {"name": "greet", "arguments": []}),
        ("prompts/get", {"name": "greet", "arguments": {"who": 1}}),
        ("resources/subscribe", {"uri": "file:///notes.md"}),
        (READ, {"uri": "file:///none"}),
    )
    assert {type(each) for each in found[:-1]} == {InvalidArguments}
    assert [str(each).partition(" was not called: ")[2] or str(each) for each in found] == [
        "its argument must be a URI, or a resource link with one, not null.",
        '"notes.md" is not a URI, such as file:///notes.md.',
        '"file:///a\\nb" is not a URI, such as file:///notes.md.',
        '"file:///a\\u{200b}b" is not a URI, such as file:///notes.md.',
        "the URI has 8193 characters, and at most 8192 are sent.",
        "it takes no arguments.",
        "its first argument must be the name of a prompt, not a string.",
        "the arguments of a prompt must be an object, not an array.",
        "the argument `who` of a prompt must be a string, not a number.",
        "programs may call these methods: resources/list, resources/read, prompts/list, prompts/get.",
        "unknown: resources/read",
    ]
    assert isinstance(found[-1], ServerRejected)


def test_a_server_is_asked_only_for_what_it_declares(hub, library):
    [error], _ = run(hub, library("--plain"), (LIST, {}))
    assert (type(error), str(error)) == (
        InvalidArguments,
        "lib.resources.list was not called: the server declares no resources.",
    )


def test_hidden_characters_are_spelled_out_or_left_out(hub, library):
    [found], warnings = run(hub, library("--lie", "hidden"), (LIST, {}))
    told = (
        "2 resources are left out: without a `uri`, or with invisible characters in it",
        "invisible characters in descriptions are spelled out",
    )
    assert found == MethodResult([{"uri": "x:2", "name": r"b\u{e0041}"}], told)
    assert warnings == tuple(f"resources/list: {each}" for each in told)


def test_a_list_without_end_ends(hub, library):
    [found], _ = run(hub, library("--lie", "endless"), (LIST, {}))
    assert (len(found.value), found.value[-1], found.warnings) == (
        1_000,
        {"uri": "x:999", "name": "x"},
        ("its list of resources has more than 1000 pages; the rest is left out",),
    )


@pytest.mark.parametrize(
    ("lie", "request_", "why"),
    [
        ("many", (LIST, {}), f"it has more than {VALUES} values; ask for less at once, or raise `servers.answer_values`"),
        ("broken", (LIST, {}), "`resources` of resources/list is not an array of objects"),
        ("huge", (READ, {"uri": "x:huge"}), "a message is longer than 67108864 bytes"),
    ],
)  # fmt: skip
def test_an_answer_over_a_limit_is_no_answer(hub, library, lie, request_, why):
    async def main():
        async with hub(library("--lie", lie, "--count", str(RESOURCES)), answer_values=VALUES) as h:
            error = await failure(h.request("lib", *request_), ServerUnavailable)
            return str(error), (await h.call_tool("lib", "resources", {})).text

    error, after = asyncio.run(main())
    assert error in (f"Server lib sent no complete answer: {why}.", f"Server lib was cut off: {why}.")
    assert after == "the tool"


def test_a_question_during_a_read_is_not_put_to_the_person_of_another_call(hub, library, tmp_path):
    asked, go = [], tmp_path / "go"

    async def person(form):
        asked.append(form.message)
        return "accept"

    async def main():
        arrived = asyncio.Event()
        async with hub(replace(library(), questions=True)) as h:
            token = PERSON.set(person)
            held = asyncio.ensure_future(
                h.call_tool("lib", "hold", {"id": 1, "until": str(go)}, on_progress=lambda _: arrived.set())
            )
            PERSON.reset(token)
            await arrived.wait()
            read = await h.request("lib", READ, {"uri": "x:ask"})
            go.touch()
            await held
            return read.value

    assert asyncio.run(main()) == [{"uri": "x:ask", "text": '{"action": "cancel"}'}]
    assert asked == []
