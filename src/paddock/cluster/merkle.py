"""The Merkle tree of RFC 6962, section 2.1, for a log that only grows."""

import hashlib
from collections.abc import Iterable
from typing import Final, Self

HASH_BYTES: Final = 32


class MerkleTree:
    """Keeps what is needed to add entries and to compute the root: one hash for each complete subtree.

    A tree of `size` entries consists of one complete subtree for each bit that is set in `size`, the largest one first.
    """

    def __init__(self, size: int = 0, subtrees: Iterable[bytes] = ()) -> None:
        self.size = size
        self._subtrees = list(subtrees)

    def append(self, entry: bytes) -> None:
        """Add an entry to the log."""
        node = hashlib.sha256(b"\x00" + entry).digest()
        full = self.size
        while full & 1:  # the subtree of the same size is complete, too
            node = _join(self._subtrees.pop(), node)
            full >>= 1
        self._subtrees.append(node)
        self.size += 1

    def compute_root(self) -> bytes:
        """Return the root of all entries."""
        if not self._subtrees:
            return hashlib.sha256().digest()
        *others, root = self._subtrees
        for subtree in reversed(others):
            root = _join(subtree, root)
        return root

    def encode_subtrees(self) -> bytes:
        """Return what `decode` needs besides the size."""
        return b"".join(self._subtrees)

    @classmethod
    def decode(cls, size: int, data: bytes) -> Self:
        """Return the tree of a size with these subtrees. Raises ValueError if their number is wrong."""
        if size < 0 or len(data) != size.bit_count() * HASH_BYTES:
            raise ValueError(f"{len(data)} bytes are not the subtrees of a tree of {size} entries")
        return cls(size, (data[at : at + HASH_BYTES] for at in range(0, len(data), HASH_BYTES)))

    @classmethod
    def restore(cls, size: int, data: bytes, root: bytes) -> Self | None:
        """Return the tree of a size with these subtrees; None unless its root is `root`."""
        try:
            tree = cls.decode(size, data)
        except ValueError:
            return None
        return tree if tree.compute_root() == root else None


def _join(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(b"\x01" + left + right).digest()
