"""Servers that can be enabled: the registry's offers, their trust, and changes of the servers file.

The registry's list is a file in the format of the official registry. Only offers in the user's trust file are trusted.
Nothing is installed or started here: enabling a server adds one entry to a servers file, with the version from the
registry, after a person has agreed.
"""

import json
import re
import shlex
import stat
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast

from paddock.engines.servers.catalog.search import Hit, compute_confidence, keyword_score
from paddock.engines.servers.config import is_paddock
from paddock.foundation.files import MAX_FILE_BYTES, JsonFile, keep_backup, read_bounded, replace_file
from paddock.foundation.own_files import NotOursError, read_trusted
from paddock.model.base import Json, kind
from paddock.model.errors import ConfigurationError
from paddock.model.invisible import spell_invisible
from paddock.model.texts import find_nearest

MISSING_INTENT = "Missing required parameter: intent"
"""Error text for a provisioning request without an intent."""
NO_MATCH = "No matching servers found"
MIN_LOCAL_CONFIDENCE = 0.5
"""Confidence from which a local tool excludes weaker ones from the answer."""
MIN_ENABLE_CONFIDENCE = 0.9
"""Minimum confidence at which an offer may be enabled."""
_MAX_MATCHES = 20
_MAX_OFFERS = 50_000
_MAX_DESCRIPTION_CHARS = 500
_MAX_TRUST_FILE_BYTES = 1024 * 1024
_MAX_ENTRY_CHARS = 100
"""Maximum length of a trust-file entry in an error, in characters."""
_TRUSTS_NOBODY = "it trusts no server"
_RIGHT_FILE = 'write strings such as ["npm:@scope/name", "pypi:name@1.2.3"]'
_RIGHT_ENTRY = "write npm:NAME, pypi:NAME, remote:NAME or npm:@SCOPE/*"

_PACKAGE_PATTERN = re.compile(r"(?:@[a-z0-9][a-z0-9._-]*/)?[A-Za-z0-9][A-Za-z0-9._-]*\Z")
_VERSION_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+!-]*\Z")
_VARIABLE_PATTERN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_SERVER_NAME_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")
_PLAIN_NAME_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_NAME_PATTERNS = {
    "": _PLAIN_NAME_PATTERN,
    "npm": re.compile(rf"(?:@[a-z0-9][a-z0-9._-]*/)?{_PLAIN_NAME_PATTERN.pattern}|@[a-z0-9][a-z0-9._-]*/\*"),
    "pypi": _PLAIN_NAME_PATTERN,
    "remote": re.compile(r"[!-)+-~]+(?:/\*)?"),
}
"""Valid names in a trust file, by source."""


Source = Literal["npm", "pypi", "remote"]
"""The source of an offer: a package registry, or an HTTP server under its name in the list."""


@dataclass(frozen=True, slots=True)
class RegistryServer:
    """A server of the registry's list that Paddock can run or reach."""

    source: Source
    name: str
    """Name of the package or of the remote server."""
    version: str
    """Version of the package; empty for a remote server."""
    description: str
    entry: Mapping[str, Json]
    """Its entry for a servers file. Variables of the server appear in it as `${NAME}`."""
    is_unique: bool = True
    """Whether no other source in the list offers a server with this name."""

    @property
    def address(self) -> str:
        """A name that identifies this offer alone, such as `npm:@scope/name`."""
        return f"{self.source}:{self.name}"

    def has_name(self, name: str) -> bool:
        """Return whether a name or an address means this offer, spelled as its registry compares names."""
        wanted = _normalize_name(self.source, name.removeprefix(f"{self.source}:"))
        return wanted == _normalize_name(self.source, self.name)


@dataclass(frozen=True, slots=True)
class ProvisionMatch:
    """An offer for an intent, and whether it may be enabled."""

    offer: RegistryServer
    confidence: float
    trusted: bool

    @property
    def allowed(self) -> bool:
        """Whether the trust file names it and the match is certain enough."""
        return self.trusted and self.confidence >= MIN_ENABLE_CONFIDENCE


@dataclass(frozen=True, slots=True)
class ProvisionAnswer:
    """The answer to an intent: existing tools, offers of the registry, or nothing."""

    source: Literal["local", "registry", "none"]
    tools: tuple[tuple[Hit, float], ...] = ()
    matches: tuple[ProvisionMatch, ...] = ()


@dataclass(frozen=True, slots=True)
class ProvisionChange:
    """The result of a change: the server's name and entry, its file, and the backup of that file."""

    name: str
    entry: Mapping[str, Json]
    file: Path
    backup: Path | None
    """None for a new file, and if nothing had to be changed."""


