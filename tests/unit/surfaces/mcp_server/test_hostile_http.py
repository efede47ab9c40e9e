"""Whatever comes over HTTP is answered, and never with the server's own failure."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.mcp_application import (
    ACCEPT,
    HELLO,
    JSON_TYPE,
    META,
    MODERN,
    PATIENCE_S,
    SESSION,
    VERSION,
    Header,
    Server,
    call,
)


@pytest.mark.parametrize("numbers", [(7, 7), ("7", 7), ("a", "a")])
def test_of_two_requests_with_one_id_the_second_is_refused(tmp_path: Path, numbers: tuple[Any, Any]) -> None:
    async def main() -> None:
        async with Server(tmp_path).running() as server:
            session, other = await server.session(), await server.session()
            first = asyncio.create_task(server.ask("POST", session, call(numbers[0], "wait"), stays=True))
            await server.entered.wait()
            second = await server.ask("POST", session, call(numbers[1], "echo"))
            assert second.status == 400
            assert second.error == {
                "code": -32600,
                "message": f"the request id {numbers[1]} is in flight in this session; use another one",
            }
            assert (await server.ask("POST", other, call(numbers[0], "echo"), stays=True)).status == 200
            server.go.set()
            assert b"went on" in (await first).body
            again = await server.ask("POST", session, call(numbers[0], "echo"), stays=True)
            assert (again.status, b"{}" in again.body) == (200, True)

    asyncio.run(main())


def test_an_id_stays_in_flight_when_its_client_has_gone(tmp_path: Path) -> None:
    """The call goes on: its answer must not become that of another request."""

    async def main() -> None:
        async with Server(tmp_path).running() as server:
            session = await server.session()
            await server.ask("POST", session, call(7, "wait"))
            await server.entered.wait()
            assert (await server.ask("POST", session, call(7, "echo"))).status == 400
            server.go.set()
            assert await server.requests.wait_until_drained(PATIENCE_S)

    asyncio.run(main())


@pytest.mark.parametrize(
    "name",
    [SESSION, VERSION, b"content-type", b"host", b"origin", b"mcp-method", b"mcp-name", b"last-event-id"],
)
def test_headers_that_may_stand_once(tmp_path: Path, name: bytes) -> None:
    async def main() -> None:
        async with Server(tmp_path).running() as server:
            reply = await server.ask("POST", [*MODERN, (name, b"a"), (name, b"b")], call(1, "echo"))
            told = f"the header {name.decode()} occurs more than once in this request"
            assert (reply.status, reply.error["message"]) == (400, told)

    asyncio.run(main())


DEEP = b'{"jsonrpc":"2.0","id":1,"method":"x","params":' + b'{"a":' * 5000 + b"1" + b"}" * 5001
BODIES: dict[str, tuple[bytes, int]] = {
    "nothing": (b"", -32700),
    "no JSON": (b"{", -32700),
    "no UTF-8": (b'{"jsonrpc":"2.0","id":1,"method":"\xff\xfe"}', -32700),
    "UTF-16": ('{"jsonrpc":"2.0","id":1,"method":"ping"}'.encode("utf-16"), -32700),
    "a batch": (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', -32600),
    "an empty batch": (b"[]", -32600),
    "a text": (b'"ping"', -32600),
    "null": (b"null", -32600),
    "no method": (b'{"jsonrpc":"2.0","id":1}', -32600),
    "id null": (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600),
    "id true": (b'{"jsonrpc":"2.0","id":true,"method":"ping"}', -32600),
    "id 1.5": (b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}', -32600),
    "id list": (b'{"jsonrpc":"2.0","id":[],"method":"ping"}', -32600),
    "deep": (DEEP, -32600),
    "params list": (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":[1]}', -32600),
    "id of 5000 digits": (b'{"jsonrpc":"2.0","id":' + b"9" * 5000 + b',"method":"ping"}', -32600),
}


@pytest.mark.parametrize("era", ["session", "modern"])
@pytest.mark.parametrize("name", [*BODIES])
def test_bodies_that_are_no_message(tmp_path: Path, name: str, era: str) -> None:
    body, code = BODIES[name]

    async def main() -> None:
        async with Server(tmp_path).running() as server:
            headers = await server.session() if era == "session" else MODERN
            reply = await server.ask("POST", headers, body)
            assert (reply.status, reply.error["code"]) == (400, code)

    asyncio.run(main())


def test_half_a_character_in_arguments_is_read_as_over_standard_streams(tmp_path: Path) -> None:
    async def main() -> None:
        async with Server(tmp_path).running() as server:
            session = await server.session()
            body = call(1, "echo", arguments={"value": "a\ud83d"})
            assert "a\\\\ufffd" in (await server.ask("POST", session, body, stays=True)).body.decode()

    asyncio.run(main())


texts = st.text(max_size=20) | st.sampled_from(["", "\ud800", "echo", "wait\n", "2026-07-28", "9" * 5000])
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
numbers = (
    st.sampled_from([0, 1, -1, 2**53, 2**64, 10**4000, "1", "", "a" * 9000, None, True, 1.5, 1e400]) | values
)
methods = texts | st.sampled_from(
    [
        "initialize",
        "ping",
        "tools/call",
        "tools/list",
        "prompts/list",
        "prompts/get",
        "resources/list",
        "resources/read",
        "resources/subscribe",
        "completion/complete",
        "logging/setLevel",
        "server/discover",
        "subscriptions/listen",
        "notifications/cancelled",
        "notifications/initialized",
        "notifications/progress",
    ]
)
members: dict[str, Any] = {
    "name": texts,
    "arguments": values,
    "uri": texts,
    "cursor": texts,
    "ref": values,
    "argument": values,
    "level": texts,
    "requestId": numbers,
    "progressToken": numbers,
    "protocolVersion": texts,
    "requestState": values,
    "inputResponses": values,
    "_meta": values
    | st.just(META)
    | st.fixed_dictionaries({key: values | st.just(META[key]) for key in META}),
}
params = values | st.just(HELLO) | st.fixed_dictionaries({}, optional=members)
message = st.fixed_dictionaries(
    {"jsonrpc": st.just("2.0") | values},
    optional={"id": numbers, "method": methods, "params": params, "result": values, "error": values},
)
spelled = (message | st.lists(message, max_size=3) | values).map(lambda value: json.dumps(value).encode())
cut = st.tuples(spelled, st.integers(0, 40)).map(lambda pair: pair[0][: -pair[1] or None])
bodies = spelled | cut | st.binary(max_size=60)
odd = st.binary(max_size=20) | st.sampled_from([b"", b"\xff", b"application/json", b"*/*", b"a" * 9000, b"0"])
plain: dict[bytes, list[bytes]] = {
    b"content-type": [b"application/json", b"application/json; charset=utf-8", b"text/plain"],
    b"accept": [b"application/json, text/event-stream", b"*/*", b"application/json"],
    VERSION: [b"2025-11-25", b"2026-07-28", b"2025-06-18", b"9999-99-99"],
    SESSION: [b"SESSION", b"unknown"],
    b"mcp-method": [b"tools/call", b"tools/list", b"ping"],
    b"mcp-name": [b"echo", b"=?base64?4oKs?="],
    b"mcp-param-value": [b"1"],
    b"last-event-id": [b"1"],
    b"content-length": [b"5", b"99999999999", b"-1", b"1e9"],
    b"transfer-encoding": [b"chunked"],
}
basis = st.sampled_from(
    [
        [],
        [JSON_TYPE, ACCEPT],
        [JSON_TYPE, ACCEPT, (SESSION, b"SESSION"), (VERSION, b"2025-11-25")],
        [JSON_TYPE, ACCEPT, (SESSION, b"SESSION")],
        [JSON_TYPE, ACCEPT, (VERSION, b"2026-07-28")],
        MODERN,
    ]
)
further = st.lists(
    st.sampled_from([*plain]).flatmap(
        lambda name: st.tuples(st.just(name), st.sampled_from(plain[name]) | odd)
    ),
    max_size=2,
)
headers = st.tuples(basis, further).map(lambda pair: [*pair[0], *pair[1]])
verbs = st.sampled_from(["POST"] * 5 + ["GET"] * 3 + ["DELETE", "HEAD", "PUT", "OPTIONS", "patch", "X"])
asked = st.lists(st.tuples(verbs, headers, bodies), min_size=1, max_size=3)


@pytest.mark.filterwarnings("ignore:.*MemoryObject:pytest.PytestUnraisableExceptionWarning")  # the library's
def test_hostile_requests_are_answered_and_never_with_a_failure(tmp_path: Path) -> None:
    with asyncio.Runner() as runner:
        serving = Server(tmp_path).running()
        server = runner.run(serving.__aenter__())
        known: list[Header] = runner.run(server.session())

        async def one(requests: list[tuple[str, list[Header], bytes]]) -> list[int | None]:
            nonlocal known
            ping = json.dumps({"jsonrpc": "2.0", "id": "p", "method": "ping"}).encode()
            if (await server.ask("POST", known, ping, stays=True)).status != 200:
                known = await server.session()
            name = dict(known)[SESSION]
            together = [
                server.ask(
                    verb, [(key, name if value == b"SESSION" else value) for key, value in given], body
                )
                for verb, given, body in requests
            ]
            return [reply.status for reply in await asyncio.gather(*together)]

        @settings(max_examples=300, deadline=None)
        @given(asked)
        def check(requests: list[tuple[str, list[Header], bytes]]) -> None:
            statuses = runner.run(one(requests))
            assert all(status is not None and (status < 500 or status == 503) for status in statuses)

        try:
            check()
        finally:
            runner.run(serving.__aexit__(None, None, None))
