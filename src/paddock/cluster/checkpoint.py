"""Checkpoints: signed statements about how far the chain of every node has come.

A checkpoint adds the heads that moved since the last one to a log, and signs the root of the log's Merkle tree. A root
commits to everything before it: no older checkpoint, and no line that a signed head covers, can be changed unnoticed.
The text is a tlog-checkpoint (c2sp.org/tlog-checkpoint) with three extension lines:

    <name of the log>
    <number of heads in the log>
    <root, base64>
    checkpoint <number, from 1>
    previous <root of the checkpoint before it, base64>
    time <UTC>

One head is one entry of the log: `<node> <chain> <seq> <hash>` and a newline. Within a checkpoint, heads are sorted by
node and chain, as bytes.
"""

import base64
import binascii
import re
from collections.abc import Iterable
from datetime import datetime
from typing import Final, NamedTuple, Self

from paddock.cluster.merkle import HASH_BYTES, MerkleTree
from paddock.cluster.signed_note import NoteError

EMPTY_ROOT: Final = MerkleTree().compute_root()
"""`previous` of the first checkpoint."""
_NUMBER_PATTERN = re.compile(r"0|[1-9][0-9]{0,17}")
_TIME_PATTERN = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z")
_NODE_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_CHAIN_PATTERN = re.compile(r"[0-9a-f]{16}")
_HASH_PATTERN = re.compile(r"[0-9a-f]{64}")


class ChainHead(NamedTuple):
    """The last record of a chain."""

    node: str
    chain: str
    seq: int
    hash: str

    def encode(self) -> bytes:
        """Return the entry in the log."""
        return f"{self.node} {self.chain} {self.seq} {self.hash}\n".encode()

    @classmethod
    def parse(cls, members: object) -> Self:
        """Return the head of a JSON array. Raises ValueError."""
        match members:
            case [str(node), str(chain), int(seq), str(hash_)] if (
                _NODE_PATTERN.fullmatch(node)
                and _CHAIN_PATTERN.fullmatch(chain)
                and 0 < seq < 2**63
                and _HASH_PATTERN.fullmatch(hash_)
            ):
                return cls(node, chain, seq, hash_)
            case _:
                raise ValueError("not a head of a chain")


class Checkpoint(NamedTuple):
    """The text of a checkpoint."""

    log: str
    size: int
    root: bytes
    number: int
    previous: bytes
    time: str

    def render(self) -> str:
        """Return the text to sign."""
        root, previous = (base64.b64encode(each).decode() for each in (self.root, self.previous))
        return (
            f"{self.log}\n{self.size}\n{root}\n"
            f"checkpoint {self.number}\nprevious {previous}\ntime {self.time}\n"
        )

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the checkpoint of a text. Raises NoteError."""
        wrong = "is not a checkpoint of a record"
        lines = text.split("\n")
        if len(lines) != 7:
            raise NoteError(wrong)
        log, size, root, number, previous, time, _ = lines
        labels = ("checkpoint ", "previous ", "time ")
        values = [
            line.removeprefix(label) for line, label in zip((number, previous, time), labels, strict=True)
        ]
        if not (
            _NUMBER_PATTERN.fullmatch(size)
            and _NUMBER_PATTERN.fullmatch(values[0])
            and _TIME_PATTERN.fullmatch(values[2])
        ):
            raise NoteError(wrong)
        try:
            datetime.fromisoformat(values[2])
        except ValueError:
            raise NoteError(wrong) from None
        made = cls(log, int(size), _decode(root), int(values[0]), _decode(values[1]), values[2])
        if made.render() != text:
            raise NoteError(wrong)
        return made


def add_heads(tree: MerkleTree, heads: Iterable[ChainHead]) -> None:
    """Add the heads of one checkpoint to the log."""
    for head in heads:
        tree.append(head.encode())


def _decode(text: str) -> bytes:
    try:
        data = base64.b64decode(text, validate=True)
    except binascii.Error:
        data = b""
    if len(data) != HASH_BYTES:
        raise NoteError("is not a checkpoint of a record")
    return data
