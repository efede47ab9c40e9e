"""Which environment variables a child process may see: an allow-list, never our whole environment."""

from collections.abc import Mapping
from types import MappingProxyType

BASE = frozenset({"PATH", "HOME", "USER", "LOGNAME", "SHELL", "TMPDIR"})
"""Where programs are and where a user's files live. Nothing starts without them, none of them is a secret."""

LOCALE = frozenset({"LANG", "LANGUAGE", "TZ", "TERM"})
"""How text and time are shown; `LC_*` belongs here too. Without them tools fall back to ASCII."""

DIRECTORIES = frozenset({"XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"})
"""Directories only. `XDG_RUNTIME_DIR` stays out: it leads to the sockets of the user's session."""

LAUNCHERS = frozenset(
    {
        "npm_config_cache",
        "NPM_CONFIG_CACHE",
        "UV_CACHE_DIR",
        "UV_PYTHON_INSTALL_DIR",
        "UV_TOOL_DIR",
        "NVM_DIR",
    }
)
"""Cache and install directories of `npx` and `uvx`, or every start downloads again. Only directories:
registry addresses often hold a password."""

TRUST = frozenset({"SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE"})
"""Certificate authorities of the site; public by nature."""

INHERITED = BASE | LOCALE | DIRECTORIES | LAUNCHERS | TRUST
"""Left out on purpose: tokens and keys of every kind, proxy addresses (they hold passwords), and whatever
loads code into a child (`LD_PRELOAD`, `NODE_OPTIONS`, `PYTHONPATH`). A server that needs one of them gets it
by name from its own `env`."""


def is_inherited(name: str) -> bool:
    """Return whether a variable passes from our environment to a child's."""
    return name in INHERITED or name.startswith("LC_")


def child_environment(
    environ: Mapping[str, str], own: Mapping[str, str] = MappingProxyType({})
) -> dict[str, str]:
    """Return the environment of a child: the allowed part of `environ`, then the child's `own` variables.

    A value that looks like an exported shell function (`() {`) is dropped: an old shell would run it.
    """
    inherited = {
        name: value for name, value in environ.items() if is_inherited(name) and not value.startswith("()")
    }
    return {**inherited, **own}
