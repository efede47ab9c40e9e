"""Where packages come from: the configuration of the user and of the system, never of a workspace.

    uv    UV_* variables, uv.toml of user and system; where they name no index, pip's: PIP_* variables, pip.conf
    npm   npm_config_registry, .npmrc of user and system

Addresses may contain credentials. The installer gets them, by `make_environment` and `make_npmrc`, and redaction, by
`secrets`. Nothing else may leave this module with them.
"""

import configparser
import netrc
import os
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import unquote, urlsplit, urlunsplit

from paddock.engines.packages.interface import PackagesError
from paddock.foundation.files import read_bounded
from paddock.model.errors import ConfigurationError
from paddock.model.limits import KIB
from paddock.model.urls import strip_credentials

DEFAULT = "default"
"""Name of the registry that the installer itself has as its default."""
_MAX_CONFIGURATION_BYTES = 256 * KIB
_CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR")
PROXY_VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")
_PIP_FILES = ("/etc/xdg/pip/pip.conf", "/etc/pip.conf", "~/.pip/pip.conf", "~/.config/pip/pip.conf")
"""Weakest first, as pip reads them (https://pip.pypa.io/en/stable/topics/configuration/)."""
_UV_FILES = ("/etc/uv/uv.toml", "~/.config/uv/uv.toml")
_UV_INDEX_NAME_PATTERN = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)=(.*)")
_UV_CREDENTIALS_PATTERN = re.compile(r"UV_INDEX_\w+_(?:USERNAME|PASSWORD)")
_NPM_AUTHORITY_KEYS = ("_authToken", "_auth", "username", "_password", "email")
_NPM_VARIABLE_PATTERN = re.compile(r"\$\{([^}]+)\}")

T = TypeVar("T")


def _list_secrets(addresses: Iterable[str]) -> list[str]:
    found: list[str] = []
    for address in addresses:
        parts = urlsplit(address)
        userinfo = parts.netloc.rpartition("@")[0]
        found += [userinfo, parts.query, *userinfo.split(":", 1)[1:]]
        found += [unquote(each) for each in found]
    return [each for each in dict.fromkeys(found) if each]


@dataclass(frozen=True)
class PythonRegistries:
    """The indexes of Python packages."""

    default: str
    """Searched last; DEFAULT for uv's own, and empty for none."""
    extra: tuple[str, ...] = ()
    """Searched before the default. The first index that has a package of a name is the only one for that name."""
    find_links: tuple[str, ...] = ()
    constraints: tuple[Path, ...] = ()
    variables: Mapping[str, str] | None = None
    """Credentials of named indexes, certificates and proxies."""

    @cached_property
    def _addresses(self) -> tuple[str, ...]:
        return (*map(_cut_name, self.extra), _cut_name(self.default), *self.find_links)

    @property
    def names(self) -> tuple[str, ...]:
        """The addresses without credentials, in the order of their use."""
        return tuple(map(strip_credentials, filter(None, self._addresses)))

    @property
    def is_local(self) -> bool:
        """Whether all are directories of this machine, so that no network is needed."""
        return all(_local_path(address) is not None for address in self._addresses if address)

    @property
    def readable(self) -> tuple[Path, ...]:
        """Directories and files of this machine that the installation reads."""
        local = [
            path for address in self._addresses if address and (path := _local_path(address)) is not None
        ]
        # Pages of an index in a directory `simple` (PEP 503) link to files beside that directory.
        local += [
            path.parent for path in local if path.name == "simple" and path.parent.parent != path.parent
        ]
        named = [Path(value) for name, value in (self.variables or {}).items() if name in _CERTIFICATES]
        return tuple(path for path in (*local, *named) if path.exists())

    @property
    def secrets(self) -> list[str]:
        """Texts that no message may contain."""
        named = [value for name, value in (self.variables or {}).items() if name.endswith("_PASSWORD")]
        proxies = [value for name, value in (self.variables or {}).items() if name.upper() in PROXY_VARIABLES]
        return [*_list_secrets((*self._addresses, *proxies)), *named]

    @property
    def has_credentials(self) -> bool:
        """Whether the installation gets a secret."""
        return bool(self.secrets)

    def make_environment(self) -> dict[str, str]:
        """Return the variables of the installation, which contain the credentials."""
        values = {"UV_INDEX": " ".join(self.extra), "UV_FIND_LINKS": ",".join(self.find_links)}
        named = {"": {"UV_NO_INDEX": "1"}, DEFAULT: dict[str, str]()}
        where = named.get(self.default, {"UV_DEFAULT_INDEX": self.default})
        return {
            "UV_NO_CONFIG": "1",
            "UV_KEYRING_PROVIDER": "disabled",
            "UV_INDEX_STRATEGY": "first-index",
            **where,
            **{name: value for name, value in values.items() if value},
            **(self.variables or {}),
        }


