"""Proofs that a request was passed on by another replica."""

from itertools import pairwise

import pytest

from paddock.cluster.hops import MAX_AGE_S, HopRequest, Hops, ProofTimeError, read_nonce
from paddock.cluster.seals import Seals

OLD, NEW, OTHER = (bytes([each]) * 32 for each in b"onx")
HERE, THERE = "a" * 16, "b" * 16
REQUEST = HopRequest("POST", "/mcp?x=1", b"Bearer alice")


class Clock:
    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def make_pair(clock: Clock, sender: list[bytes], receiver: list[bytes]) -> tuple[Hops, Hops]:
    return Hops(HERE, Seals(sender), clock), Hops(THERE, Seals(receiver), clock)


def test_a_proof_is_accepted_once(clock: Clock) -> None:
    sender, receiver = make_pair(clock, [NEW], [NEW])
    proof = sender.sign(THERE, REQUEST)
    assert receiver.accept(proof, REQUEST)
    assert not receiver.accept(proof, REQUEST)
    assert receiver.accept(sender.sign(THERE, REQUEST), REQUEST)


@pytest.mark.parametrize(
    "request_",
    [
        REQUEST._replace(method="GET"),
        REQUEST._replace(path="/mcp"),
        REQUEST._replace(authorization=b"Bearer eve"),
    ],
)
def test_a_proof_holds_for_its_request_alone(clock: Clock, request_: HopRequest) -> None:
    sender, receiver = make_pair(clock, [NEW], [NEW])
    proof = sender.sign(THERE, REQUEST)
    assert not receiver.accept(proof, request_)
    assert receiver.accept(proof, REQUEST)


def test_a_proof_for_another_replica_is_refused(clock: Clock) -> None:
    sender, receiver = make_pair(clock, [NEW], [NEW])
    assert not receiver.accept(sender.sign(HERE, REQUEST), REQUEST)
    assert sender.accept(sender.sign(HERE, REQUEST), REQUEST)


def test_a_proof_has_a_nonce_that_its_sender_knows(clock: Clock) -> None:
    sender, receiver = make_pair(clock, [NEW], [NEW])
    proof = sender.sign(THERE, REQUEST)
    assert receiver.accept(proof, REQUEST) == read_nonce(proof)


def test_a_proof_gets_old(clock: Clock) -> None:
    sender, receiver = make_pair(clock, [NEW], [NEW])
    proofs = [sender.sign(THERE, REQUEST) for _ in range(2)]
    clock.now += MAX_AGE_S
    assert receiver.accept(proofs[0], REQUEST)
    clock.now += 1
    with pytest.raises(ProofTimeError) as refused:
        receiver.accept(proofs[1], REQUEST)
    assert refused.value.offset_s == -MAX_AGE_S - 1


def test_a_proof_of_another_key_is_not_judged_by_its_time(clock: Clock) -> None:
    """Otherwise a stranger could write to the log, and learn what time it is here."""
    sender, receiver = make_pair(clock, [OTHER], [NEW])
    proof = sender.sign(THERE, REQUEST)
    clock.now -= MAX_AGE_S + 1
    assert not receiver.accept(proof, REQUEST)


def test_a_proof_of_a_clock_that_is_ahead_is_not_accepted_twice(clock: Clock) -> None:
    sender, receiver = make_pair(clock, [NEW], [NEW])
    clock.now += MAX_AGE_S
    proof = sender.sign(THERE, REQUEST)
    clock.now -= MAX_AGE_S
    assert receiver.accept(proof, REQUEST)
    clock.now += 2 * MAX_AGE_S
    assert not receiver.accept(proof, REQUEST)


def test_keys_are_replaced_one_replica_after_the_other(clock: Clock) -> None:
    steps = [[OLD], [OLD, NEW], [NEW, OLD], [NEW]]
    for before, after in pairwise(steps):
        for one, other in ((before, after), (after, before)):
            sender, receiver = make_pair(clock, one, other)
            assert receiver.accept(sender.sign(THERE, REQUEST), REQUEST)
    sender, receiver = make_pair(clock, [OLD], [NEW])
    assert not receiver.accept(sender.sign(THERE, REQUEST), REQUEST)


@pytest.mark.parametrize(
    "forged",
    [
        b"",
        b"1",
        b"1800000000 " + b"0" * 32 + b" " + b"0" * 64,
        b"1800000000 " + b"0" * 32,
        b"-1 " + b"0" * 32 + b" " + b"0" * 64,
        b"\xd9\xa1800000000 " + b"0" * 32 + b" " + b"0" * 64,
        b"9" * 5000 + b" " + b"0" * 32 + b" " + b"0" * 64,
        b"\x00" * 100,
    ],
)
def test_a_forged_proof_is_refused(clock: Clock, forged: bytes) -> None:
    assert not Hops(HERE, Seals([NEW]), clock).accept(forged, REQUEST)


def test_a_proof_of_another_key_is_refused(clock: Clock) -> None:
    sender, receiver = make_pair(clock, [OTHER], [NEW])
    assert not receiver.accept(sender.sign(THERE, REQUEST), REQUEST)


def test_a_changed_proof_is_refused(clock: Clock) -> None:
    sender, receiver = make_pair(clock, [NEW], [NEW])
    at, nonce, mac = sender.sign(THERE, REQUEST).split()
    later = str(int(at) + 1).encode()
    assert not receiver.accept(b" ".join([later, nonce, mac]), REQUEST)
    assert not receiver.accept(b" ".join([at, nonce[::-1], mac]), REQUEST)
    assert receiver.accept(b" ".join([at, nonce, mac]), REQUEST)


def test_no_proof_is_accepted_while_too_many_are_remembered(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("paddock.cluster.hops.MAX_NONCES", 2)
    sender, receiver = make_pair(clock, [NEW], [NEW])
    accepted = [bool(receiver.accept(sender.sign(THERE, REQUEST), REQUEST)) for _ in range(3)]
    assert accepted == [True, True, False]
    clock.now += 2 * MAX_AGE_S + 1
    assert receiver.accept(sender.sign(THERE, REQUEST), REQUEST)


def test_a_clock_that_was_set_back_does_not_stop_the_forwarding(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was remembered before waits for the clock to catch up. What comes later does not wait behind it."""
    monkeypatch.setattr("paddock.cluster.hops.MAX_NONCES", 3)
    sender, receiver = make_pair(clock, [NEW], [NEW])
    before = sender.sign(THERE, REQUEST)
    assert receiver.accept(before, REQUEST)
    clock.now -= 3600
    for _ in range(10):
        proof = sender.sign(THERE, REQUEST)
        assert [bool(receiver.accept(proof, REQUEST)) for _ in range(2)] == [True, False]
        clock.now += 2 * MAX_AGE_S + 1
    clock.now += 3600 - 10 * (2 * MAX_AGE_S + 1)
    assert not receiver.accept(before, REQUEST)
