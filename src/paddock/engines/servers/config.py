"""The servers files (`.paddock/servers.json` and `.mcp.json`): their format, and the servers that they define.

Loading never raises. Each fault becomes a warning, and the rest of the file counts. Values from variables and all
headers are secrets: no repr, warning or error contains them.
"""

import json
import re
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from itertools import pairwise
from pathlib import Path, PureWindowsPath
from typing import Annotated, Literal, cast
from urllib.parse import parse_qsl, unquote, urlsplit

from pydantic import (
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
)

from paddock.engines.servers.auth.client_config import DEFAULT, OAuth, OAuthEntry
from paddock.engines.servers.confinement import Confinement, MisplacedConfine, PaddockEntry
from paddock.foundation.files import read_bounded
from paddock.model.addresses import MAX_PORT, is_port
from paddock.model.base import WholeNumber
from paddock.model.limits import SERVERS_FILE_BYTES
from paddock.model.texts import FAULT_TEXTS, list_faults
from paddock.model.urls import render_origin
from paddock.policy.redaction.known import NO_SECRETS, ServerSecrets, is_credential

DEFAULT_TIMEOUT_MS = 60_000
DOWNLOAD_MS = 300_000
"""Default maximum start time of a server that may have to be downloaded, in milliseconds."""
STATE_VOLUME = "paddock-state:/state"
"""The container volume for a workspace, as written by `paddock install --docker`."""