def load_registry(path: Path) -> tuple[RegistryServer, ...]:
    """Return the offers of a registry list that can be run unchanged; none if the file does not exist.

    These are packages of npm and PyPI with a version, and remote servers over streamable HTTP. Other entries are
    ignored. Raises ConfigurationError if the file is not such a list.
    """
    listed = JsonFile(path, read=read_trusted).read().get("servers", [])
    if not isinstance(listed, list):
        raise ConfigurationError(f"{path}: `servers` is not a list; fetch the registry's list again")
    offers = (
        offer for entry in cast("list[object]", listed)[:_MAX_OFFERS] for offer in _iterate_offers(entry)
    )
    latest = {(offer.source, _normalize_name(offer.source, offer.name)): offer for offer in offers}
    shared = Counter(_normalize_name("pypi", offer.name) for offer in latest.values())
    return tuple(
        replace(offer, is_unique=shared[_normalize_name("pypi", offer.name)] == 1)
        for offer in latest.values()
    )


class TrustFile(NamedTuple):
    """The contents of a trust file."""

    patterns: tuple[str, ...] = ()
    """Its valid patterns."""
    problems: tuple[str, ...] = ()
    """The faults of the file or of its other entries, with the right form."""


def read_trust(path: Path) -> TrustFile:
    """Return the contents of a trust file, a JSON array of patterns (see `is_trusted`); none if it is missing.

    An entry that is not a pattern trusts no server; if one is not a string, the whole file trusts none. Raises
    ConfigurationError if the file is not regular, too large, another user's, or open to others.
    """
    try:
        entries: object = json.loads(read_trusted(path, _MAX_TRUST_FILE_BYTES))
    except FileNotFoundError:
        return TrustFile()
    except NotOursError as error:
        raise ConfigurationError(f"{path}: cannot be read: {error.strerror}") from None
    except OSError as error:
        return TrustFile(problems=(f"{path}: cannot be read: {error.strerror}; {_TRUSTS_NOBODY}",))
    except (ValueError, RecursionError):
        return TrustFile(problems=(f"{path}: this is not JSON; {_TRUSTS_NOBODY}; {_RIGHT_FILE}",))
    if not isinstance(entries, list):
        return TrustFile(problems=(f"{path}: this is not a JSON array; {_TRUSTS_NOBODY}; {_RIGHT_FILE}",))
    patterns: list[str] = []
    problems: list[str] = []
    for number, entry in enumerate(cast("list[Json]", entries), 1):
        if not isinstance(entry, str):
            problem = f"{path}: entry {number} is {kind(entry)}, not a text; {_TRUSTS_NOBODY}; {_RIGHT_FILE}"
            return TrustFile(problems=(problem,))
        if fault := _explain_pattern(entry):
            shown = json.dumps(entry if len(entry) <= _MAX_ENTRY_CHARS else f"{entry[:_MAX_ENTRY_CHARS]}...")
            problems.append(f"{path}: entry {number}, {shown}, trusts no server: {fault}")
        else:
            patterns.append(entry)
    return TrustFile(tuple(patterns), tuple(problems))


def load_trust(path: Path) -> tuple[str, ...]:
    """Return the patterns of a trust file; see `read_trust`."""
    return read_trust(path).patterns


def _explain_pattern(pattern: str) -> str:
    """Return why a string is not a valid pattern, and the right form; "" if it is valid."""
    source, name, version = _split_pattern(pattern)
    form = _NAME_PATTERNS.get(source)
    if form is None:
        shown = json.dumps(source[:_MAX_ENTRY_CHARS])
        return f"{shown} is not a source of servers; write npm:NAME, pypi:NAME or remote:NAME"
    if not form.fullmatch(name) or (version is not None and name.endswith("/*")):
        return f"this is not the name of a server; {_RIGHT_ENTRY}"
    if version is not None and not _VERSION_PATTERN.match(version):
        return "the text after `@` is not a version; write NAME@VERSION, or NAME alone for every version"
    return ""


def is_trusted(offer: RegistryServer, patterns: Sequence[str]) -> bool:
    """Return whether a trust file with these patterns trusts an offer.

    A pattern is `[SOURCE:]NAME[@VERSION]` or `[SOURCE:]SCOPE/*`, where SOURCE is `npm`, `pypi` or `remote`. Without a
    source, a name that begins with `@` belongs to npm, and another name with a slash to a remote server. Any other name
    trusts the package only if no other source in the list has the same name.
    """
    return any(_check_pattern(pattern, offer) is None for pattern in patterns)


