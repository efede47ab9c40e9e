"""Second names of tools."""

from hypothesis import given
from hypothesis import strategies as st

from paddock.engines.servers.calls.call_checks import make_aliases


def test_a_name_that_is_no_identifier_has_an_alias():
    assert make_aliases(["get-sum", "a.b/c d", "2fa", "plain", "$ok"]) == {
        "get_sum": "get-sum",
        "a_b_c_d": "a.b/c d",
        "_2fa": "2fa",
    }


def test_an_alias_that_could_mean_two_tools_means_none():
    assert make_aliases(["get-sum", "get.sum", "x-y", "x_y"]) == {}


def test_what_is_not_seen_has_no_alias():
    assert make_aliases(["get\u200bsum", "gr\u00f6\u00dfe", "a\tb", ""]) == {}


@given(st.lists(st.text("ab-._2", max_size=4), max_size=8))
def test_aliases_are_identifiers_and_never_the_name_of_a_tool(names):
    found = make_aliases(names)
    assert all(alias.isidentifier() and alias not in names for alias in found)
    assert set(found.values()) <= set(names)
    assert len(set(found.values())) == len(found)