_VARIABLE_PATTERN = re.compile(r"\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
"""Editors write `${env:NAME}`."""
_FOREIGN_PATTERN = re.compile(r"\$\{(?:input|config|command):[^}]{0,60}\}")
_LAUNCHERS = frozenset(
    {"bun", "bunx", "deno", "docker", "npm", "npx", "pipx", "pnpm", "pnpx", "podman", "uv", "uvx", "yarn"}
)
"""Programs that download what they start. They take longer the first time and must not be interrupted."""
_MIN_LITERAL_SECRET_CHARS = 8
_MAX_ADDRESS_CHARS = 65_000
"""Maximum length of an address, in characters; the HTTP client accepts little more."""
_HEADER_PATTERN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
"""The name of a header (RFC 9110, 5.6.2)."""


@dataclass(frozen=True, slots=True)
class Lifecycle:
    """How long a server lives between calls. A `keep-alive` server ends after its own idle time, if it has one."""

    mode: Literal["default", "keep-alive", "ephemeral"] = "default"
    idle_timeout_ms: int | None = None


@dataclass(frozen=True, slots=True, repr=False)
class StdioServer:
    """A server that runs as a child process; messages go over its stdin and stdout."""

    name: str
    command: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    cwd: Path | None = None
    """Working directory; None for that of Paddock."""
    timeout_ms: int = DEFAULT_TIMEOUT_MS
    lifecycle: Lifecycle = Lifecycle()
    secrets: ServerSecrets = NO_SECRETS
    credentials: ServerSecrets = NO_SECRETS
    """The secrets that are credentials: they are removed even from the server's own results."""
    questions: bool = False
    """Whether it may ask a person during a call."""
    start_ms: int = 0
    """Maximum time to start, in milliseconds, if that is longer than the maximum time of a call."""
    confine: Confinement | None = None
    """What it may use in the sandbox; None for a server that runs as the user."""
    max_concurrent: int | None = None
    """Maximum number of its calls at a time; further ones wait. None for any number."""

    def __repr__(self) -> str:
        command = self.secrets.hide(self.command)
        return (
            f"StdioServer({self.name!r}, command={command!r}, {len(self.args)} args, env={sorted(self.env)})"
        )


HttpTransport = Literal["auto", "http", "sse"]
"""How a server is reached: streamable HTTP, the older transport HTTP+SSE, or the second if it rejects the first."""


@dataclass(frozen=True, slots=True, repr=False)
class HttpServer:
    """A server that is reached by HTTP."""

    name: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    timeout_ms: int = DEFAULT_TIMEOUT_MS
    lifecycle: Lifecycle = Lifecycle()
    secrets: ServerSecrets = NO_SECRETS
    credentials: ServerSecrets = NO_SECRETS
    """The secrets that are credentials: they are removed even from the server's own results."""
    oauth: OAuth = DEFAULT
    questions: bool = False
    """Whether it may ask a person during a call."""
    transport: HttpTransport = "auto"
    max_concurrent: int | None = None
    """Maximum number of its calls at a time; further ones wait. None for any number."""

    @property
    def has_credentials(self) -> bool:
        """Whether the entry itself contains credentials; then no login is used."""
        named = any(name.lower() == "authorization" for name in self.headers)
        return named or urlsplit(self.url).username is not None

    def __repr__(self) -> str:
        return f"HttpServer({self.name!r}, host={render_origin(self.url)!r}, headers={sorted(self.headers)})"


Server = StdioServer | HttpServer


@dataclass(frozen=True, slots=True)
class ServersConfig:
    """The servers of a file by name, and the faults of the rest."""

    servers: Mapping[str, Server] = field(default_factory=dict[str, Server])
    warnings: tuple[str, ...] = ()
    absent: Mapping[str, str] = field(default_factory=dict[str, str])
    """By name: why a server of the file is not usable, and what to do."""
    disabled: frozenset[str] = frozenset()
    """Names of those that are absent because their entries disable them."""
    usable: bool = True
    """Whether the file could be read; a missing file counts as readable."""


class _IdleTime(BaseModel):
    mode: Literal["keep-alive", "ephemeral"] = "keep-alive"
    idle_timeout_ms: Annotated[WholeNumber | None, Field(gt=0, alias="idleTimeoutMs")] = None


def _as_text(value: object) -> object:
    """Return a value of `env` as a string: other programs allow `3000` and `true` without quotes."""
    return json.dumps(value) if isinstance(value, int) else value


class _ServerEntry(BaseModel):
    """One entry as written, without `null` members. Keys of other programs (`description`) are ignored."""

    model_config = ConfigDict(strict=True, hide_input_in_errors=True)

    command: Annotated[str, Field(min_length=1)] | None = None
    args: list[str] = []
    env: dict[str, Annotated[str, BeforeValidator(_as_text)]] = {}
    cwd: str | None = None
    url: Annotated[str, Field(min_length=1)] | None = Field(
        default=None, validation_alias=AliasChoices("url", "httpUrl", "serverUrl")
    )
    transport: str = Field(default="", validation_alias=AliasChoices("transportType", "type", "transport"))
    headers: dict[str, str] = {}
    timeout_ms: Annotated[WholeNumber, Field(gt=0, alias="timeoutMs")] = DEFAULT_TIMEOUT_MS
    max_concurrent: Annotated[WholeNumber | None, Field(gt=0, alias="maxConcurrent")] = None
    lifecycle: Literal["keep-alive", "ephemeral"] | _IdleTime | None = None
    disabled: bool = False
    enabled: bool = True
    """The same field in the spelling of other programs."""
    oauth: OAuthEntry = OAuthEntry()
    paddock: PaddockEntry = PaddockEntry()
    confine: MisplacedConfine = None

    @field_validator("oauth", mode="before")
    @classmethod
    def _of_others(cls, value: object) -> object:
        return cast("object", value) if isinstance(value, dict) else {}  # other programs write `true`


def load_servers(
    path: Path,
    environ: Mapping[str, str],
    questions: Sequence[str] = (),
    *,
    read: Callable[[Path, int], bytes] = read_bounded,
    base: Path | None = None,
) -> ServersConfig:
    """Read a servers file. `${NAME}` and `${NAME:-default}` are replaced from `environ`.

    `read` returns the file's contents, at most that many bytes, or raises OSError. Servers whose names match one of the
    globs `questions` may ask a person during a call. Relative working directories start at `base`, by default the
    file's directory.

    A missing file defines no servers. A file that is not valid defines no servers and gives one warning with the
    position. An entry that is not valid is left out with a warning; an entry that starts Paddock itself is left out
    silently. Raises nothing.
    """
    try:
        text = read(path, SERVERS_FILE_BYTES).decode("utf-8-sig")
    except FileNotFoundError:
        return ServersConfig()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        return _list_unusable(f"{path}: cannot be read: {why}.")
    try:
        document: object = json.loads(text, object_pairs_hook=_read_object)
    except _TwiceError as error:
        return _list_unusable(f"{path}: {error.args[0]!r} occurs twice in one object; remove one of them.")
    except json.JSONDecodeError as error:
        where, hint = f"{path}:{error.lineno}:{error.colno}", _suggest_remedy(text, error.pos)
        return _list_unusable(f"{where}: not JSON: {error.msg}. {hint}".rstrip())
    except RecursionError:
        return _list_unusable(f"{path}: nested too deeply.")
    except ValueError:
        return _list_unusable(f"{path}: a number is too long.")
    entries: object = None
    hint = ""
    if isinstance(document, dict):
        keys = cast("dict[str, object]", document)
        # A file without `mcpServers` has none, unless they are in `servers` (VS Code) or at the top level.
        members = (cast("dict[str, object]", value) for value in keys.values() if isinstance(value, dict))
        elsewhere = "servers" in keys or any({"command", "url"} & each.keys() for each in members)
        entries = keys.get("mcpServers", None if elsewhere else {})
        hint = "Rename `servers` to that. " if isinstance(keys.get("servers"), dict) else ""
    if not isinstance(entries, dict):
        return _list_unusable(f"{path}: no object `mcpServers`. {hint}".rstrip())
    return _read_entries(path, base or path.parent, cast("dict[str, object]", entries), environ, questions)


class _TwiceError(Exception):
    """A key occurs twice in an object of a servers file: a reader of the first would miss the one that counts."""


def _read_object(members: list[tuple[str, object]]) -> dict[str, object]:
    """Return a JSON object. Raises _TwiceError."""
    read: dict[str, object] = {}
    for name, value in members:
        if name in read:
            raise _TwiceError(name)
        read[name] = value
    return read


def _list_unusable(why: str) -> ServersConfig:
    """Return the servers of a file that cannot be used: none, with a warning."""
    return ServersConfig(warnings=(f"{why} None of its servers is used.",), usable=False)


def combine_configs(first: ServersConfig, second: ServersConfig, where: Path, also: Path) -> ServersConfig:
    """Return the servers of two files. For a name in both, the first file's entry counts, with a warning.

    If the first file cannot be read, its names are unknown; then the servers of the second file are not used either.
    """
    if not first.usable:
        unused = f"{also}: not used, because its servers may have other entries in {where}"
        return replace(first, warnings=(*first.warnings, *((unused,) if second.servers else ())))
    named = first.servers.keys() | first.absent.keys()
    twice = [name for name in (*second.servers, *second.absent) if name in named]
    warnings = (
        f"{also}: server {name!r}: {where} also has it, and that entry is used; remove one of them"
        for name in twice
    )
    return ServersConfig(
        {**first.servers, **{name: each for name, each in second.servers.items() if name not in named}},
        (*first.warnings, *second.warnings, *warnings),
        {**first.absent, **{name: why for name, why in second.absent.items() if name not in named}},
        first.disabled | (second.disabled - named),
    )


def may_download(command: str) -> bool:
    """Return whether a command may have to download the server before it starts."""
    return Path(command).name in _LAUNCHERS


def is_paddock(entry: object) -> bool:
    """Return whether an entry starts Paddock: `paddock install` may write one into a file that Paddock reads, too."""
    if not isinstance(entry, dict):
        return False
    fields = cast("dict[str, object]", entry)
    command, words = fields.get("command"), fields.get("args")
    if not isinstance(command, str) or not isinstance(words, list):
        return False
    return find_serve([command, *cast("list[object]", words)]) is not None


def find_serve(words: Sequence[object]) -> int | None:
    """Return the index of `serve` in a command line that starts `paddock serve mcp`; None in any other.

    The command line may start Paddock directly, by another program such as `uvx`, or in a container.
    """
    serve = next((at for at, pair in enumerate(pairwise(words)) if pair == ("serve", "mcp")), 0)
    launcher = [word for word in words[:serve] if isinstance(word, str)]
    names = {PureWindowsPath(word).name.removesuffix(".exe") for word in launcher}  # it handles both slashes
    return serve if "paddock" in names or STATE_VOLUME in launcher else None


def _read_entries(
    path: Path,
    base: Path,
    entries: Mapping[str, object],
    environ: Mapping[str, str],
    questions: Sequence[str],
) -> ServersConfig:
    servers: dict[str, Server] = {}
    warnings: list[str] = []
    absent: dict[str, str] = {}
    disabled: set[str] = set()
    file = str(path.relative_to(base)) if path.is_relative_to(base) else path.name
    for name, raw in entries.items():
        if is_paddock(raw):  # it would start itself without end
            absent[name] = f"{name} in {file} is Paddock itself"
            continue
        found: list[str] = []
        server = _make_server(name, raw, base, _Interpolation(environ, found.append))
        if server is not None:
            asks = any(fnmatchcase(name, glob) for glob in questions)
            servers[name] = replace(server, questions=asks)
        elif found:
            absent[name] = f"its entry in {file} cannot be used; `paddock servers list` says why"
        else:
            absent[name] = f"{name} is disabled in {file}; `paddock servers enable {name}` enables it"
            disabled.add(name)
        if name in _RESERVED_SERVER_NAMES:
            found.append("programs cannot reach it by this name; rename it")
        warnings += [f"{path}: server {name!r}: {text}" for text in dict.fromkeys(found)]
    return ServersConfig(servers, tuple(warnings), absent, frozenset(disabled))


_RESERVED_SERVER_NAMES = ("then", "toJSON")
"""Names that JavaScript itself looks up on objects (bootstrap/servers.js)."""
_COMMENT_PATTERN = re.compile(r"//|/\*|#")
_LAST_COMMA = re.compile(r",\s*[]}]")
_CONTEXT_CHARS = 200


def _suggest_remedy(text: str, at: int) -> str:
    """Return how to remove comments and commas that editors allow, from the position at which JSON parsing failed."""
    if _COMMENT_PATTERN.match(text, at):
        return "JSON has no comments: remove them. "
    start = max(at - _CONTEXT_CHARS, 0)
    commas = _LAST_COMMA.finditer(text[start : at + _CONTEXT_CHARS])
    surplus = any(start + comma.start() <= at < start + comma.end() for comma in commas)
    return "Remove the comma after the last member. " if surplus else ""


class _Interpolation:
    """Replaces variables and records each inserted value."""

    def __init__(self, environ: Mapping[str, str], warn: Callable[[str], None]) -> None:
        self._environ = environ
        self.warn = warn
        self.resolved: set[str] = set()
        self.credentials: set[str] = set()
        """The values that are credentials, judged by the names of their variables."""

    def __call__(self, text: str) -> str:
        for other in _FOREIGN_PATTERN.findall(text):
            self.warn(
                f"`{other}` is a variable of editors: it is not replaced. Write ${{NAME}}, and set the variable."
            )
        return _VARIABLE_PATTERN.sub(self._look_up_variable, text)

    def _look_up_variable(self, match: re.Match[str]) -> str:
        name, default = match[1], match[2]
        value = self._environ.get(name)
        if value is None and default is None:
            self.warn(f"variable {name} is not set; `{match[0]}` stays as it is. Set it or give a default.")
            return match[0]
        if not value and default is not None:
            return default
        assert value is not None
        if name not in _PATH_VARIABLES:
            self.resolved.add(value)
        if is_credential(name, value):
            self.credentials.add(value)
        return value


_PATH_VARIABLES = frozenset({"HOME", "PATH", "PWD", "USER", "LOGNAME", "SHELL", "TMPDIR"})
"""Variables with paths; hiding their values would only make error texts useless."""


_TYPE_MESSAGES = {
    **FAULT_TEXTS,
    "string_type": 'must be a text: write it between "quotes"',
    "list_type": "must be a list of texts",
    "dict_type": "must be an object whose values are texts",
}
"""Errors for a member of the wrong type."""


def _make_server(name: str, raw: object, base: Path, fill: _Interpolation) -> Server | None:
    """Return the server of an entry; None if it is disabled, or after a warning."""
    if not isinstance(raw, dict):
        fill.warn("must be an object; skipped.")
        return None
    try:
        given = cast("dict[str, object]", raw)
        entry = _ServerEntry.model_validate({key: value for key, value in given.items() if value is not None})
    except ValidationError as error:
        [fault] = list_faults(error, messages=_TYPE_MESSAGES, model=_ServerEntry)
        fill.warn(f"`{'.'.join(map(str, fault.path))}`: {fault.text}; skipped.")
        return None
    if entry.disabled or not entry.enabled:
        return None
    if entry.command is not None:
        return _stdio_server(name, entry.command, entry, base, fill)
    if entry.paddock.confinement is not None:
        fill.warn("`paddock.confine` is for servers with a `command`; skipped.")
        return None
    if entry.url is not None:
        return _http_server(name, entry.url, entry, fill)
    fill.warn("has neither `command` nor `url`; skipped.")
    return None


def _stdio_server(
    name: str, command: str, entry: _ServerEntry, base: Path, fill: _Interpolation
) -> StdioServer:
    if entry.url is not None:
        fill.warn("has both `command` and `url`; the command is used.")
    env = {key: fill(value) for key, value in entry.env.items()}
    literal = {
        value
        for key, value in env.items()
        if value == entry.env[key] and len(value) >= _MIN_LITERAL_SECRET_CHARS
    }
    program = fill(command)
    own_time = "timeout_ms" in entry.model_fields_set
    return StdioServer(
        name=name,
        command=program,
        args=tuple(fill(arg) for arg in entry.args),
        env=env,
        cwd=base / fill(entry.cwd) if entry.cwd is not None else None,
        timeout_ms=entry.timeout_ms,
        start_ms=0 if own_time or not may_download(program) else DOWNLOAD_MS,
        lifecycle=_make_lifecycle(entry),
        confine=entry.paddock.confinement,
        max_concurrent=entry.max_concurrent,
        secrets=ServerSecrets(fill.resolved | literal),
        credentials=ServerSecrets(
            {value for key, value in env.items() if is_credential(key, value)} | fill.credentials
        ),
    )


def _http_server(name: str, address: str, entry: _ServerEntry, fill: _Interpolation) -> HttpServer | None:
    url = fill(address)
    headers = {key: fill(value).strip() for key, value in entry.headers.items()}
    for key, value in headers.items():
        if not (
            _HEADER_PATTERN.fullmatch(key) and value.isascii() and value.replace("\t", " ").isprintable()
        ):
            fill.warn(
                f"header {key!r} contains a character that headers cannot contain, such as a line end; skipped."
            )
            return None
    if fault := _explain_address(url):
        fill.warn(f"`url` {fault}; skipped.")
        return None
    try:
        oauth = entry.oauth.make_oauth(fill)
    except ValueError as error:
        fill.warn(f"`oauth`: {error}; skipped.")
        return None
    query, passwords = parse_qsl(urlsplit(url).query), _list_password_forms(url)
    # Servers repeat `Bearer x` in parts, too, for example the token alone.
    literal = passwords | {word for value in headers.values() for word in (value, *value.split())}
    literal |= {value for _, value in query if len(value) >= _MIN_LITERAL_SECRET_CHARS}
    named = [value for key, value in (*headers.items(), *query) if is_credential(key, value)]
    credentials = passwords | {word for value in named for word in (value, *value.split()[-1:])}
    return HttpServer(
        name=name,
        url=url,
        headers=headers,
        timeout_ms=entry.timeout_ms,
        lifecycle=_make_lifecycle(entry),
        secrets=ServerSecrets(fill.resolved | literal | {oauth.client_secret, oauth.private_key}),
        credentials=ServerSecrets(credentials | fill.credentials | {oauth.client_secret, oauth.private_key}),
        oauth=oauth,
        transport="sse" if entry.transport == "sse" else "http" if entry.transport else "auto",
        max_concurrent=entry.max_concurrent,
    )


def _make_lifecycle(entry: _ServerEntry) -> Lifecycle:
    match entry.lifecycle:
        case None:
            return Lifecycle()
        case _IdleTime() as own:
            return Lifecycle(own.mode, own.idle_timeout_ms)
        case mode:
            return Lifecycle(mode)


def _explain_address(url: str) -> str:
    """Return why an address cannot be used, or "". The text does not repeat the address: it may contain a password."""
    if not url.isprintable() or len(url) > _MAX_ADDRESS_CHARS:
        return f"contains a line end or the like, or has more than {_MAX_ADDRESS_CHARS} characters"
    try:
        parts = urlsplit(url)
    except ValueError:  # brackets without an address
        parts = None
    if parts is None or parts.scheme not in ("http", "https") or not parts.hostname:
        return "must be an address that begins with http:// or https://"
    try:
        port = parts.port
    except ValueError:
        port = 0
    return "" if is_port(port) else f"names a port out of range: a port is 1 to {MAX_PORT}"


def _list_password_forms(url: str) -> set[str]:
    """Return the password of an address, decoded and as it is sent."""
    parts = urlsplit(url)
    if not parts.password:
        return set()
    pair = f"{unquote(parts.username or '')}:{unquote(parts.password)}"
    return {parts.password, unquote(parts.password), b64encode(pair.encode()).decode()}