def explain_distrust(offer: RegistryServer, trust_file: Path) -> str:
    """Return why the trust file does not trust an offer, and what to add to it.

    The suggested pattern names a version if a pattern that almost trusts the offer does.
    """
    reasons = {pattern: why for pattern in load_trust(trust_file) if (why := _check_pattern(pattern, offer))}
    reason = f": {next(iter(reasons.values()))}" if reasons else ""
    pinned = offer.version and any(_split_pattern(pattern)[2] is not None for pattern in reasons)
    suggested = json.dumps(f"{offer.address}@{offer.version}" if pinned else offer.address)
    return (
        f"{offer.name} is not trusted{reason}; to trust it, write {suggested} into {trust_file}, a JSON array"
    )


def _check_pattern(pattern: str, offer: RegistryServer) -> str | None:
    """Return None if a pattern trusts an offer, the reason if it almost does, or "" if it names another offer."""
    source, name, version = _split_pattern(pattern)
    if source not in ("", offer.source) or (not source and offer.source == "remote"):
        return ""
    if name.endswith("/*") and version is None:
        scope, slash, _ = offer.name.partition("/")
        return None if slash and scope == name[:-2] else ""
    if _normalize_name(offer.source, name) != _normalize_name(offer.source, offer.name):
        return ""
    if version not in (None, offer.version):
        return f"version {version} is trusted, but the list offers {offer.version or 'none'}"
    if not source and not offer.is_unique:
        return f"{json.dumps(pattern)} may mean npm:{name} or pypi:{name}"
    return None


def _split_pattern(pattern: str) -> tuple[str, str, str | None]:
    """Return source, name and version of a pattern; without them the source is "" and the version None."""
    source, colon, name = pattern.partition(":")
    if not colon:
        source, name = "npm" if pattern.startswith("@") else "remote" if "/" in pattern else "", pattern
    for sign in ("==", "@"):
        before, found, version = name.rpartition(sign)
        if found and before:
            return source, before, version
    return source, name, None


