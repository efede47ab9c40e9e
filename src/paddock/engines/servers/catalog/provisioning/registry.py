"""Download the registry's list from the configured source, only on request."""

import asyncio
import json
from http import HTTPStatus
from pathlib import Path
from typing import Any, cast

import httpx2

from paddock.confinement.network.http_transport import (
    ProxyTransport,
    describe_cause,
    find_failed_proxy,
    read_url_authority,
)
from paddock.engines.servers.catalog.provisioning.service import load_registry
from paddock.foundation.files import MAX_FILE_BYTES, make_private, read_bounded, replace_file
from paddock.model.addresses import MAX_PORT, is_port
from paddock.model.errors import ConfigurationError
from paddock.model.urls import strip_credentials

MAX_PAGES = 1_000
_TIMEOUT_S = 30.0


async def refresh_list(source: str, target: Path) -> int:
    """Copy the list at `source`, an https address or a file, to `target`; return its number of offers.

    Follows the pages of the official registry and no redirects, up to 64 MiB. Raises ConfigurationError and leaves
    `target` unchanged.
    """
    if not source:
        raise ConfigurationError(
            "no registry is configured; set servers.registry_source to its https address, or to a file"
        )
    if source.startswith("https://"):
        entries = await _fetch_entries(source)
    elif "://" in source:
        raise ConfigurationError(
            f"servers.registry_source: {source}: only https addresses and files are allowed"
        )
    else:
        try:
            data = await asyncio.to_thread(lambda: read_bounded(Path(source).expanduser(), MAX_FILE_BYTES))
        except OSError as error:
            raise ConfigurationError(f"{source}: cannot be read: {error.strerror}") from None
        except RuntimeError as error:  # there is no home directory
            raise ConfigurationError(f"{source}: cannot be read: {error}") from None
        entries = _read_page(data, source)[0]
    new = target.with_name(f"{target.name}.new")
    try:
        make_private(target.parent)
        replace_file(new, json.dumps({"servers": entries}).encode())
        count = len(load_registry(new))
        new.replace(target)
    except OSError as error:
        raise ConfigurationError(f"{target}: cannot be written: {error.strerror}") from None
    finally:
        new.unlink(missing_ok=True)
    return count


async def _fetch_entries(address: str) -> list[Any]:
    try:
        url = httpx2.URL(address)
        read_url_authority(url)
    except httpx2.InvalidURL:
        url = None
    if url is None or not url.host or not is_port(url.port):
        raise ConfigurationError(
            f"servers.registry_source: {address}: this is not a valid address; write https://HOST/PATH, "
            f"where a port is 1 to {MAX_PORT}"
        )
    entries: list[Any] = []
    room = MAX_FILE_BYTES
    shown = strip_credentials(address)
    headers = {"accept-encoding": "identity"}
    async with httpx2.AsyncClient(
        timeout=_TIMEOUT_S, headers=headers, transport=ProxyTransport(url)
    ) as client:
        for _ in range(MAX_PAGES):
            data = await _fetch_page(client, url, room)
            room -= len(data)
            page, cursor = _read_page(data, shown)
            entries += page
            if cursor is None:
                return entries
            url = url.copy_set_param("cursor", cursor)
    raise ConfigurationError(f"{shown}: the list has more than {MAX_PAGES} pages")


async def _fetch_page(client: httpx2.AsyncClient, url: httpx2.URL, room: int) -> bytes:
    data = bytearray()
    try:
        async with client.stream("GET", url) as answer:
            if answer.status_code != HTTPStatus.OK:
                raise ConfigurationError(f"{url.host}: the registry answers HTTP {answer.status_code}")
            async for chunk in answer.aiter_bytes():
                data += chunk
                if len(data) > room:
                    raise ConfigurationError(f"{url.host}: the list is larger than {MAX_FILE_BYTES} bytes")
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        why, proxy = describe_cause(error), find_failed_proxy(url, error)
        if proxy is not None:
            why = f"{proxy.explain_failure(why)}. {proxy.remedy}"
        raise ConfigurationError(f"{url.host}: the registry cannot be reached: {why}") from None
    return bytes(data)


def _read_page(data: bytes, source: str) -> tuple[list[Any], str | None]:
    """Return the entries of a page and the cursor of the next. Raises ConfigurationError."""
    try:
        document: object = json.loads(data)
    except (ValueError, RecursionError):
        raise ConfigurationError(f"{source}: this is not JSON") from None
    fields = cast("dict[str, Any]", document) if isinstance(document, dict) else {}
    servers, metadata = fields.get("servers"), fields.get("metadata")
    if not isinstance(servers, list):
        raise ConfigurationError(f"{source}: no list `servers`; this is not a registry's list")
    cursor = cast("dict[str, Any]", metadata).get("nextCursor") if isinstance(metadata, dict) else None
    return cast("list[Any]", servers), cursor if isinstance(cursor, str) and cursor else None
