"""The network of a job: the rules on hosts, what they decide, and the connections that were made or refused."""

from collections.abc import Mapping, Sequence
from ipaddress import ip_network
from typing import Annotated, Literal, NamedTuple, Self, cast, get_args
from urllib.parse import unquote

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from paddock.model.addresses import MAX_PORT
from paddock.model.approval import Effect
from paddock.model.base import Value, WholeNumber
from paddock.model.host_names import match_host, read_host_pattern
from paddock.model.late_pattern import compile_late
from paddock.model.limits import MIB, Maximum

Network = Literal["none", "loopback", "hosts", "full"]
NETWORKS: tuple[Network, ...] = get_args(Network)
"""Access of a program to the network, weakest first: none; its own network with only `127.0.0.1`; also the hosts that
the rules allow; all of it."""

HTTP_PORT, HTTPS_PORT = 80, 443
ORIGINS_THAT_GRANT = frozenset({"system", "user", ""})
"""Origins of rules that allow hosts. Rules of a workspace or a token can only narrow."""


def _check_network(text: str) -> str:
    try:
        return str(ip_network(text))
    except ValueError:
        raise ValueError(f'"{text}" is not a network such as 10.0.0.0/8') from None


HostPattern = Annotated[str, AfterValidator(read_host_pattern)]
"""A host, or `*.` and a name, in canonical form."""
Port = Annotated[WholeNumber, Field(ge=1, le=MAX_PORT)]


MAX_HOSTS = 100
"""Maximum number of hosts that one request names."""
Hosts = Annotated[tuple[HostPattern, ...], Field(min_length=1, max_length=MAX_HOSTS)]