def _cut_name(index: str) -> str:
    named = _UV_INDEX_NAME_PATTERN.fullmatch(index)
    return named[2] if named and "://" not in named[1] else index


def _local_path(address: str) -> Path | None:
    parts = urlsplit(address)
    if parts.scheme == "file":
        return Path(unquote(parts.path))
    return Path(address) if address.startswith("/") else None


def read_python(environ: Mapping[str, str], allowed: Sequence[str]) -> PythonRegistries:
    """Return the configured indexes, as far as they are `allowed`; an empty list allows all.

    Raises PackagesError when none is left, ConfigurationError for a file that cannot be read.
    """
    default, extra, links = _read_uv(environ)
    pip = _read_pip(environ)
    if not (default or extra or links):
        default, extra, links = (
            pip.get("index-url", ""),
            pip.get("extra-index-url", "").split(),
            pip.get("find-links", "").split(),
        )
        if pip.get("no-index", "").lower() in {"1", "true", "yes", "on"}:
            default, extra = "", []
        else:
            default = default or DEFAULT
    else:
        default = default or DEFAULT
    constraints = [Path(name).expanduser() for name in pip.get("constraint", "").split()]
    default, *extra = (_add_netrc(each, environ) for each in (default, *extra))
    links = [each for each in links if not each.startswith("-")]
    permitted = set(map(_normalize, allowed))

    def is_allowed(index: str) -> bool:
        return not permitted or _normalize(strip_credentials(_cut_name(index))) in permitted

    kept = [each for each in extra if is_allowed(each) and _is_usable(each)]
    links = [each for each in links if is_allowed(each) and _is_usable(each)]
    chosen = default if default and is_allowed(default) else ""
    if not (kept or links or chosen):
        raise _refuse_registries([strip_credentials(_cut_name(each)) for each in (*extra, default) if each])
    variables = {name: value for name, value in environ.items() if _UV_CREDENTIALS_PATTERN.fullmatch(name)}
    variables |= _list_connection_variables(environ)
    if "SSL_CERT_FILE" not in variables and pip.get("cert"):
        variables["SSL_CERT_FILE"] = str(Path(pip["cert"]).expanduser())
    return PythonRegistries(
        chosen,
        tuple(kept),
        tuple(links),
        tuple(path for path in constraints if path.is_absolute()),
        variables,
    )


def _is_usable(address: str) -> bool:
    """Return whether an address can have packages: a directory of this machine that is missing has none."""
    path = _local_path(_cut_name(address))
    return path is None or path.exists()


def _normalize(address: str) -> str:
    return strip_credentials(address).rstrip("/").lower()


def _refuse_registries(names: Sequence[str]) -> PackagesError:
    return PackagesError(
        f"packages.registries allows none of the configured registries: {', '.join(names)}",
        "add one to `registries` under [packages] in the user's paddock.toml",
    )


def _list_connection_variables(environ: Mapping[str, str]) -> dict[str, str]:
    names = (*_CERTIFICATES, *PROXY_VARIABLES, *(name.lower() for name in PROXY_VARIABLES))
    return {name: environ[name] for name in names if environ.get(name)}


