"""Proof that a request was passed on by another replica, which has checked it already.

    paddock-hop: TIME NONCE MAC        MAC: seal over target, method, path, authorization, TIME, NONCE

A request with a proof is not passed on again, its `Host` and `Origin` are not checked and it is not counted a second
time. It grants nothing else: its receiver checks the token of the caller itself. Therefore the body is not part of the
proof, and need not be in memory before it is sent.
"""

import hashlib
import re
import secrets
import time
from collections.abc import Callable
from heapq import heappop, heappush
from typing import NamedTuple

from paddock.cluster.seals import Seals

HEADER = b"paddock-hop"
OFFSET_HEADER = "paddock-hop-offset"
"""In an answer: the proof was refused for its time; its value is that of `ProofTimeError`."""
MAX_AGE_S = 30.0
"""Maximum age of a proof, in seconds. The clocks of two replicas may differ by less than that."""
MAX_NONCES = 100_000
"""Maximum number of proofs that are remembered, so that none is accepted twice. Beyond it, none is accepted."""
_PURPOSE = "hop"
_PROOF = re.compile(r"(\d{1,12}) ([0-9a-f]{32}) ([0-9a-f]{64})", re.ASCII)


class HopRequest(NamedTuple):
    """What a proof is about."""

    method: str
    path: str
    """Path and query, as they are sent."""
    authorization: bytes
    """Value of the header, which has the token of the caller."""


class ProofTimeError(Exception):
    """A proof of another replica has a time that is not accepted."""

    def __init__(self, offset_s: int) -> None:
        """`offset_s` tells how many seconds it is ahead of the clock of this replica; behind it if negative."""
        super().__init__()
        self.offset_s = offset_s


class Hops:
    """Signs and checks proofs of one replica."""

    def __init__(self, mark: str, seals: Seals, clock: Callable[[], float] = time.time) -> None:
        """Accept proofs for the replica `mark`. `seals` have keys. `clock` returns seconds since the epoch."""
        self._mark = mark
        self._seals = seals
        self._clock = clock
        self._seen: set[str] = set()
        self._ends: list[tuple[float, str]] = []
        """A heap: when each of them is too old. The clock may be set, so that a later one may come first."""

    def sign(self, target: str, request: HopRequest) -> bytes:
        """Return a new proof for the replica whose mark is `target`."""
        at, nonce = str(int(self._clock())), secrets.token_hex(16)
        mac = self._seals.seal(_PURPOSE, *_list_fields(target, request, at, nonce))
        assert mac is not None, "replicas have keys"
        return f"{at} {nonce} {mac.hex()}".encode()

    def accept(self, header: bytes, request: HopRequest) -> str:
        """Return the nonce of a proof that this replica was the target, for the first time; else an empty text.

        Raises ProofTimeError if only the time of the proof is wrong.
        """
        found = _PROOF.fullmatch(header.decode("latin-1"))
        if found is None:
            return ""
        at, nonce, mac = found.groups()
        fields, now = _list_fields(self._mark, request, at, nonce), self._clock()
        if not self._seals.accepts(bytes.fromhex(mac), _PURPOSE, *fields):
            return ""
        if abs(now - int(at)) > MAX_AGE_S:
            raise ProofTimeError(round(int(at) - now))
        while self._ends and self._ends[0][0] < now:
            self._seen.remove(heappop(self._ends)[1])
        if nonce in self._seen or len(self._seen) >= MAX_NONCES:
            return ""
        self._seen.add(nonce)
        heappush(self._ends, (int(at) + MAX_AGE_S, nonce))
        return nonce


def read_nonce(proof: bytes) -> str:
    """Return the nonce of a proof of this replica."""
    return proof.split()[1].decode()


def _list_fields(target: str, request: HopRequest, at: str, nonce: str) -> tuple[str, ...]:
    caller = hashlib.sha256(request.authorization).hexdigest()
    return target, request.method, request.path, caller, at, nonce
