"""Servers that could be had: what a registry offers, who is trusted, and what becomes of the servers file.

The registry's list is a file in the format of the official registry. Nothing is trusted that the user's trust file
does not name, and nothing is installed or started here: enabling a server is one entry in a servers file, with the
version of the registry, after a person agreed (spec 2.1, `mcp_provision`).
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

from paddock.files import Kept, replace_file
from paddock.hub.search import Hit, confidence, keyword_score
from paddock.model.base import Json
from paddock.model.errors import ConfigurationError

MISSING_INTENT = "Missing required parameter: intent"
"""What whoever asks without saying what for is told (X38)."""
NOTHING = "No matching servers found"
GOOD_ENOUGH = 0.5
"""Confidence from which a local tool keeps weaker ones out of the answer."""
SURE = 0.9
"""Least confidence with which an offer may be enabled."""
_MATCHES = 20
_OFFERS = 50_000
_DESCRIPTION = 500

_PACKAGE = re.compile(r"(?:@[a-z0-9][a-z0-9._-]*/)?[A-Za-z0-9][A-Za-z0-9._-]*\Z")
_VERSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+!-]*\Z")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")


@dataclass(frozen=True, slots=True)
class Offer:
    """A server of the registry that Paddock can run or reach. `name` is what trust is about: package or server name."""

    name: str
    description: str
    entry: Mapping[str, Json]
    """What goes into a servers file. Variables the server wants stand in it as `${NAME}`."""


@dataclass(frozen=True, slots=True)
class Match:
    """An offer that suits an intent, and whether it may be enabled."""

    offer: Offer
    confidence: float
    trusted: bool

    @property
    def allowed(self) -> bool:
        """Whether both hold: the trust file names it, and the match is sure (X37)."""
        return self.trusted and self.confidence >= SURE


@dataclass(frozen=True, slots=True)
class Provision:
    """What answers an intent: tools that are there, offers of the registry, or nothing."""

    source: Literal["local", "registry", "none"]
    tools: tuple[tuple[Hit, float], ...] = ()
    matches: tuple[Match, ...] = ()


def load_registry(path: Path) -> tuple[Offer, ...]:
    """Return the offers of a registry list that can be run as they are; none when there is no file.

    Packages of npm and PyPI with a version, and remote servers over streamable HTTP. Whatever else is listed is passed
    over. Raises ConfigurationError when the file is no such list.
    """
    listed = Kept(path).read().get("servers", [])
    if not isinstance(listed, list):
        raise ConfigurationError(f"{path}: `servers` is no list; fetch the registry's list again")
    offers = (offer for entry in cast("list[object]", listed)[:_OFFERS] for offer in _offers(entry))
    return tuple({offer.name: offer for offer in offers}.values())


def load_trust(path: Path) -> tuple[str, ...]:
    """Return the patterns of a trust file, a JSON array; a missing file, or any other, trusts nobody."""
    try:
        patterns: object = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return ()
    if not isinstance(patterns, list):
        return ()
    found = cast("list[object]", patterns)
    return (
        tuple(each for each in found if isinstance(each, str))
        if all(isinstance(p, str) for p in found)
        else ()
    )


def is_trusted(name: str, patterns: Sequence[str]) -> bool:
    """Tell whether a pattern names a server: `scope/*` a whole scope, anything else exactly one."""
    scope = name.partition("/")[0]
    return any(pattern in (name, f"{scope}/*") for pattern in patterns)


def provision(
    intent: str, local: Sequence[Hit], offers: Sequence[Offer], trust: Sequence[str], *, context: str = ""
) -> Provision:
    """Return what answers an intent. `local` are the seed's hits for intent and context; offers match the intent.

    Raises ValueError with MISSING_INTENT when there is none (X38).
    """
    if not intent.strip():
        raise ValueError(MISSING_INTENT)
    asked = f"{intent} {context}".strip()
    tools = [(hit, confidence(hit.score, asked)) for hit in local]
    if tools:
        good = [pair for pair in tools if pair[1] >= GOOD_ENOUGH]
        return Provision("local", tools=tuple(good or tools))
    matches = match(intent, offers, trust)
    return Provision("registry", matches=matches) if matches else Provision("none")


def match(intent: str, offers: Sequence[Offer], trust: Sequence[str]) -> tuple[Match, ...]:
    """Return the offers that suit an intent, best first, by the seed's score of name and description."""
    wanted = intent.lower().split()
    found: list[Match] = []
    for offer in offers:
        score = keyword_score(wanted, offer.name, offer.description)
        found.append(Match(offer, confidence(score, intent), is_trusted(offer.name, trust)))
    suitable = (each for each in found if each.confidence > 0)
    return tuple(sorted(suitable, key=lambda each: each.confidence, reverse=True)[:_MATCHES])


