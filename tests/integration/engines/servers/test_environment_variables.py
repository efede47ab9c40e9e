"""What proxy and certificate variables of the user do to servers over HTTP: they work, or the error names them."""

import asyncio
import contextlib
import struct
from collections.abc import AsyncGenerator, Mapping

import httpx2
import pytest

from paddock.confinement.network.http_transport import ProxyTransport, find_failed_proxy
from paddock.engines.servers.config import HttpServer
from paddock.model.errors import ServerUnavailable

from .conftest import failure, text
from .test_hub_http_faults import rude

ALL = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR", "SSLKEYLOGFILE")


@pytest.fixture
def variables(monkeypatch):
    """Set some of the variables, in the place of all."""

    def place(values: Mapping[str, object]) -> None:
        for name in ALL:
            monkeypatch.delenv(name, raising=False)
            monkeypatch.delenv(name.lower(), raising=False)
        for name, value in values.items():
            monkeypatch.setenv(name, str(value))

    return place


@contextlib.asynccontextmanager
async def socks_proxy() -> AsyncGenerator[tuple[int, list[str]]]:
    """Run a SOCKS5 proxy without authentication (RFC 1928); yield its port, and the list of places it connected to."""
    connected: list[str] = []
    tasks: set[asyncio.Task[None] | None] = set()

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
            writer.write_eof()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.add(asyncio.current_task())
        _, count = await reader.readexactly(2)
        await reader.readexactly(count)
        writer.write(b"\x05\x00")
        *_, kind = await reader.readexactly(4)
        size = 4 if kind == 1 else (await reader.readexactly(1))[0]
        raw = await reader.readexactly(size)
        host = ".".join(map(str, raw)) if kind == 1 else raw.decode()
        [port] = struct.unpack("!H", await reader.readexactly(2))
        connected.append(f"{host}:{port}")
        there, back = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"\x05\x00\x00\x01\x7f\x00\x00\x01" + struct.pack("!H", port))
        try:
            await asyncio.gather(copy(reader, back), copy(there, writer))
        finally:
            for each in (writer, back):
                each.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1], connected
        for task in tasks:
            assert task is not None
            task.cancel()
        await asyncio.gather(*filter(None, tasks), return_exceptions=True)


async def call(hub, url: str) -> str:
    async with hub(HttpServer("web", url)) as opened:
        return text(await opened.call_tool("web", "anything", {}))


@pytest.mark.parametrize("scheme", ["socks5", "socks5h"])
def test_a_socks_proxy_is_used(hub, variables, scheme):
    async def main():
        async with socks_proxy() as (port, connected), rude() as server:
            variables({"ALL_PROXY": f"{scheme}://127.0.0.1:{port}"})
            assert await call(hub, server.url) == "fine"
            return set(connected), server.url

    connected, url = asyncio.run(main())
    assert connected == {url.split("/")[2]}


def test_a_socks_proxy_is_passed_by_where_no_proxy_says(hub, variables):
    async def main():
        async with rude() as server:
            variables({"ALL_PROXY": "socks5://127.0.0.1:9", "NO_PROXY": "127.0.0.1"})
            return await call(hub, server.url)

    assert asyncio.run(main()) == "fine"


@pytest.mark.parametrize("name", ["HTTP_PROXY", "ALL_PROXY", "all_proxy"])
def test_a_proxy_that_cannot_be_reached_is_named(hub, variables, name):
    async def main():
        async with rude() as server:
            variables({name: "http://user:password@127.0.0.1:9"})
            async with hub(HttpServer("web", server.url)) as opened:
                return server.url, await failure(opened.call_tool("web", "anything", {}), ServerUnavailable)

    url, error = asyncio.run(main())
    assert str(error) == (
        f"Failed to connect to server web: no connection to server web at {url.removesuffix('/mcp')}: the proxy "
        f"http://127.0.0.1:9 that {name} names: connection refused. Correct {name}, unset it, or name the host in NO_PROXY."
    )


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        (
            "HTTP_PROXY",
            "http://[::1",
            "HTTP_PROXY is not the address of a proxy; write http://, https:// or socks5:// and HOST:PORT, or unset it",
        ),
        (
            "ALL_PROXY",
            "ftp://user:password@127.0.0.1:9",
            "ALL_PROXY is not the address of a proxy; write http://, https:// or socks5:// and HOST:PORT, or unset it",
        ),
        (
            "http_proxy",
            "http://user:password@127.0.0.1:99999",
            "http_proxy names port 99999, but a port is 1 to 65535; correct it, or unset it",
        ),
        (
            "HTTP_PROXY",
            "localhost:65536",
            "HTTP_PROXY names port 65536, but a port is 1 to 65535; correct it, or unset it",
        ),
        (
            "all_proxy",
            "socks5://127.0.0.1:0",
            "all_proxy names port 0, but a port is 1 to 65535; correct it, or unset it",
        ),
        (
            "HTTP_PROXY",
            "http://:8080",
            "HTTP_PROXY is not the address of a proxy; write http://, https:// or socks5:// and HOST:PORT, or unset it",
        ),
        (
            "SSL_CERT_FILE",
            "/none",
            "SSL_CERT_FILE names /none, which cannot be read; correct it, or unset it",
        ),
        (
            "SSL_CERT_FILE",
            __file__,
            f"SSL_CERT_FILE names {__file__}, which contains no certificates; correct it, or unset it",
        ),
    ],
)
def test_a_variable_that_cannot_be_used_is_named(hub, variables, name, value, why):
    async def main():
        async with rude() as server:
            variables({name: value})
            async with hub(HttpServer("web", server.url)) as opened:
                return await failure(opened.call_tool("web", "anything", {}), ServerUnavailable)

    assert str(asyncio.run(main())) == f"Failed to connect to server web: {why}."


