"""How queries are split, and how the results of several become one list."""

import re
from math import sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.engines.servers.catalog.queries import (
    MAX_PIECES,
    MAX_QUERY_CHARS,
    default_limit,
    fuse_scores,
    interleave_lists,
    plan_queries,
    split_query,
    telling_words,
)

SENTENCES = st.lists(
    st.text(st.sampled_from("ab cd, and;:-.!?\n1)\u3002\"'"), max_size=60).map(str.strip), max_size=40
).map(" ".join)


@pytest.mark.parametrize(
    ("query", "pieces"),
    [
        ("", [""]),
        ("open issues", ["open issues"]),
        (
            "Read the report, then mail it to Anna and archive the file. Post a summary in the channel!",
            ["Read the report, then mail it to Anna and archive the file.", "Post a summary in the channel!"],
        ),
        ("Scale to v1.2 of file.txt e.g.now", ["Scale to v1.2 of file.txt e.g.now"]),
        (
            "First. Fetch the weather. Thanks. Send a mail. Bye.",
            ["First. Fetch the weather.", "Thanks. Send a mail. Bye."],
        ),
        (
            'He said "stop the build." Then restart it now.',
            ['He said "stop the build."', "Then restart it now."],
        ),
        (
            "Do this:\n1. list open issues\n2) close old issues\n- tell my whole team",
            ["Do this: 1. list open issues", "2) close old issues", "- tell my whole team"],
        ),
        ("a sentence that\ngoes on here", ["a sentence that\ngoes on here"]),
        ("first paragraph here\n \nsecond paragraph here", ["first paragraph here", "second paragraph here"]),
        ("天気 予報を見る。結果 を送る。", ["天気 予報を見る。", "結果 を送る。"]),
        ("?! ... .", ["?! ... ."]),
    ],
)
def test_a_query_is_split_at_the_ends_of_its_sentences(query, pieces):
    assert split_query(query) == pieces


def test_a_query_of_many_sentences_has_twelve_pieces_and_loses_nothing():
    query = " ".join(f"open door{number}." for number in range(30))
    pieces = split_query(query)
    assert pieces[:11] == [f"open door{number}." for number in range(11)]
    assert pieces[11:] == [" ".join(f"open door{number}." for number in range(11, 30))]


@given(SENTENCES | st.text(max_size=300), st.integers(1, MAX_PIECES))
def test_pieces_are_bounded_and_together_are_the_query(query, most):
    pieces = split_query(query, most)
    assert 1 <= len(pieces) <= most
    assert "".join("".join(pieces).split()) == "".join(query.split())


@given(st.text(st.characters(exclude_characters=".!?\n\u3002\uff01\uff1f"), max_size=300))
def test_nothing_but_the_end_of_a_sentence_splits(query):
    assert len(split_query(f"buy red apples, and sell green pears {query}")) == 1


@given(SENTENCES)
def test_every_piece_has_two_telling_words_or_stands_alone(query):
    pieces = split_query(query)
    assert len(pieces) == 1 or all(len(telling_words(piece)) >= 2 for piece in pieces)


@given(st.lists(st.text(max_size=400), max_size=12) | st.text(max_size=5_000))
def test_what_is_searched_for_is_bounded(queries):
    plan = plan_queries(queries)
    assert len(plan) == (1 if isinstance(queries, str) else len(queries))
    assert sum(map(len, plan)) <= max(MAX_PIECES, 1)
    assert sum(len(re.sub(r"\s", "", piece)) for pieces in plan for piece in pieces) <= MAX_QUERY_CHARS


def test_a_hostile_query_is_split_in_linear_time():
    for query in ("\n" * 100_000, ". " * 100_000, "1) \n" * 100_000, "\n\t" * 100_000):
        assert len(plan_queries(query)[0]) <= MAX_PIECES


def test_thirteen_queries_are_too_many():
    assert len(plan_queries(["x"] * 12)) == 12
    with pytest.raises(ValueError, match=r"^13 queries are too many: one search takes at most 12$"):
        plan_queries(["x"] * 13)


def test_by_default_each_query_has_room_for_two_tools():
    assert [default_limit("a b c d e"), *(default_limit(["x"] * n) for n in (1, 4, 5, 12))] == [
        8,
        8,
        8,
        10,
        24,
    ]


def test_the_scores_of_pieces_are_fused_by_the_best_of_each():
    fused = fuse_scores([{0: 4.0, 1: 2.0, 2: -1.0}, {1: 9.0, 3: 0.0}, {}, {2: -5.0}])
    assert fused == {0: sqrt(4), 1: sqrt(4) * 0.5**4 + sqrt(9)}


def test_a_single_piece_keeps_its_scores():
    assert fuse_scores([{0: 4.0, 1: -2.0, 2: 0.0}]) == {0: 4.0}
    assert fuse_scores([]) == {}


@given(st.lists(st.dictionaries(st.integers(0, 9), st.floats(-1e9, 1e9)), min_size=2, max_size=12))
def test_fused_scores_are_positive_numbers(pieces):
    fused = fuse_scores(pieces)
    assert set(fused) == {number for scores in pieces for number, score in scores.items() if score > 0}
    assert all(0 <= score <= sqrt(1e9) * 12 for score in fused.values())


def test_results_are_interleaved_by_rank_without_repeats():
    assert interleave_lists([[1, 2, 3], [2, 4], [], [1, 5, 6, 7]]) == [1, 2, 4, 5, 3, 6, 7]


@given(st.lists(st.lists(st.integers(0, 20), unique=True), max_size=12))
def test_interleaving_keeps_every_result_once_and_the_first_of_each_first(ranked):
    found = interleave_lists(ranked)
    assert sorted(found) == sorted({number for each in ranked for number in each})
    firsts = {each[0] for each in ranked if each}
    assert set(found[: len(firsts)]) == firsts
