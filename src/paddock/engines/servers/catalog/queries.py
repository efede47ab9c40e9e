"""Queries as text: their words, the sentences of a long one, and the combination of several results.

If a task of several steps is searched as one text, the words of one step outweigh the others and few of its tools are
found. Therefore a caller gives one short query for each step, and the results are interleaved by rank. One long query
is split at the ends of its sentences, and the scores of its pieces are combined.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest
from math import sqrt

MAX_QUERIES = 12
"""Maximum number of queries of one search."""
MAX_PIECES = 12
"""Maximum number of pieces of all queries of one search."""
MAX_QUERY_CHARS = 4_000
"""Maximum length of all queries of one search, in characters."""
_DEFAULT_RESULTS = 8
_RESULTS_PER_QUERY = 2
_MIN_SEARCH_WORDS = 2
"""Minimum number of words in a piece. A shorter one is joined to the next: "1." or "First of all." finds nothing."""

_WORD_SEAM_PATTERN = re.compile(
    r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|(?<=[A-Za-z])(?=\d)|(?<=\d)(?=[A-Za-z])"
)
_WORD_PATTERN = re.compile(r"[^\W_]+")
_SENTENCE_END = re.compile(
    r"""
    (?<=[.!?])\s            # the period of "v1.2" ends no sentence
    | (?<=[.!?]["')\]])\s
    | (?<=[\u3002\uff01\uff1f])   # Chinese and Japanese marks, without a space behind them
    | \n(?=[ \t\r]*\n)            # a paragraph
    | \n(?=[ \t]*(?:[-*•]|\d{1,2}[.)])\s)   # an item of a list; other line ends may be inside a sentence
    """,
    re.VERBOSE,
)
_FILLER_WORDS = frozenset(
    "a an and are as at be by can do does for from get give have how i in into is it its let me my of on or our out"  # noqa: SIM905 - words
    " please show so some tell that the their them then there this to us use want was we what when where which who"
    " will with would you your".split()
)
"""Frequent words of questions that do not describe a tool. `get` is one, because every other tool's name begins with
it.
"""


def split_words(text: str) -> list[str]:
    """Return the words of a name or text in lower case, split at case changes, digits, underscores and marks."""
    return _WORD_PATTERN.findall(_WORD_SEAM_PATTERN.sub(" ", text).lower())


def telling_words(query: str) -> list[str]:
    """Return the distinct words of a query; its filler words only if there are no others."""
    found = dict.fromkeys(split_words(query))
    return [word for word in found if word not in _FILLER_WORDS] or list(found)


def default_limit(queries: str | Sequence[str]) -> int:
    """Return the default number of results: 8, and at least 2 for each query."""
    return (
        _DEFAULT_RESULTS
        if isinstance(queries, str)
        else max(_DEFAULT_RESULTS, _RESULTS_PER_QUERY * len(queries))
    )


def plan_queries(queries: str | Sequence[str]) -> list[list[str]]:
    """Return the pieces of each query. Several queries share the limits on characters and pieces.

    Raises ValueError for more than MAX_QUERIES queries.
    """
    asked = [queries] if isinstance(queries, str) else list(queries)
    if len(asked) > MAX_QUERIES:
        raise ValueError(f"{len(asked)} queries are too many: one search takes at most {MAX_QUERIES}")
    share = max(len(asked), 1)
    return [split_query(query[: MAX_QUERY_CHARS // share], MAX_PIECES // share) for query in asked]


def split_query(query: str, max_pieces: int = MAX_PIECES) -> list[str]:
    """Split a query at the ends of its sentences into 1 to `max_pieces` pieces, in order and without a loss.

    It is not split within a sentence: a comma or an "and" may or may not separate steps.
    """
    pieces: list[str] = []
    for sentence in filter(None, (part.strip() for part in _SENTENCE_END.split(query))):
        if pieces and (len(pieces) == max_pieces or _count_telling(pieces[-1]) < _MIN_SEARCH_WORDS):
            pieces[-1] = f"{pieces[-1]} {sentence}"
        else:
            pieces.append(sentence)
    if len(pieces) > 1 and _count_telling(pieces[-1]) < _MIN_SEARCH_WORDS:
        last = pieces.pop()
        pieces[-1] = f"{pieces[-1]} {last}"
    return pieces or [query]


def fuse_scores(pieces: Sequence[Mapping[int, float]]) -> dict[int, float]:
    """Return one score for each tool with a positive score for some piece of a query.

    With `m` as the best score for a piece, a tool's score `s` for that piece adds `sqrt(m) * (s / m) ** 4`. Therefore
    the best tools of each piece precede tools that match many pieces a little. The scores of a single piece stay
    unchanged.
    """
    if len(pieces) == 1:
        return {number: score for number, score in pieces[0].items() if score > 0}
    fused: dict[int, float] = {}
    for scores in pieces:
        best = max(scores.values(), default=0.0)
        for number, score in scores.items():
            if score > 0:
                fused[number] = fused.get(number, 0.0) + sqrt(best) * (score / best) ** 4
    return fused


def interleave_lists(ranked: Sequence[Iterable[int]]) -> list[int]:
    """Return the first of each list, then the second of each, and so on, without repeats."""
    turns = zip_longest(*ranked)
    return list(dict.fromkeys(number for turn in turns for number in turn if number is not None))


def _count_telling(piece: str) -> int:
    return sum(word not in _FILLER_WORDS for word in set(split_words(piece)))
