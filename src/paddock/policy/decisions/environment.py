"""Environment variables that a child process may see: an allow-list, never Paddock's whole environment."""

from collections.abc import Mapping
from types import MappingProxyType

BASE = frozenset({"PATH", "HOME", "USER", "LOGNAME", "SHELL", "TMPDIR"})
"""Where programs and a user's files are. Nothing starts without them, and none of them is a secret."""

LOCALE = frozenset({"LANG", "LANGUAGE", "TZ", "TERM"})
"""How text and time are displayed; `LC_*` belongs here, too. Without them programs use ASCII."""

DIRECTORIES = frozenset({"XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"})
"""Only directories. `XDG_RUNTIME_DIR` is excluded, because it leads to the sockets of the user's session."""

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
"""Cache and install directories of `npx` and `uvx`; otherwise every start would download again. Only directories:
registry addresses often contain a password.
"""

TRUST = frozenset(
    {
        "SSL_CERT_FILE",
        "SSL_CERT_DIR",
        "CARGO_HTTP_CAINFO",
        "CURL_CA_BUNDLE",
        "GIT_SSL_CAINFO",
        "NODE_EXTRA_CA_CERTS",
        "PIP_CERT",
        "REQUESTS_CA_BUNDLE",
    }
)
"""Certificate authorities of the site; these are public."""

INHERITED = BASE | LOCALE | DIRECTORIES | LAUNCHERS | TRUST
"""Excluded: tokens and keys of every kind, proxy addresses (they contain passwords), and variables that load code into
a child (`LD_PRELOAD`, `NODE_OPTIONS`, `PYTHONPATH`). A server that needs one of them names it in its own `env`.
"""


def is_inherited(name: str) -> bool:
    """Return whether a child inherits a variable."""
    return name in INHERITED or name.startswith("LC_")


def child_environment(
    environ: Mapping[str, str], own: Mapping[str, str] = MappingProxyType({})
) -> dict[str, str]:
    """Return the environment of a child: the allowed part of `environ`, then the child's `own` variables.

    A value that looks like an exported shell function (`() {`) is dropped, because an old shell would run it.
    """
    inherited = {
        name: value for name, value in environ.items() if is_inherited(name) and not value.startswith("()")
    }
    return {**inherited, **own}