@pytest.mark.parametrize("place", ["/none/keys", "/proc"])
def test_a_log_of_keys_that_cannot_be_written_is_named(hub, variables, tmp_path, place):
    async def main():
        async with rude() as server:
            variables({"SSL_CERT_DIR": tmp_path, "SSLKEYLOGFILE": place})
            async with hub(HttpServer("web", server.url)) as opened:
                return await failure(opened.call_tool("web", "anything", {}), ServerUnavailable)

    why = f"SSLKEYLOGFILE names {place}, which cannot be written; correct it, or unset it"
    assert str(asyncio.run(main())) == f"Failed to connect to server web: {why}."


BAD = "http://[::1"
NO_ADDRESS = "is not the address of a proxy; write http://, https:// or socks5:// and HOST:PORT, or unset it"


@pytest.mark.parametrize(
    "values",
    [
        {"HTTPS_PROXY": BAD},
        {"https_proxy": BAD},
        {"HTTPS_PROXY": "ftp://127.0.0.1:9"},
        {"HTTPS_PROXY": "http://127.0.0.1:99999"},
        *(
            {name: BAD, "NO_PROXY": exempt}
            for name in ("HTTP_PROXY", "ALL_PROXY")
            for exempt in ("127.0.0.1", "example.com, 127.0.0.0/8", "*", "http://127.0.0.1")
        ),
        {"HTTPS_PROXY": BAD, "ALL_PROXY": BAD, "no_proxy": "127.0.0.1"},
        {"NO_PROXY": "[, ://, 1.2.3.4/99, a..b, 127.0.0.1:x"},
    ],
)
def test_a_variable_that_applies_to_other_addresses_is_in_nobodys_way(hub, variables, values):
    async def main():
        async with rude() as server:
            variables(values)
            return await call(hub, server.url)

    assert asyncio.run(main()) == "fine"


def test_the_proxy_of_a_scheme_comes_before_the_one_for_all(hub, variables):
    async def main():
        async with socks_proxy() as (port, connected), rude() as server:
            variables({"HTTP_PROXY": f"socks5://127.0.0.1:{port}", "HTTPS_PROXY": BAD, "ALL_PROXY": BAD})
            assert await call(hub, server.url) == "fine"
            return set(connected), server.url

    connected, url = asyncio.run(main())
    assert connected == {url.split("/")[2]}


@pytest.mark.parametrize(
    ("url", "values", "told"),
    [
        ("https://127.0.0.1:9/mcp", {"HTTPS_PROXY": BAD, "HTTP_PROXY": BAD}, f"HTTPS_PROXY {NO_ADDRESS}"),
        ("https://127.0.0.1:9/mcp", {"https_proxy": BAD}, f"https_proxy {NO_ADDRESS}"),
        ("https://127.0.0.1:9/mcp", {"ALL_PROXY": BAD, "HTTP_PROXY": BAD}, f"ALL_PROXY {NO_ADDRESS}"),
        ("http://127.0.0.1:9/mcp", {"ALL_PROXY": BAD, "HTTPS_PROXY": BAD}, f"ALL_PROXY {NO_ADDRESS}"),
        (
            "http://127.0.0.1:9/mcp",
            {"HTTP_PROXY": BAD, "NO_PROXY": "example.com"},
            f"HTTP_PROXY {NO_ADDRESS}",
        ),
        (
            "https://127.0.0.1:9/mcp",
            {"HTTP_PROXY": BAD},
            "no connection to server web at https://127.0.0.1:9: connection refused. Start it, or correct its `url`",
        ),
    ],
)
def test_the_variable_that_applies_is_the_one_that_is_named(hub, variables, url, values, told):
    async def main():
        variables(values)
        async with hub(HttpServer("web", url)) as opened:
            return await failure(opened.call_tool("web", "anything", {}), ServerUnavailable)

    assert str(asyncio.run(main())) == f"Failed to connect to server web: {told}."