def _read_uv(environ: Mapping[str, str]) -> tuple[str, list[str], list[str]]:
    """Return default index, further ones, and links, as uv's own configuration names them."""
    default = environ.get("UV_DEFAULT_INDEX") or environ.get("UV_INDEX_URL") or ""
    extra = (environ.get("UV_INDEX") or environ.get("UV_EXTRA_INDEX_URL") or "").split()
    links = [each for each in re.split(r"[,\s]+", environ.get("UV_FIND_LINKS", "")) if each]
    own = environ.get("UV_CONFIG_FILE", "")
    files = [own] if own else [*_UV_FILES[:1], _under_configuration("uv/uv.toml", environ)]
    for name in reversed(files):
        values = _read_configuration(Path(name).expanduser(), tomllib.loads, "TOML") or {}
        pip: dict[str, Any] = values.get("pip", {}) if isinstance(values.get("pip"), dict) else {}
        for table in (values, pip):
            for index in table.get("index", ()):
                address = str(index.get("url", ""))
                spelled = f"{index['name']}={address}" if index.get("name") else address
                if index.get("default"):
                    default = default or spelled
                elif not index.get("explicit") and spelled not in extra:
                    extra.append(spelled)
            default = default or str(table.get("index-url", ""))
            extra += [each for each in map(str, table.get("extra-index-url", ())) if each not in extra]
            links += [each for each in map(str, table.get("find-links", ())) if each not in links]
    return default, extra, links


def _read_configuration(path: Path | str, parse: Callable[[str], T], syntax: str) -> T | None:
    """Return the parsed content of a file, or None without one. Raises ConfigurationError."""
    try:
        return parse(read_bounded(Path(path), _MAX_CONFIGURATION_BYTES).decode())
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, configparser.Error) as problem:
        why = problem.strerror if isinstance(problem, OSError) else f"it is not {syntax}"
        raise ConfigurationError(f"{path}: cannot be read: {why}") from None


def _under_configuration(name: str, environ: Mapping[str, str]) -> str:
    folder = environ.get("XDG_CONFIG_HOME") or f"{environ.get('HOME', '~')}/.config"
    return f"{folder}/{name}"


def _read_pip(environ: Mapping[str, str]) -> dict[str, str]:
    """Return pip's options by name, as its files and variables set them."""
    home = environ.get("HOME", "~")
    files = [name.replace("~", home, 1) for name in _PIP_FILES[:-1]]
    files.append(_under_configuration("pip/pip.conf", environ))
    named = environ.get("PIP_CONFIG_FILE", "")
    files = [] if named == os.devnull else [*files, *([named] if named else [])]
    found: dict[str, str] = {}
    for name in files:
        parser = configparser.RawConfigParser()
        _read_configuration(name, parser.read_string, "a configuration of pip")
        for section in ("global", "install"):
            if parser.has_section(section):
                found |= {key.replace("_", "-"): value for key, value in parser.items(section)}
    prefix = "PIP_"
    own = {
        name.removeprefix(prefix).lower().replace("_", "-"): value
        for name, value in environ.items()
        if name.startswith(prefix) and value
    }
    return found | own


def _add_netrc(index: str, environ: Mapping[str, str]) -> str:
    """Return an index with the credentials of the user's .netrc, unless it has its own."""
    parts = urlsplit(_cut_name(index))
    if parts.scheme not in {"http", "https"} or "@" in parts.netloc or _cut_name(index) != index:
        return index
    path = Path(environ.get("NETRC") or f"{environ.get('HOME', '~')}/.netrc").expanduser()
    try:
        found = netrc.netrc(str(path)).hosts.get(parts.hostname or "")
    except (OSError, netrc.NetrcParseError, ValueError):
        return index
    if found is None or not found[2]:
        return index
    from urllib.parse import quote

    login = f"{quote(found[0] or '', safe='')}:{quote(found[2], safe='')}"
    return urlunsplit(parts._replace(netloc=f"{login}@{parts.netloc}"))


