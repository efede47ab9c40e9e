"""The settings of one token: those of the server, narrowed by its policy, with directories of its user."""

import hashlib
from pathlib import Path
from typing import Any

from paddock.policy.settings.keys import assemble_settings, leaves
from paddock.policy.settings.loader import read_policy
from paddock.policy.settings.merge import RULES_KEY, narrow
from paddock.policy.settings.rules import Rule
from paddock.policy.settings.schema import Settings
from paddock.policy.settings.serve import ServeToken

USERS_DIRECTORY = "users"
"""Name of the directories that have a directory for each user."""
_KEY_CHARS = 32
_MAX_SPARE_WORKERS = 1
_NO_LEDGER = Rule(
    effect="deny", method="ledger.*", reason="the ledger has the records of all users", origin="server"
)


def make_user_key(actor: str) -> str:
    """Return the name of a user's directories: 128 bits of a hash, which no name of an actor can leave."""
    return hashlib.sha256(actor.encode()).hexdigest()[:_KEY_CHARS]


def find_approvals_directory(serve_directory: Path, key: str) -> Path:
    """Return the directory of a user's waiting questions."""
    return serve_directory / USERS_DIRECTORY / key / "approvals"


def narrow_settings(settings: Settings, token: ServeToken) -> Settings:
    """Return the settings of a token's session. Raises ConfigurationError if its policy would widen them."""
    narrowed = narrow(settings, read_policy(token.policy, f"token {token.name}"))
    values = leaves(narrowed)
    key = make_user_key(token.actor_name)
    own = narrowed.serve.directory / USERS_DIRECTORY / key
    changes: dict[str, Any] = {
        "approvals.directory": find_approvals_directory(narrowed.serve.directory, key),
        **_list_stores(narrowed, key),
        "sdk.signals": own / "signals.db",
        "sdk.webhooks": own / "webhooks.json",
        "sdk.temporals": own / "temporals",
        "guest.spare_workers": min(narrowed.guest.spare_workers, _MAX_SPARE_WORKERS),
        "serve.token": (),
        "workspace.directory": (),  # of the server's owner; two users would share a writable one
        "mcp.repos": (),  # each has its own settings, which no policy of a token narrows
        RULES_KEY: (*narrowed.policy.rule, _NO_LEDGER),
    }
    if token.max_jobs is not None:
        for name in ("runtimes.max_jobs", "tools.max_jobs", "guest.max_workers"):
            changes[name] = min(values[name], token.max_jobs)
    if token.max_sessions is not None:
        for name in ("sessions.max", "sessions.max_per_actor"):
            changes[name] = min(values[name], token.max_sessions)
    return assemble_settings(Settings, {**values, **changes})


def find_user_stores(settings: Settings, actor: str) -> Settings:
    """Return the settings of a server with the stores of one of its users, for its owner to read."""
    return assemble_settings(Settings, {**leaves(settings), **_list_stores(settings, make_user_key(actor))})


def _list_stores(settings: Settings, key: str) -> dict[str, Any]:
    """Return where the output, the change sets and the recordings of a user are."""
    stores: dict[str, Any] = {
        "artifacts.directory": settings.artifacts.directory / USERS_DIRECTORY / key,
        "overlay.directory": settings.overlay.directory / USERS_DIRECTORY / key,
        "record.directory": settings.record.directory / USERS_DIRECTORY / key,
    }
    if settings.artifacts.url is not None:
        stores["artifacts.url"] = f"{settings.artifacts.url.rstrip('/')}/{USERS_DIRECTORY}/{key}"
    return stores
