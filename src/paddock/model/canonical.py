"""The JSON forms of a value that hashes are made of."""

from functools import partial

import orjson

from paddock.model.numbers import dumps_exact

_encode = partial(dumps_exact, separators=(",", ":"), ensure_ascii=False)


def canonical(value: object) -> bytes:
    """Return a value as JSON with sorted keys and no spaces, in UTF-8; lone surrogates stay what they are."""
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except (
        TypeError
    ):  # what JSON knows and orjson does not: numbers beyond 64 bits, lone surrogates, deep nesting
        return _encode(value, sort_keys=True).encode("utf-8", "surrogatepass")


def in_order(value: object) -> bytes:
    """Return a value as `canonical` does, with its keys in the order that they have."""
    try:
        return orjson.dumps(value)
    except TypeError:
        return _encode(value).encode("utf-8", "surrogatepass")
