"""The keeper of the mounts makes the network of the next jail ahead. Where that fails, the running job loses nothing."""

import contextlib
import errno
import os
import socket

import pytest

from paddock.confinement.sandbox import spec
from paddock.confinement.sandbox.child import landlock, namespaces
from paddock.confinement.sandbox.child.messages import StartError
from paddock.model.process import ProcessGrants, ProcessLimits

SO_NETNS_COOKIE, COOKIE_BYTES = 71, 8
FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def report_network(channel, _spec):
    """Be the first process of a jail: send the cookie of its network, by which the kernel tells networks apart."""
    with socket.socket() as probe:
        channel.send(probe.getsockopt(socket.SOL_SOCKET, SO_NETNS_COOKIE, COOKIE_BYTES))
    os._exit(0)


def serve_one_call(files, _folders):
    os.write(files[0], b"served")
    os._exit(0)


@pytest.fixture
def make_root(open_path, monkeypatch):
    """Return a function that builds a root whose keeper cannot make the networks with these numbers."""
    with contextlib.ExitStack() as stack:

        def make(*failing):
            made = iter(range(100))
            enter = namespaces.enter_new_network

            def enter_or_fail():
                if next(made) in failing:
                    raise FULL
                enter()

            monkeypatch.setattr(namespaces, "enter_new_network", enter_or_fail)
            monkeypatch.setattr(namespaces, "serve_socket_calls", serve_one_call)
            (open_path / "jobs").mkdir()
            jail = spec.build_jail_spec(
                ProcessGrants(network="loopback"),
                ProcessLimits(),
                tier="namespaces",
                abi=landlock.read_abi_version(),
                scratch=open_path / "jobs" / "1",
                job_user=None,
                group="",
            )
            root = namespaces.MountRoot(jail, report_network)
            stack.callback(os.waitpid, root.pid, 0)
            stack.callback(root.close)
            return root

        yield make


def run_jail(root):
    """Return the cookie of the network of a new jail."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        pid = root.fork_jail(theirs)
        theirs.close()
        network = ours.recv(99)
        os.waitpid(pid, 0)
    return network


def run_broker(root):
    output, entry = os.pipe()
    try:
        os.waitpid(root.fork_broker([entry]), 0)
        return os.read(output, 99)
    finally:
        os.close(output)
        os.close(entry)


def test_without_a_next_network_the_job_gets_its_broker_and_the_next_jail_tries_again(make_root):
    root = make_root(1)
    first = run_jail(root)
    assert run_broker(root) == b"served"
    assert root.is_true()
    second = run_jail(root)
    assert root.is_true()
    assert len(first) == len(second) == COOKIE_BYTES
    assert second != first


def test_a_network_that_cannot_be_made_at_all_is_the_answer_to_the_next_jail(make_root):
    root = make_root(1, 2)
    run_jail(root)
    assert run_broker(root) == b"served"
    with pytest.raises(StartError) as refused:
        run_jail(root)
    assert str(refused.value) == f"namespaces: {FULL}"
    assert not root.is_true()
