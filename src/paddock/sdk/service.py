"""The methods of the SDK that Paddock itself answers: vault, signals, the ledger, health.

A method takes the arguments of the call, checks them, and returns a JSON value. It runs in a thread: none may hold up
the event loop, and none touches what belongs to it.
"""

import asyncio
from collections.abc import Callable, Mapping
from functools import cached_property
from inspect import signature
from typing import TYPE_CHECKING

from paddock.model.base import Json
from paddock.model.errors import SdkError
from paddock.model.request import ExecutionRequest, SdkCall
from paddock.model.settings import Settings
from paddock.policy.known import KnownSecrets
from paddock.sdk.requests import options_of

if TYPE_CHECKING:
    from paddock.store.signals import Signals
    from paddock.store.vault import Vault

_SCOPE = "global"

Method = Callable[..., Json]


class Services:
    """What answers `SdkCall`s in one session."""

    def __init__(self, settings: Settings, secrets: KnownSecrets) -> None:
        self._settings = settings
        self._secrets = secrets
        self._methods: Mapping[str, Method] = {
            "cir.capture": self._capture,
            "cir.contradictions": self._contradictions,
            "cir.query": self._query,
            "cir.search": self._search,
            "cir.stats": self._stats,
            "ledger.verify": self._verify,
            "vault.get": self._get_secret,
            "vault.list": self._list_secrets,
            "vault.set": self._set_secret,
        }

    @cached_property
    def _vault(self) -> "Vault":
        from paddock.store.vault import open_vault  # noqa: PLC0415 - only programs that use secrets pay for it

        return open_vault(self._settings.vault)

    @cached_property
    def _signals(self) -> "Signals":
        from paddock.store.signals import Signals  # noqa: PLC0415 - only programs that use signals pay for it

        return Signals(self._settings.sdk.signals)

    async def call(self, request: ExecutionRequest, work: SdkCall) -> Json:
        """Return the value of a call. Raises SdkError for misuse, other PaddockErrors for what failed."""
        del request
        method = self._methods.get(work.method)
        if method is None:
            raise SdkError(f"paddock.{work.method} is not there; there is {', '.join(sorted(self._methods))}")
        try:
            signature(method).bind(*work.arguments)
        except TypeError:
            count = len(work.arguments)
            raise SdkError(f"paddock.{work.method}: wrong number of arguments ({count})") from None
        return await asyncio.to_thread(method, *work.arguments)

    def _capture(self, body: Json, options: Json = None) -> Json:
        return self._signals.capture(_text("cir.capture", "body", body), options_of(options, "cir.capture"))

    def _contradictions(self) -> Json:
        return self._signals.contradictions()

    def _stats(self) -> Json:
        return self._signals.stats()

    def _query(self, options: Json = None) -> Json:
        return self._signals.query(options_of(options, "cir.query"))

    def _search(self, text: Json, options: Json = None) -> Json:
        return self._signals.search(_text("cir.search", "text", text), options_of(options, "cir.search"))

    def _verify(self) -> Json:
        from paddock.store.ledger_verify import verify  # noqa: PLC0415

        return verify(self._settings.audit.directory).model_dump(mode="json")

    def _get_secret(self, name: Json, options: Json = None) -> Json:
        value = self._vault.get(_scope("vault.get", options), _text("vault.get", "name", name))
        if value is not None:
            self._secrets.learn(value)
        return value

    def _set_secret(self, name: Json, value: Json, options: Json = None) -> Json:
        secret = _text("vault.set", "value", value)
        self._secrets.learn(secret)
        self._vault.set(_scope("vault.set", options), _text("vault.set", "name", name), secret)
        return None

    def _list_secrets(self, options: Json = None) -> Json:
        return self._vault.names(_scope("vault.list", options))


def _text(method: str, what: str, value: Json) -> str:
    if not isinstance(value, str):
        raise SdkError(f"paddock.{method}: {what} must be a string, not {type(value).__name__}")
    return value


def _scope(method: str, options: Json) -> str:
    wishes = options_of(options, method)
    scope = wishes.pop("scope", _SCOPE)
    if wishes:
        raise SdkError(f"paddock.{method}: unknown option {min(wishes)!r}; there is `scope`")
    return _text(method, "scope", scope)