def _normalize_name(source: str, name: str) -> str:
    """Return a package's name as its registry compares it (PyPI: PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower() if source == "pypi" else name


def answer_intent(
    intent: str,
    local: Sequence[Hit],
    offers: Sequence[RegistryServer],
    trust: Sequence[str],
    *,
    context: str = "",
) -> ProvisionAnswer:
    """Return the answer to an intent. `local` are hits for intent and context; offers match only the intent.

    Raises ValueError with MISSING_INTENT if the intent is empty.
    """
    if not intent.strip():
        raise ValueError(MISSING_INTENT)
    asked = f"{intent} {context}".strip()
    tools = [(hit, compute_confidence(hit.score, asked)) for hit in local]
    if tools:
        good = [pair for pair in tools if pair[1] >= MIN_LOCAL_CONFIDENCE]
        return ProvisionAnswer("local", tools=tuple(good or tools))
    matches = match_offers(intent, offers, trust)
    return ProvisionAnswer("registry", matches=matches) if matches else ProvisionAnswer("none")


def match_offers(
    intent: str, offers: Sequence[RegistryServer], trust: Sequence[str]
) -> tuple[ProvisionMatch, ...]:
    """Return the offers for an intent, best first, by the compat score of name and description."""
    wanted = intent.lower().split()
    found: list[ProvisionMatch] = []
    for offer in offers:
        score = keyword_score(wanted, offer.name, offer.description)
        found.append(ProvisionMatch(offer, compute_confidence(score, intent), is_trusted(offer, trust)))
    suitable = (each for each in found if each.confidence > 0)
    return tuple(sorted(suitable, key=lambda each: each.confidence, reverse=True)[:_MAX_MATCHES])


class Provisioning:
    """The offered and the configured servers. Files are read at each call; nothing is cached or started.

    A new server is added to the first servers file; an existing one is changed in its own file.
    """

    def __init__(self, servers_files: Sequence[Path], registry: Path, trust: Path) -> None:
        self.trust_file = trust
        self._files = servers_files
        self._registry = registry

    def file_of(self, name: str) -> Path:
        """Return the servers file of a server, or the one it would be added to. Raises ConfigurationError."""
        return next((file for file in self._files if name in _read_entries(file)), self._files[0])

    def answer_intent(self, intent: str, hits: Sequence[Hit] = (), *, context: str = "") -> ProvisionAnswer:
        """Return the answer to an intent: `hits` among the existing tools, else offers of the registry.

        Raises ValueError for an empty intent, and ConfigurationError for a registry list that is not valid.
        """
        offers = load_registry(self._registry)
        return answer_intent(intent, hits, offers, load_trust(self.trust_file), context=context)

    def trust_problems(self) -> tuple[str, ...]:
        """Return the faults of the trust file and its entries. Raises ConfigurationError."""
        return read_trust(self.trust_file).problems

    def has_list(self) -> bool:
        """Return whether the registry's list exists and is not empty. Raises ConfigurationError."""
        return bool(load_registry(self._registry))

    def find_offer(self, name: str) -> ProvisionMatch:
        """Return the offer with a name or address; its confidence is 1.

        Raises ConfigurationError if there is none, or if several sources offer a server with that name.
        """
        offers = load_registry(self._registry)
        found = [offer for offer in offers if offer.has_name(name)]
        if len(found) > 1:
            addresses = ", ".join(offer.address for offer in found)
            raise ConfigurationError(
                f"there are several servers {name[:200]!r} in the registry's list; name one of them: {addresses}"
            )
        if found:
            return ProvisionMatch(found[0], 1.0, is_trusted(found[0], load_trust(self.trust_file)))
        near = find_nearest(name, [offer.name for offer in offers])
        hint = f"did you mean {near[0]}?" if near else "`paddock servers refresh` fetches the list"
        raise ConfigurationError(f"there is no server {name[:200]!r} in the registry's list; {hint}")

    def list_configured(self) -> dict[str, bool]:
        """Return the servers of the servers files by name, and whether each is enabled. Raises ConfigurationError."""
        return {name: _is_enabled(_as_object(entry)) for name, entry in self._read_configured().items()}

    def find_entry(self, name: str) -> dict[str, Json]:
        """Return a server's entry in the servers files, else the registry's offer. Raises ConfigurationError."""
        configured = self._read_configured()
        return dict(_as_object(configured[name]) if name in configured else self.find_offer(name).offer.entry)

    def _read_configured(self) -> dict[str, Any]:
        found = {name: entry for file in reversed(self._files) for name, entry in _read_entries(file).items()}
        return {name: entry for name, entry in found.items() if not is_paddock(entry)}

    def enable_server(self, name: str, *, own_name: str = "", approved: bool) -> ProvisionChange:
        """Enable a configured server again, or add an offer as `own_name`, by default the last part of its name.

        Raises ConfigurationError and leaves the file unchanged: without approval, for an offer that is not trusted, for
        a name that exists or is not valid, for a file that is not valid.
        """
        if not approved:
            raise ConfigurationError(f"{name} was not enabled: a person has to approve it")
        if name in self.list_configured():
            return self._set_enabled(name, enabled=True)
        found = self.find_offer(name)
        if not found.allowed:
            raise ConfigurationError(explain_distrust(found.offer, self.trust_file))
        return self._enter_offer(own_name or found.offer.name.rpartition("/")[2], found.offer)

    def disable_server(self, name: str, *, approved: bool) -> ProvisionChange:
        """Disable a server of the servers files. Raises ConfigurationError."""
        if not approved:
            raise ConfigurationError(f"{name} was not disabled: a person has to approve it")
        if name not in self.list_configured():
            files = " and ".join(str(file) for file in self._files)
            raise ConfigurationError(f"{files}: there is no server {name[:200]!r}")
        return self._set_enabled(name, enabled=False)

    def _enter_offer(self, name: str, offer: RegistryServer) -> ProvisionChange:
        if not _SERVER_NAME_PATTERN.match(name):
            raise ConfigurationError(
                f"{name!r} is not a name for a server: use letters, digits, `.`, `_` and `-`"
            )
        if any(name in _read_entries(file) for file in self._files):
            raise ConfigurationError(
                f"{self.file_of(name)}: there is a server {name!r} already; choose another name"
            )
        file = self._files[0]
        document = _read_document(file)
        _find_servers(file, document)[name] = dict(offer.entry)
        return ProvisionChange(name, offer.entry, file, _write_document(file, document))

    def _set_enabled(self, name: str, *, enabled: bool) -> ProvisionChange:
        file = self.file_of(name)
        document = _read_document(file)
        entry = _find_servers(file, document)[name]
        if not isinstance(entry, dict):
            raise ConfigurationError(f"{file}: server {name!r} is not an object; correct the file first")
        fields = cast("dict[str, Json]", entry)
        was = _is_enabled(fields)
        for key in ("disabled", "enabled"):
            fields.pop(key, None)
        if was is enabled:
            return ProvisionChange(name, fields, file, None)
        if not enabled:
            fields["disabled"] = True
        return ProvisionChange(name, fields, file, _write_document(file, document))


