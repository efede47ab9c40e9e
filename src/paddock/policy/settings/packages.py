"""Settings of packages, `[packages]`."""

import os
import re
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Literal

from platformdirs import user_cache_path
from pydantic import Field

from paddock.model.base import Value
from paddock.model.limits import MIB, Maximum
from paddock.policy.settings.narrowing import (
    EARLIER,
    FEWER,
    SUPERSET,
    AllowedNames,
    OwnersPath,
    Permission,
    stricter,
)

_SEPARATORS_PATTERN = re.compile(r"[-_.]+")

Enabled = Literal["auto", "on", "ask", "off"]
ENABLED: tuple[Enabled, ...] = ("on", "auto", "ask", "off")
"""The values of `packages.enabled`, the weakest first."""


def find_store() -> Path:
    """Return the default directory of environments. Programs of root run as a user who cannot enter its home."""
    if os.geteuid() == 0 and "XDG_CACHE_HOME" not in os.environ:
        return Path("/var/cache/paddock/packages")
    return user_cache_path("paddock") / "packages"


class PackageSettings(Value):
    """`[packages]`: packages that programs ask for. A workspace may only narrow them."""

    enabled: Annotated[Enabled, stricter(*ENABLED)] = "auto"
    """Whether programs get packages: always (`on`), never (`off`), or after a person's approval (`ask`). `auto` asks,
    except for requests of the command line and the Python library. It always asks about requests that programs make."""
    allowed: AllowedNames = ("*",)
    """Packages that may be installed, also as a dependency of another one: names, or `*` for all."""
    denied: Annotated[tuple[str, ...], SUPERSET] = ()
    """Packages that may not be installed, also as a dependency of another one: globs over names."""
    network: Annotated[Literal["none", "hosts", "full"], stricter("full", "hosts", "none")] = "hosts"
    """Network of the installation: the hosts of the registries, and those that `[[network.rule]]` allows (`hosts`), or
    all of it (`full`). With `none`, only environments that are there already can be used, and registries that are
    directories of this machine."""
    registries: Annotated[tuple[str, ...], FEWER] = ()
    """Registries that packages may come from, by address, out of those that the configuration of the user and of the
    system names. An empty list allows all of these."""
    exclude_newer: Annotated[
        str, Field(pattern=r"^(\d{4}-\d\d-\d\d(T\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d))?)?$"), EARLIER
    ] = ""
    """Date, such as `2026-01-31`, after which published versions are ignored. Empty ignores none."""
    builds: Permission = False
    """Whether packages may run code of their own during the installation: build scripts, and install scripts of npm.
    That code is confined, and has the network of the installation. Environments in which it ran are not shared between
    users of a server."""
    max_bytes: Maximum = 2048 * MIB
    """Maximum size of one environment, in bytes."""
    cache_bytes: Maximum = 10 * 1024 * MIB
    """Maximum size of all environments together, in bytes. The least recently used ones are removed first."""
    timeout_ms: Maximum = 300_000
    """Maximum time of one installation, in milliseconds. It does not count towards the time of the program."""
    directory: OwnersPath = Field(default_factory=find_store)
    """Directory of environments; by default `paddock/packages` in the user's cache directory, and
    `/var/cache/paddock/packages` for root."""

    def find_objection(self, language: str, name: str) -> str:
        """Return the setting that does not allow a package, in the spelling of its registry; or ""."""
        spell = _spell_python if language == "python" else str.lower
        if any(fnmatchcase(spell(name), spell(pattern)) for pattern in self.denied):
            return "packages.denied"
        if "*" not in self.allowed and spell(name) not in map(spell, self.allowed):
            return "packages.allowed"
        return ""


def _spell_python(name: str) -> str:
    """Return a name, or a glob over names, as the index spells it (PEP 503)."""
    return _SEPARATORS_PATTERN.sub("-", name).lower()
