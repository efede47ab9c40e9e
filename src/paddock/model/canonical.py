"""The one JSON form of a value, for hashes."""

import json

import orjson

_encode = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode


def canonical(value: object) -> bytes:
    """Return a value as JSON with sorted keys and no spaces, in UTF-8; lone surrogates stay what they are."""
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except (
        TypeError
    ):  # what JSON knows and orjson does not: integers beyond 64 bits, lone surrogates, deep nesting
        return _encode(value).encode("utf-8", "surrogatepass")
