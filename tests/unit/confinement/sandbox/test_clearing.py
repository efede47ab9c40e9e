"""What a job leaves is removed, and the next job does not wait for it."""

import os
import socket

import pytest

from paddock.confinement.sandbox.child import service
from paddock.confinement.sandbox.child.fork_server import ForkServer


@pytest.fixture
def left(tmp_path):
    folder = tmp_path / "paddock-1" / "7"
    (folder / "tmp" / "deep").mkdir(parents=True)
    (folder / "tmp" / "file").touch()
    (folder / "tmp").chmod(0)
    folder.chmod(0)
    yield folder
    assert list(tmp_path.iterdir()) == [folder.parent]
    assert list(folder.parent.iterdir()) == []


def test_what_is_little_is_removed_at_once(left):
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        service.remove_scratch(str(left), ours)
        os.set_blocking(theirs.fileno(), False)
        with pytest.raises(BlockingIOError):
            theirs.recv(1)


def test_what_takes_long_is_moved_away_and_removed_by_the_zygote(left, monkeypatch):
    monkeypatch.setattr(service, "_REMOVE_WITHIN_S", -1)
    control, ours = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with control, ours:
        zygote = ForkServer(control)
        service.remove_scratch(str(left), zygote.for_supervisors)
        assert not os.path.lexists(left)
        assert zygote.serve_once(None)
        assert zygote.children == ("",)
        assert zygote.serve_once(None)
        assert zygote.children == ()
        zygote.close()


def test_where_there_is_no_zygote_any_more_it_is_removed_all_the_same(left, monkeypatch):
    monkeypatch.setattr(service, "_REMOVE_WITHIN_S", -1)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    theirs.close()
    with ours:
        service.remove_scratch(str(left), ours)