def _read_document(file: Path) -> dict[str, Any]:
    """Return the contents of a servers file. A person wrote it; therefore no error suggests removing it."""
    return JsonFile(file, remedy="correct the file first", read=read_bounded).read()


def _read_entries(file: Path) -> dict[str, Any]:
    return _find_servers(file, _read_document(file))


def _write_document(file: Path, document: Mapping[str, Json]) -> Path | None:
    """Replace a servers file and keep a backup; return the backup's path, None for a new file."""
    backup = None
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        mode = file.stat().st_mode & 0o777 if file.exists() else 0o600
        if not mode & stat.S_IWUSR:
            raise ConfigurationError(
                f"{file}: is write-protected (mode {mode:04o}), so nothing was changed. To let Paddock change it, run: "
                f"chmod u+w {shlex.quote(str(file))}"
            )
        if file.exists():
            backup = keep_backup(file, read_bounded(file, MAX_FILE_BYTES), mode=mode)
        text = json.dumps(document, indent=2, ensure_ascii=False) + "\n"
        replace_file(file, text.encode("utf-8", "backslashreplace"), mode=mode)  # as JSON escapes it
    except OSError as error:
        raise ConfigurationError(f"{file}: cannot be written: {error.strerror}") from None
    return backup


def _is_enabled(entry: Mapping[str, Json]) -> bool:
    return entry.get("disabled") is not True and entry.get("enabled") is not False


def _find_servers(file: Path, document: dict[str, Any]) -> dict[str, Any]:
    """Return the servers of a document; adds the object if it is missing. Raises ConfigurationError."""
    servers = document.setdefault("mcpServers", {})
    if not isinstance(servers, dict):
        raise ConfigurationError(f"{file}: no object `mcpServers`; correct the file first")
    return cast("dict[str, Any]", servers)


def _iterate_offers(entry: object) -> Iterator[RegistryServer]:
    """Yield the offers in one entry of the list. Its facts are in `server`, in older lists in the entry itself."""
    fields = _as_object(entry)
    server = _as_object(fields.get("server")) or fields
    description = server.get("description")
    about = spell_invisible(description[:_MAX_DESCRIPTION_CHARS]) if isinstance(description, str) else ""
    for package in map(_as_object, _as_list(server.get("packages"))):
        if (found := _make_command(package)) is not None:
            source: Source = "npm" if package["registryType"] == "npm" else "pypi"
            yield RegistryServer(source, str(package["identifier"]), str(package["version"]), about, found)
    name = server.get("name")
    for remote in map(_as_object, _as_list(server.get("remotes"))):
        url = remote.get("url")
        if remote.get("type") == "streamable-http" and isinstance(url, str) and url.startswith("https://"):
            if isinstance(name, str) and "{" not in url and not _as_list(remote.get("headers")):
                yield RegistryServer("remote", name[:_MAX_DESCRIPTION_CHARS], "", about, {"url": url})
            break


def _make_command(package: Mapping[str, Json]) -> dict[str, Json] | None:
    """Return the entry that runs a package; None if Paddock would need more information."""
    identifier, version = package.get("identifier"), package.get("version")
    if not (isinstance(identifier, str) and isinstance(version, str)):
        return None
    if not (_PACKAGE_PATTERN.match(identifier) and _VERSION_PATTERN.match(version)) or version == "latest":
        return None
    if _as_object(package.get("transport")).get("type", "stdio") != "stdio" or _as_list(
        package.get("packageArguments")
    ):
        return None
    match package.get("registryType"):
        case "npm":
            entry: dict[str, Json] = {"command": "npx", "args": ["-y", f"{identifier}@{version}"]}
        case "pypi" if "/" not in identifier:
            entry = {"command": "uvx", "args": [f"{identifier}=={version}"]}
        case _:
            return None
    wanted = [_as_object(each) for each in _as_list(package.get("environmentVariables"))]
    names = [str(each.get("name", "")) for each in wanted if each.get("isRequired") is True]
    if not all(_VARIABLE_PATTERN.match(name) for name in names):
        return None
    return {**entry, "env": {name: f"${{{name}}}" for name in names}} if names else entry


def _as_object(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _as_list(value: object) -> list[object]:
    return cast("list[object]", value) if isinstance(value, list) else []