def enable(servers_file: Path, name: str, offer: Offer, *, approved: bool) -> Path | None:
    """Add an offer to a servers file under a name; return the backup of what was there before, None for a new file.

    Raises ConfigurationError, with the file as it was: without approval, for a name that is taken or no name, for a
    file that is not understood.
    """
    if not approved:
        raise ConfigurationError(f"{offer.name} was not enabled: a person has to approve it")
    if not _NAME.match(name):
        raise ConfigurationError(f"{name!r} is no name for a server: use letters, digits, `.`, `_` and `-`")
    document = Kept(servers_file).read()
    servers = document.setdefault("mcpServers", {})
    if not isinstance(servers, dict):
        raise ConfigurationError(f"{servers_file}: no object `mcpServers`; correct the file first")
    if name in servers:
        raise ConfigurationError(f"{servers_file}: there is a server {name!r} already; choose another name")
    servers[name] = dict(offer.entry)
    backup = None
    try:
        servers_file.parent.mkdir(parents=True, exist_ok=True)
        mode = servers_file.stat().st_mode & 0o777 if servers_file.exists() else 0o600
        if servers_file.exists():
            backup = servers_file.with_name(f"{servers_file.name}.backup")
            replace_file(backup, servers_file.read_bytes(), mode=mode)
        text = json.dumps(document, indent=2, ensure_ascii=False) + "\n"
        replace_file(servers_file, text.encode(), mode=mode)
    except OSError as error:
        raise ConfigurationError(f"{servers_file}: cannot be written: {error.strerror}") from None
    return backup


def _offers(entry: object) -> Iterator[Offer]:
    """Yield what one entry of the list offers; its facts stand in `server`, in older lists in the entry itself."""
    fields = _object(entry)
    server = _object(fields.get("server")) or fields
    description = server.get("description")
    about = description[:_DESCRIPTION] if isinstance(description, str) else ""
    for package in map(_object, _list(server.get("packages"))):
        if (found := _command(package)) is not None:
            yield Offer(str(package["identifier"]), about, found)
    name = server.get("name")
    for remote in map(_object, _list(server.get("remotes"))):
        url = remote.get("url")
        if remote.get("type") == "streamable-http" and isinstance(url, str) and url.startswith("https://"):
            if isinstance(name, str) and "{" not in url and not _list(remote.get("headers")):
                yield Offer(name[:_DESCRIPTION], about, {"url": url})
            break


def _command(package: Mapping[str, Json]) -> dict[str, Json] | None:
    """Return the entry that runs a package; None for one that Paddock cannot run without being told more."""
    identifier, version = package.get("identifier"), package.get("version")
    if not (isinstance(identifier, str) and isinstance(version, str)):
        return None
    if not (_PACKAGE.match(identifier) and _VERSION.match(version)) or version == "latest":
        return None
    if _object(package.get("transport")).get("type", "stdio") != "stdio" or _list(
        package.get("packageArguments")
    ):
        return None
    match package.get("registryType"):
        case "npm":
            entry: dict[str, Json] = {"command": "npx", "args": ["-y", f"{identifier}@{version}"]}
        case "pypi":
            entry = {"command": "uvx", "args": [f"{identifier}=={version}"]}
        case _:
            return None
    wanted = [_object(each) for each in _list(package.get("environmentVariables"))]
    names = [str(each.get("name", "")) for each in wanted if each.get("isRequired") is True]
    if not all(_VARIABLE.match(name) for name in names):
        return None
    return {**entry, "env": {name: f"${{{name}}}" for name in names}} if names else entry


def _object(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _list(value: object) -> list[object]:
    return cast("list[object]", value) if isinstance(value, list) else []