_METHOD_PATTERN = r"^[A-Z]{1,32}$"
_HEADER_NAME_PATTERN = compile_late(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
_HEADER_VALUE_PATTERN = compile_late(r"[!-~]([ -~]*[!-~])?")
VAULT_PATTERN = compile_late(r"\$\{vault:([^}]*)\}")
"""A secret of the vault in the value of a header."""
_OWN_HEADERS = frozenset(
    {
        *(
            "host",
            "content-length",
            "transfer-encoding",
            "connection",
            "keep-alive",
            "te",
            "trailer",
            "upgrade",
        ),
        *("expect", "accept-encoding", "proxy-authorization", "proxy-connection"),
    }
)
"""Fields of a request that the proxy itself sets or drops."""


def _check_header(name: str) -> str:
    if not _HEADER_NAME_PATTERN.fullmatch(name) or name.lower() in _OWN_HEADERS:
        raise ValueError(f'"{name}" cannot be added to requests')
    return name


def _check_header_value(value: str) -> str:
    if not _HEADER_VALUE_PATTERN.fullmatch(value):
        raise ValueError("the value of a header is printable ASCII without a space at its ends")
    return value


def _list_pairs(given: object) -> object:
    return tuple(cast("Mapping[str, object]", given).items()) if isinstance(given, Mapping) else given


_HeaderName = Annotated[str, AfterValidator(_check_header)]
_HeaderValue = Annotated[str, AfterValidator(_check_header_value)]
Header = Annotated[tuple[tuple[_HeaderName, _HeaderValue], ...], BeforeValidator(_list_pairs)]
"""Names and values of header fields; a table in settings."""


def _check_path(pattern: str) -> str:
    if find_path_fault(pattern.removesuffix("*")) or "*" in pattern[:-1]:
        raise ValueError(
            f'"{pattern}" is not a path such as /v1/items, or /v1/* for all that begin with /v1/'
        )
    if ";" in unquote(pattern):
        raise ValueError(f'"{pattern}" has a ";"; write the path without parameters')
    return pattern


class HttpRequest(NamedTuple):
    """What rules may look at in a request of HTTP."""

    method: str
    target: str
    """Path and query, as they are sent."""


def find_path_fault(path: str) -> str:
    """Return why a path could mean another one to a server; "" if it cannot.

    Servers differ in how they read `..`, empty segments, parameters (`;`), encoded separators, what is encoded twice,
    and bytes that are not UTF-8.
    """
    try:
        plain = unquote(path, errors="strict")
    except UnicodeDecodeError:
        return "the path has encoded bytes that are not UTF-8"
    if not plain.startswith("/"):
        return "the path does not begin with /"
    for segments in (plain.split("/"), _remove_parameters(plain).split("/")):
        if any(each and not each.strip(". ") for each in segments) or "" in segments[1:-1]:
            return "the path has an empty segment, or one of dots"
    if not plain.isprintable() or set(plain) & set("%\\?#") or plain.count("/") != path.count("/"):
        return "the path has encoded separators, control characters or percent signs"
    return ""


def _remove_parameters(path: str) -> str:
    """Return a path without the parameters of its segments, which many servers ignore (RFC 3986, 3.3)."""
    return "/".join(segment.partition(";")[0] for segment in path.split("/"))


class NetworkRequest(Value):
    """The network that something asks for. A list of hosts as `network` is read as `hosts` and that list."""

    network: Network = "none"
    """Access to the network."""
    hosts: Hosts | None = None
    """With the network `hosts`: the only hosts to connect to; None for all that the rules allow."""

    @model_validator(mode="before")
    @classmethod
    def _read_list_of_hosts(cls, given: object) -> object:
        if not isinstance(given, Mapping):
            return given
        fields = cast("Mapping[str, object]", given)
        network = fields.get("network")
        if isinstance(network, str) and "." in network:
            raise ValueError(f'`network` names hosts in a list, such as ["{network}"]')
        if not isinstance(network, list | tuple):
            hosts = fields.get("hosts")
            return (
                {**fields, "hosts": tuple(cast("Sequence[object]", hosts))}
                if isinstance(hosts, list)
                else fields
            )
        if fields.get("hosts") is not None:
            raise ValueError("`network` has the list of hosts; leave out `hosts`")
        return {**fields, "network": "hosts", "hosts": tuple(cast("Sequence[object]", network))}

    @model_validator(mode="after")
    def _has_hosts_of_its_network(self) -> Self:
        if self.hosts is not None and self.network != "hosts":
            raise ValueError(f'`hosts` is for the network "hosts", not "{self.network}"')
        return self


class NetworkRule(Value):
    """One `[[network.rule]]`: which hosts programs with `network = "hosts"` may connect to."""

    host: HostPattern
    """Host that the rule concerns: a name, an IP address, or `*.example.com` for every name below `example.com`."""
    effect: Effect
    """What the rule does: `allow` allows connections, `ask` asks a person first, and `deny` refuses them. With
    `methods` or `paths`, `ask` asks about each method and path."""
    ports: tuple[Port, ...] = ()
    """Ports of the host. Without them, the rule concerns port 443, and with the effect `deny` every port."""
    addresses: tuple[Annotated[str, AfterValidator(_check_network)], ...] = ()
    """Networks, such as `10.0.0.0/8`, that the name may lead to in addition to public addresses."""
    methods: tuple[Annotated[str, Field(pattern=_METHOD_PATTERN)], ...] = ()
    """Methods of requests that the rule concerns, such as `GET`; all if it is empty. TLS is opened to see them."""
    paths: tuple[Annotated[str, AfterValidator(_check_path)], ...] = ()
    """Paths of requests that the rule concerns: `/v1/items`, or `/v1/*` for all that begin with `/v1/`; all if it is
    empty. TLS is opened to see them."""
    header: Header = ()
    """Header fields that are added to requests outside of the program, such as `Authorization`. `${vault:NAME}` in a
    value is a secret of the vault. TLS is opened to add them."""
    reason: str = ""
    """Reason for the refused program, and for the person who is asked."""
    origin: str = ""
    """The file of the rule; Paddock sets it, and a file must not contain it."""

    @property
    def is_conditional(self) -> bool:
        """Whether the rule concerns some requests to its host, and not others."""
        return bool(self.methods or self.paths)

    @property
    def inspects(self) -> bool:
        """Whether requests must be seen to follow the rule."""
        return self.is_conditional or bool(self.header)

    def concerns(self, host: str, port: int, request: HttpRequest | None = None) -> bool:
        """Return whether the rule concerns a port of a canonical host, and a request to it.

        Without a request, a rule that allows or asks about some requests concerns the host; one that denies some does
        not.
        """
        default = self.effect == "deny" or port == HTTPS_PORT
        if not (port in self.ports if self.ports else default) or not match_host(self.host, host):
            return False
        if request is None:
            return self.effect != "deny" or not self.is_conditional
        return (not self.methods or request.method in self.methods) and self._concerns_path(request)

    def _concerns_path(self, request: HttpRequest) -> bool:
        """Return whether the rule concerns the path of a request.

        Some servers ignore the parameters of a path, and others do not. A rule that allows must match both readings;
        for the others one is enough.
        """
        path = unquote(request.target.partition("?")[0], errors="replace")
        found = (
            any(_match_path(pattern, each) for pattern in self.paths)
            for each in (path, _remove_parameters(path))
        )
        return not self.paths or (all(found) if self.effect == "allow" else any(found))

    @model_validator(mode="after")
    def _has_what_its_effect_needs(self) -> Self:
        for name in ("addresses", "header"):
            if getattr(self, name) and self.effect == "deny":
                raise ValueError(f'`{name}` has no meaning with effect = "deny"; remove it')
        return self


def _match_path(pattern: str, path: str) -> bool:
    prefix = unquote(pattern.removesuffix("*"))
    return path.startswith(prefix) if pattern.endswith("*") else path == prefix


class NetworkLimits(Value):
    """Limits of all connections of one job together."""

    max_connections: Maximum = 64
    """Maximum number of connections of a program at the same time. Further ones wait."""
    max_rate: Maximum = 100
    """Maximum number of new connections of a program to hosts, per second. Further ones wait."""
    max_bytes: Maximum = 10 * 1024 * MIB
    """Maximum traffic of a program, both directions together, in bytes. After that, every connection is closed."""
    connect_timeout_ms: Maximum = 10_000
    """Maximum time to resolve a name and connect to a host, in milliseconds."""
    idle_timeout_ms: Maximum = 120_000
    """Time without traffic after which a connection is closed, in milliseconds. It is also the maximum time for the
    head of an HTTP request."""


class HostGrant(Value):
    """The hosts that one job may connect to, as policy decided: rules, narrowed to the names of the request."""

    rules: tuple[NetworkRule, ...] = ()
    """Rules of all files, in the order of the files (system, user, workspace)."""
    hosts: tuple[HostPattern, ...] | None = None
    """The only hosts that the request asked for; None for all that the rules allow."""


class HostDecision(Value):
    """What the rules decide on one port of one host."""

    effect: Effect
    """The effect: `ask` still needs the answer of a person."""
    rule: str = "default"
    """The deciding rule, for example `user network rule 2`."""
    reason: str = ""
    """Why it is refused and what would allow it, or why a person is asked."""
    networks: tuple[tuple[str, ...], ...] = ()
    """Networks that the host may lead to besides public addresses, by file. An address must be in one of each file."""
    asked_request: str = ""
    """With the effect `ask`: method and path that a person is asked about; empty for every request to the host."""
    inspects: bool = False
    """Whether each request must be seen: TLS is opened."""
    header: Header = ()
    """Header fields that are added to the request, with the names of secrets in their values."""


class Connection(Value):
    """One connection of a job to a host, or one that was refused.

    It contains neither queries nor content, and paths only in its reason.
    """

    host: str
    """The host, as the rules know it; for an invalid one, its printable text."""
    port: int
    """Its port; 0 if the request named none."""
    address: str = ""
    """The address that was connected to; empty for none, and if another proxy resolved the name."""
    verdict: Literal["allowed", "refused"]
    """Whether the rules allowed it. An allowed one may have failed; then `reason` says why."""
    rule: str = ""
    """The deciding rule."""
    reason: str = ""
    """Why it was refused or failed, and what to do; empty for a connection that worked."""
    sent_bytes: int = 0
    """Bytes from the job to the host."""
    received_bytes: int = 0
    """Bytes from the host to the job."""
    wall_ms: float = 0.0
    """Time from the request to the end of the connection, in milliseconds."""
