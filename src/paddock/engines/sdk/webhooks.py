"""Webhooks: addresses that receive messages about events, each message signed (https://www.standardwebhooks.com).

A webhook has an id. Its secret is in the vault, under the webhook's id or under a name that its owner chose; the file
of webhooks contains only the reference.
"""

import asyncio
import base64
import binascii
import hashlib
import hmac
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast, get_args

from paddock.foundation.files import JsonFile
from paddock.model.base import Json
from paddock.model.errors import SdkError, SdkFailed
from paddock.model.ids import new_id
from paddock.model.numbers import dumps
from paddock.model.outcome import Status
from paddock.policy.redaction.known import KnownSecrets

if TYPE_CHECKING:
    from paddock.engines.secrets.vault import Vault

Event = Literal["script.finished", "sequence.finished", "signal.captured", "notification", "approval.waiting"]
SCOPE = "webhooks"
MAX_WEBHOOKS = 50
SECRET_CHARS = 16
BODY_BYTES = 256 * 1024
MAX_TRIES = 3
_RETRY_DELAY_S = 0.5
_WEBHOOK_PREFIX = "whsec_"

Found = dict[str, Any]


class Webhooks:
    """The webhooks in one file. All methods except `deliver_event` may block; run them in a thread."""

    def __init__(
        self,
        file: Path,
        networks: tuple[str, ...],
        vault: "Callable[[], Vault]",
        secrets: KnownSecrets,
        hide: Callable[[Json], Json],
    ) -> None:
        self._kept = JsonFile(file)
        self._networks = networks
        self._vault = vault
        self._secrets = secrets
        self._hide = hide

    def list_ids(self, event: str) -> list[str]:
        """Return the ids of an event's webhooks."""
        return [id_ for id_, found in self._kept.look().items() if found["event"] == event]

    def register_webhook(self, event: Json, url: Json, secret: Json) -> dict[str, Json]:
        """Store a webhook and return `{id}`. The secret is a text, or `{vault: NAME}`. Raises SdkError."""
        from paddock.engines.sdk.post import check_url  # importing its client takes 50 ms

        if event not in get_args(Event):
            raise SdkError(f"paddock.webhook.register: event must be one of {', '.join(get_args(Event))}")
        if not isinstance(url, str):
            raise SdkError("paddock.webhook.register: the url must be a string")
        address = str(check_url(url))
        id_ = new_id().lower()
        reference = self._find_reference(secret)
        if reference is None:
            reference = {"scope": SCOPE, "name": id_}
            self._vault().set(SCOPE, id_, str(secret))

        def add(held: Found) -> None:
            if len(held) >= MAX_WEBHOOKS:
                raise SdkError(f"there are already {MAX_WEBHOOKS} webhooks; delete one")
            held[id_] = {"event": event, "url": address, "secret": reference}

        self._kept.update(add)
        return {"id": id_}

    def _find_reference(self, secret: Json) -> dict[str, str] | None:
        """Return the reference of a stored secret, None for a given one. Raises SdkError for a weak one."""
        if isinstance(secret, dict):
            given = cast("dict[str, Json]", secret)
            name, scope = given.get("vault"), given.get("scope", "global")
            if not isinstance(name, str) or not isinstance(scope, str) or given.keys() - {"vault", "scope"}:
                raise SdkError(
                    "paddock.webhook.register: a secret of the vault must be {vault: NAME, scope: SCOPE}"
                )
            self._read_secret("paddock.webhook.register", {"scope": scope, "name": name})
            return {"scope": scope, "name": name}
        if not isinstance(secret, str) or len(secret) < SECRET_CHARS:
            message = f"the secret must have at least {SECRET_CHARS} characters; make one with: openssl rand -hex 32"
            raise SdkError(f"paddock.webhook.register: {message}")
        return None

    def list_webhooks(self) -> list[dict[str, Json]]:
        """Return `{id, event, url}` of every webhook."""
        found = self._kept.read()
        return [{"id": id_, "event": each["event"], "url": each["url"]} for id_, each in found.items()]

    def delete_webhook(self, id_: Json) -> bool:
        """Delete a webhook, and its secret unless that is stored elsewhere; return whether it existed."""
        found = self._kept.update(lambda held: held.pop(str(id_), None))
        if found is not None and found["secret"] == {"scope": SCOPE, "name": str(id_)}:
            self._vault().delete(SCOPE, str(id_))
        return found is not None

    async def deliver_event(self, id_: str, event: str, data: Json) -> dict[str, Json]:
        """Send an event to a webhook and return `{id, status, tries}`. Raises SdkError, SdkFailed."""
        from paddock.engines.sdk.post import NotSentError, check_url, send_post

        found, secret = await asyncio.to_thread(self._read_webhook, id_)
        moment = int(time.time())
        event_fields = {"type": event, "timestamp": moment, "data": self._hide(data)}
        body = dumps(event_fields, separators=(",", ":")).encode()
        if len(body) > BODY_BYTES:
            raise SdkError(f"webhook {id_}: the message is over {BODY_BYTES} bytes")
        message = new_id().lower()
        headers = {
            "content-type": "application/json",
            "user-agent": "paddock",
            "webhook-id": message,
            "webhook-timestamp": str(moment),
            "webhook-signature": sign_body(secret, message, moment, body),
        }
        for tried in range(1, MAX_TRIES + 1):
            try:
                status = await send_post(check_url(found["url"]), body, headers, self._networks)
            except NotSentError as why:
                if not why.retryable or tried == MAX_TRIES:
                    raise SdkFailed(f"webhook {id_}: {why}", Status.FAILED, "WebhookError") from None
                await asyncio.sleep(_RETRY_DELAY_S * 2**tried)
            else:
                return {"id": id_, "status": status, "tries": tried}
        raise AssertionError

    def _read_webhook(self, id_: str) -> tuple[Found, str]:
        found = self._kept.read().get(id_)
        if found is None:
            raise SdkError(f"there is no webhook {id_[:64]}; paddock.webhook.list() shows them")
        return found, self._read_secret(f"webhook {id_}", found["secret"])

    def _read_secret(self, who: str, reference: Mapping[str, str]) -> str:
        secret = self._vault().get(reference["scope"], reference["name"])
        if secret is None:
            name = reference["name"]
            raise SdkError(f"{who}: there is no secret {name}; store it with: paddock vault set {name}")
        self._secrets.learn(secret)
        if len(secret) < SECRET_CHARS:
            raise SdkError(f"{who}: the secret has fewer than {SECRET_CHARS} characters")
        return secret


def sign_body(secret: str, message: str, moment: int, body: bytes) -> str:
    """Return `v1,` and the HMAC-SHA256 of id, time and body; a secret that begins with `whsec_` is base64."""
    key = secret.encode()
    if secret.startswith(_WEBHOOK_PREFIX):
        try:
            key = base64.b64decode(secret.removeprefix(_WEBHOOK_PREFIX), validate=True)
        except binascii.Error:
            key = secret.encode()
    signed = f"{message}.{moment}.".encode() + body
    return "v1," + base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()
