"""Webhooks of a server's owner, to which the questions of its users go."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from paddock.engines.sdk import post
from paddock.engines.sdk.service import Services, SessionFacts
from paddock.engines.secrets.vault import FileVault
from paddock.model.request import ExecutionRequest, SdkCall
from paddock.policy.redaction.known import KnownSecrets
from paddock.policy.settings.schema import SdkSettings, Settings, VaultSettings


def write_webhook(file: Path, id_: str, event: str) -> SdkSettings:
    """Write the file of one webhook; return settings with it."""
    secret = {"scope": "webhooks", "name": id_}
    file.write_text(json.dumps({id_: {"event": event, "url": f"https://{id_}.example/", "secret": secret}}))
    return SdkSettings(webhooks=file)


@pytest.mark.parametrize(
    ("event", "found"),
    [("approval.waiting", ["users", "owners"]), ("script.finished", [])],
)
def test_questions_go_to_the_webhooks_of_the_owner_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, event: str, found: list[str]
) -> None:
    vault = FileVault(tmp_path / "vault")
    for id_ in ("users", "owners"):
        vault.set("webhooks", id_, "a-secret-of-some-length")
    users = write_webhook(tmp_path / "users.json", "users", "approval.waiting")
    owners = write_webhook(tmp_path / "owners.json", "owners", "approval.waiting")
    settings = Settings(sdk=users, vault=VaultSettings(backend="file", directory=tmp_path / "vault"))
    unused: Any = None
    facts = SessionFacts(*[unused] * 6, hide=lambda value: value, owner=owners)
    services = Services(settings, KnownSecrets(), facts)
    assert services.webhooks_of(event) == found
    sent: list[str] = []

    async def send(url: Any, *_: object) -> int:
        sent.append(str(url))
        return 204

    monkeypatch.setattr(post, "send_post", send)
    for id_ in found:
        work = SdkCall(method="webhook.deliver", arguments=(id_, event, {}))
        request = ExecutionRequest(workspace=tmp_path, work=work)
        answer = asyncio.run(services.call(request, work, unused))
        assert answer == {"id": id_, "status": 204, "tries": 1}
    assert sent == [f"https://{id_}.example/" for id_ in found]
