"""The Merkle tree, against the recursive definition of RFC 6962."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.cluster.merkle import MerkleTree


def compute_root(entries: list[bytes]) -> bytes:
    """Follow the definition of RFC 6962, section 2.1, to the letter."""
    if not entries:
        return hashlib.sha256().digest()
    if len(entries) == 1:
        return hashlib.sha256(b"\x00" + entries[0]).digest()
    half = 1
    while half * 2 < len(entries):
        half *= 2
    return hashlib.sha256(b"\x01" + compute_root(entries[:half]) + compute_root(entries[half:])).digest()


@given(st.lists(st.binary(max_size=8), max_size=40))
def test_the_root_is_that_of_the_rfc_at_every_size(entries: list[bytes]) -> None:
    tree = MerkleTree()
    for number, entry in enumerate(entries):
        assert tree.compute_root() == compute_root(entries[:number])
        tree.append(entry)
    assert (tree.size, tree.compute_root()) == (len(entries), compute_root(entries))


@given(st.lists(st.binary(max_size=8), max_size=40), st.lists(st.binary(max_size=8), max_size=5))
def test_a_stored_tree_goes_on(before: list[bytes], after: list[bytes]) -> None:
    tree = MerkleTree()
    for entry in before:
        tree.append(entry)
    again = MerkleTree.decode(tree.size, tree.encode_subtrees())
    for entry in after:
        again.append(entry)
    assert again.compute_root() == compute_root([*before, *after])


@pytest.mark.parametrize(("size", "length"), [(0, 32), (1, 0), (3, 32), (4, 64), (5, 63), (-1, 32)])
def test_a_wrong_number_of_subtrees_is_refused(size: int, length: int) -> None:
    with pytest.raises(ValueError, match="are not the subtrees of a tree of"):
        MerkleTree.decode(size, bytes(length))
