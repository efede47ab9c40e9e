"""The default name of a replica."""

import platform
import re

import pytest

from paddock.policy.settings.cluster import NODE_PATTERN, ClusterSettings


@pytest.mark.parametrize(
    ("host", "node"),
    [
        ("replica-1.example.com", "replica-1.example.com"),
        ("", "node"),
        ("\t\n", "node"),
        ("a\tb\\x\nc d", "abxcd"),
        ("_-.a_b", "a_b"),
        ("h\u00e4user", "huser"),
        ("x" * 64, "x" * 63),
    ],
)
def test_a_host_name_of_any_characters_becomes_the_name_of_a_node(
    monkeypatch: pytest.MonkeyPatch, host: str, node: str
) -> None:
    """It is a column of each record, and a word of each signed head."""
    monkeypatch.setattr(platform, "node", lambda: host)
    assert ClusterSettings().node == node
    assert re.fullmatch(NODE_PATTERN, node)