@pytest.mark.parametrize("entry", [
    "*", "example.com", ".example.com", "*.example.com", "EXAMPLE.com", "www.example.com", "ample.com", "localhost",
    "127.0.0.1", "127.0.0.0/8", "10.0.0.0/8", "::1", "[::1]", "fe80::/10", "example.com:8080", "127.0.0.1:8080",
    "http://example.com", "https://example.com", "all://example.com", "http://*", "", "://", "[", "1.2.3.4/99", "a..b",
])  # fmt: skip
def test_no_proxy_is_read_as_the_http_library_reads_it(variables, entry):
    variables({"ALL_PROXY": "http://127.0.0.1:9", "NO_PROXY": entry})
    library = httpx2.AsyncClient()
    for host in (
        "example.com",
        "www.example.com",
        "badexample.com",
        "localhost",
        "127.0.0.1",
        "10.1.2.3",
        "[::1]",
    ):
        for scheme in ("http", "https"):
            for port in ("", ":8080"):
                url = httpx2.URL(f"{scheme}://{host}{port}/mcp")
                direct = library._transport_for_url(url) is library._transport
                assert (find_failed_proxy(url, httpx2.ConnectError("")) is None) is direct, (entry, url)


def test_a_redirect_to_https_goes_through_the_proxy_of_https(variables):
    async def main():
        variables({"HTTP_PROXY": "http://127.0.0.1:9", "HTTPS_PROXY": BAD, "NO_PROXY": ""})
        transport = ProxyTransport(httpx2.URL("http://example.com"))
        async with httpx2.AsyncClient(transport=transport) as client:
            with pytest.raises(httpx2.ConnectError):
                await client.get("http://example.com/")
            with pytest.raises(httpx2.ProxyError) as caught:
                await client.get("https://example.com/")
        return str(caught.value)

    assert asyncio.run(main()) == f"HTTPS_PROXY {NO_ADDRESS}"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("nonsense", "nonsense"),
        ("http://user:password@nonsense:80/x?password#password", "nonsense"),
        ("user:password@nonsense:81", "nonsense:81"),
        ("http://a..b:80", "a..b"),
        (f"http://{'a' * 70}.example:80", f"{'a' * 70}.example"),
        ("http://a b:80", "a%20b"),
    ],
)
def test_a_proxy_whose_host_cannot_be_looked_up_is_named(hub, variables, value, shown):
    async def main():
        async with rude() as server:
            variables({"HTTP_PROXY": value})
            async with hub(HttpServer("web", server.url)) as opened:
                return server.url, await failure(opened.call_tool("web", "anything", {}), ServerUnavailable)

    url, error = asyncio.run(main())
    assert str(error) == (
        f"Failed to connect to server web: no connection to server web at {url.removesuffix('/mcp')}: the proxy http://{shown}"
        " that HTTP_PROXY names: its host name is unknown. Correct HTTP_PROXY, unset it, or name the host in NO_PROXY."
    )


@pytest.mark.parametrize(
    ("url", "why"),
    [
        (
            "http://\U0001f600\u2764.example/mcp",
            "the `url` of web is not the address of a web server; correct it.",
        ),
        ("http://a..b/mcp", "the `url` of web is not the address of a web server; correct it."),
        ("http://127.1/mcp", "the `url` of web is not the address of a web server; correct it."),
        (
            "http://a.invalid/mcp",
            "no connection to server web at http://a.invalid: its host name is unknown. Start it, or correct its `url`.",
        ),
    ],
)
def test_an_address_of_a_server_that_is_none_is_said_to_be(hub, variables, url, why):
    async def main():
        variables({})
        async with hub(HttpServer("web", url)) as opened:
            return await failure(opened.call_tool("web", "anything", {}), ServerUnavailable)

    assert str(asyncio.run(main())) == f"Failed to connect to server web: {why}"