@dataclass(frozen=True)
class NodeRegistries:
    """The registries of packages for Node.js."""

    default: str
    """DEFAULT for npm's own."""
    scopes: Mapping[str, str]
    """The registry of each scope, such as `@company`."""
    others: tuple[tuple[str, str], ...] = ()
    """Further settings of npm that concern connections; some contain credentials."""
    variables: Mapping[str, str] | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The addresses without credentials."""
        scoped = sorted(f"{scope}={strip_credentials(address)}" for scope, address in self.scopes.items())
        return (strip_credentials(self.default), *scoped)

    @property
    def is_local(self) -> bool:
        """Always false: a registry of npm is a server."""
        return False

    @property
    def readable(self) -> tuple[Path, ...]:
        """Files of this machine that the installation reads."""
        named = [Path(value) for name, value in self.others if name == "cafile"]
        named += [Path(value) for name, value in (self.variables or {}).items() if name in _CERTIFICATES]
        return tuple(path for path in named if path.exists())

    @property
    def secrets(self) -> list[str]:
        """Texts that no message may contain."""
        own = [value for name, value in self.others if name.rpartition(":")[2] in _NPM_AUTHORITY_KEYS[:-1]]
        proxies = [value for name, value in (self.variables or {}).items() if name.upper() in PROXY_VARIABLES]
        return [*own, *_list_secrets((self.default, *self.scopes.values(), *proxies))]

    @property
    def has_credentials(self) -> bool:
        """Whether the installation gets a secret."""
        return bool(self.secrets)

    def make_npmrc(self) -> str:
        """Return the configuration of the installation, which contains the credentials."""
        lines = [(f"{name}:registry", url) for name, url in self.scopes.items()]
        if self.default != DEFAULT:
            lines.append(("registry", self.default))
        return "".join(f"{name}={value}\n" for name, value in (*lines, *self.others))


def read_node(environ: Mapping[str, str], allowed: Sequence[str]) -> NodeRegistries:
    """Return the configured registries, as far as they are `allowed`; an empty list allows all.

    Raises PackagesError when the default one is not allowed, ConfigurationError for a file that cannot be read.
    """
    values: dict[str, str] = {}
    home = environ.get("HOME", "~")
    own = environ.get("npm_config_userconfig") or environ.get("NPM_CONFIG_USERCONFIG") or f"{home}/.npmrc"
    system = environ.get("npm_config_globalconfig") or environ.get("NPM_CONFIG_GLOBALCONFIG") or "/etc/npmrc"
    for name in (system, own):
        text = _read_configuration(Path(name).expanduser(), str, "UTF-8") or ""
        for line in text.splitlines():
            key, equals, value = line.strip().partition("=")
            if equals and not key.startswith(("#", ";")):
                plain = value.strip().strip("\"'")
                values[key.strip()] = _NPM_VARIABLE_PATTERN.sub(
                    lambda match: environ.get(match[1], ""), plain
                )
    if named := environ.get("npm_config_registry") or environ.get("NPM_CONFIG_REGISTRY"):
        values["registry"] = named
    permitted = set(map(_normalize, allowed))
    default = values.get("registry", DEFAULT)
    scopes = {key.partition(":")[0]: value for key, value in values.items() if key.endswith(":registry")}
    scopes = {scope: url for scope, url in scopes.items() if not permitted or _normalize(url) in permitted}
    if permitted and _normalize(default) not in permitted:
        raise _refuse_registries([strip_credentials(default)])
    others = [
        (key, value)
        for key, value in values.items()
        if (key.startswith("//") and key.rpartition(":")[2] in _NPM_AUTHORITY_KEYS)
        or key in {"cafile", "strict-ssl"}
    ]
    return NodeRegistries(default, scopes, tuple(others), _list_connection_variables(environ))


Registries = PythonRegistries | NodeRegistries


def read_registries(installer: str, environ: Mapping[str, str], allowed: Sequence[str]) -> Registries:
    """Return the registries of an installer. Raises as `read_python` and `read_node` do."""
    return (read_python if installer == "uv" else read_node)(environ, allowed)
