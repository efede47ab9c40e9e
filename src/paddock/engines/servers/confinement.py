"""What a confined server may use: `"paddock": {"confine": {...}}` in its entry of a servers file."""

import os
from dataclasses import dataclass
from pathlib import PurePath
from typing import Annotated, cast

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict

from paddock.model.base import Json
from paddock.model.host_names import read_host_pattern
from paddock.model.network import MAX_HOSTS, Network

_WORDS: tuple[Network, ...] = ("none", "loopback", "full")
_NETWORK_RULE = f"must be one of {', '.join(_WORDS)}, or a list of hosts"
_WRITE_RULE = 'must be one directory of the workspace, such as ["data"], or ["."] for the whole workspace'


@dataclass(frozen=True, slots=True)
class Confinement:
    """The grants of a confined server. Whatever is not named here is refused."""

    network: Network = "none"
    """Its network; with `hosts`, only `hosts`."""
    hosts: tuple[str, ...] = ()
    """Hosts that it may connect to, or `*.` and a name, in canonical form."""
    read: tuple[str, ...] = ()
    """Paths to read: relative to the workspace, absolute, or below `~`."""
    write: str | None = None
    """The directory to write to, relative to the workspace; None for none."""

    def as_json(self) -> dict[str, Json]:
        """Return the value of `confine` in an entry."""
        network: Json = list(self.hosts) if self.network == "hosts" else self.network
        write: list[Json] = [] if self.write is None else [self.write]
        return {"network": network, "read": list(self.read), "write": write}

    def describe(self) -> str:
        """Return the grants in one line for people."""
        network = ", ".join(self.hosts) if self.network == "hosts" else self.network
        return f"network {network}; read {', '.join(self.read) or 'nothing'}; write {self.write or 'nothing'}"


def _read_network(value: object) -> tuple[Network, tuple[str, ...]]:
    for word in _WORDS:
        if value == word:
            return word, ()
    if not isinstance(value, list):
        raise ValueError(_NETWORK_RULE)  # noqa: TRY004 - pydantic reports ValueError
    hosts = cast("list[object]", value)
    if not 0 < len(hosts) <= MAX_HOSTS:
        raise ValueError(f'must name 1 to {MAX_HOSTS} hosts; write "none" for no network')
    texts = [host for host in hosts if isinstance(host, str)]
    if len(texts) < len(hosts):
        raise ValueError('must be a list of hosts in "quotes"')
    return "hosts", tuple(dict.fromkeys(map(read_host_pattern, texts)))


def _check_read(paths: list[str]) -> list[str]:
    for path in paths:
        _check_path(path)
        if not path.startswith(("/", "~/")):
            _check_inside(path)
    return paths


def _check_write(paths: list[str]) -> list[str]:
    if len(paths) > 1:
        raise ValueError(_WRITE_RULE)
    for path in paths:
        _check_path(path)
        _check_inside(path)
        if any(part.startswith(".") for part in PurePath(path).parts):
            raise ValueError(
                f"{path!r} cannot be granted: programs of the user read settings in directories that begin with a "
                "dot; grant another directory"
            )
    return paths


def _check_path(path: str) -> None:
    if not path or not path.isprintable():
        raise ValueError("must be a list of paths; one is empty or contains a control character")


def _check_inside(path: str) -> None:
    if os.path.isabs(path) or path.startswith("~") or ".." in PurePath(path).parts:
        raise ValueError(f"{path!r} must be a path inside of the workspace, without `..`")


class _ConfineEntry(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", hide_input_in_errors=True)

    network: Annotated[object, AfterValidator(_read_network)] = ("none", ())
    read: Annotated[list[str], AfterValidator(_check_read)] = []
    write: Annotated[list[str], AfterValidator(_check_write)] = []

    def make_confinement(self) -> Confinement:
        """Return the grants."""
        network, hosts = cast("tuple[Network, tuple[str, ...]]", self.network)
        return Confinement(network, hosts, tuple(self.read), *self.write)


class PaddockEntry(BaseModel):
    """The member `paddock` of an entry. Unknown members are refused: a misspelled `confine` would confine nothing."""

    model_config = ConfigDict(strict=True, extra="forbid", hide_input_in_errors=True)

    confine: _ConfineEntry = _ConfineEntry()

    @property
    def confinement(self) -> Confinement | None:
        """The grants; None for a server that is not confined."""
        return self.confine.make_confinement() if "confine" in self.model_fields_set else None


def _refuse(_: object) -> object:
    raise ValueError('belongs into `paddock`: write "paddock": {"confine": {...}}')


MisplacedConfine = Annotated[None, BeforeValidator(_refuse)]
"""A member `confine` beside `command`: ignored as the keys of other programs are, the server would not be confined."""
