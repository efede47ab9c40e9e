"""JSON forms of a value for hashes."""

from functools import partial

import orjson

from paddock.model.numbers import dumps_exact

_encode = partial(dumps_exact, separators=(",", ":"), ensure_ascii=False)


def canonical(value: object) -> bytes:
    """Return a value as JSON with sorted keys and without spaces, in UTF-8; lone surrogates are kept."""
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except TypeError:  # orjson rejects numbers beyond 64 bits, lone surrogates and deep nesting
        return _encode(value, sort_keys=True).encode("utf-8", "surrogatepass")


def in_order(value: object) -> bytes:
    """Return a value like `canonical`, with its keys in their own order."""
    try:
        return orjson.dumps(value)
    except TypeError:
        return _encode(value).encode("utf-8", "surrogatepass")
