"""Tokens and their hashes.

A token is `pdk_` and 256 random bits. Only its SHA-256 is stored. A slow, salted hash protects passwords, of which
people choose few. Nobody can try 2^256 tokens, and every request would pay for a slow hash. From 112 random bits on,
NIST SP 800-63B (5.1.2.2) asks for an approved hash without salt.
"""

import hashlib
import hmac
import secrets
from collections.abc import Iterable

from paddock.policy.settings.serve import ServeToken

PREFIX = "pdk_"
"""Beginning of every token that Paddock makes, so that scanners for secrets find it."""
MAX_TOKEN_CHARS = 512
_RANDOM_BYTES = 32


def make_token() -> str:
    """Return a new token."""
    return PREFIX + secrets.token_urlsafe(_RANDOM_BYTES)


def hash_token(token: str) -> str:
    """Return the SHA-256 of a token as hexadecimal digits; "" for a text that no token can be."""
    if not token or len(token) > MAX_TOKEN_CHARS or not token.isascii():
        return ""
    return hashlib.sha256(token.encode()).hexdigest()


def find_token(known: Iterable[ServeToken], token: str) -> ServeToken | None:
    """Return the entry of a token. The time depends on the number of known tokens only, not on their hashes."""
    digest = hash_token(token)
    found = None
    for entry in known:
        if hmac.compare_digest(entry.sha256, digest):
            found = entry
    return found
