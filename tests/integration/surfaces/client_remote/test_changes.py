"""What a session on a server changed is accepted, undone and discarded by the library's methods."""

from pathlib import Path

import pytest
from tests.support.http_api import TOKEN, ApiPlace

from paddock import BlockingPaddock, ChangesNotFound, Status

UNKNOWN = f"changes-{'0' * 32}"


def test_changes_of_a_session_on_a_server(place: ApiPlace) -> None:
    place.settings(
        '[runtimes]\naccess = "overlay"\n[[policy.rule]]\nchanges = "*"\neffect = "allow"\nreason = "a test"\n'
    )
    file = place.workspace / "new.txt"
    with place.serve() as server, BlockingPaddock.connect(server.url, token=TOKEN) as p:
        with p.session("python", access="overlay") as s:
            s.run(write_code(place.workspace)).check()
            changed = s.changes()
            assert changed is not None
            assert (changed.added, file.exists()) == (2, False)
            accepted = s.accept("new.txt").check().value
            assert accepted == {
                "id": changed.id,
                "action": "accept",
                "paths": ["new.txt"],
                "unchanged": [],
                "merged": [],
                "left": [],
                "conflicts": [],
            }
            assert file.read_text() == "new\n"
            file.write_text("mine\n")
            conflict = p.undo_changes(changed.id)
            assert (conflict.status, conflict.error and conflict.error.name) == (
                Status.FAILED,
                "ChangesConflict",
            )
            file.write_text("new\n")
            p.undo_changes(changed.id, "new.txt").check()
            assert not file.exists()
            assert s.discard().check().value == {"id": changed.id, "action": "discard"}
        for settle in (p.accept_changes, p.undo_changes, p.discard_changes):
            with pytest.raises(ChangesNotFound) as raised:
                settle(UNKNOWN)
            assert str(raised.value) == (
                f"Change set not found: '{UNKNOWN}'; `paddock changes list` shows those of a workspace."
            )


def test_a_refusal_of_policy_is_an_outcome(place: ApiPlace) -> None:
    place.settings(
        '[runtimes]\naccess = "overlay"\n[[policy.rule]]\nchanges = "accept"\neffect = "deny"\nreason = "not here"\n'
    )
    with place.serve() as server, BlockingPaddock.connect(server.url, token=TOKEN) as p:
        outcome = p.exec("python", write_code(place.workspace), access="overlay").check()
        assert outcome.changes is not None
        refused = p.accept_changes(outcome.changes.id)
    assert (refused.status, refused.error and refused.error.message) == (Status.DENIED, "not here")


def write_code(folder: Path) -> str:
    """Return a program that adds two files to the workspace."""
    return (
        f"import os; os.chdir(os.environ.get('PADDOCK_WORKSPACE', {str(folder)!r}))\n"
        "for name in ('new.txt', 'other.txt'):\n    open(name, 'w').write('new\\n')"
    )
