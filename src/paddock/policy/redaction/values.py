"""Decide whether the value of a name such as `password` looks like a secret or like ordinary source.

Ordinary source has names as values: `None`, `str`, `request.form["password"]`, `token_v2`, `sha256`, `${TOKEN}`, a
path, a date. A secret is random, or at least mixes letters and digits in a way that names do not.
"""

import math
import re
from collections.abc import Callable
from typing import NamedTuple

MIN_PASSWORD_CHARS = 7
MIN_SECRET_CHARS = 10
MIN_ENTROPY = 2.8
"""Minimum bits per character of a value that is a secret only by its name."""
_MIN_CHANGES = 3
"""Minimum changes between letters and digits, more than names have."""
_MIN_DIGITS = 4
_MIN_RANDOM_CHARS = 16
"""Minimum length of a run of letters and digits; in a shorter one, few changes or mixed case mean nothing."""

_PASSWORD_PATTERN = re.compile(r"pass|pwd", re.IGNORECASE)
_PATH_PATTERN = re.compile(r"(?:\.{1,2}|~\w*|/[\w.@+-]+)(?:/[\w.@+-]+)+/?", re.ASCII)
"""A path with at least one folder before its last name."""
_WORKING_FOLDER = re.compile(r"(?:^|[^A-Za-z0-9_-]|\\[nrt])(?:OLD)?PWD\Z")
"""Variables of shells with the current and the previous working directory."""
_KEY_PATTERN = re.compile(r"key|secret", re.IGNORECASE)
"""Names whose quoted value is a secret if it could be a password; the value of `token` is often a name."""
_AWS_EXAMPLE = re.compile(r"(?:AKIA|ASIA)[A-Z0-9]{9}EXAMPLE")
"""Keys of Amazon's documentation, which are not valid. The pattern has the full length of a key, so that a real key
before the word does not match."""
_PLACEHOLDER_PATTERN = re.compile(
    r"^\$|\$[({]|\{\{|\}\}|%[(sdr]|\{[A-Za-z_0-9.]*\}|\*{3}|\.{3}|x{4}|^<|>$|<<<|…|•{3}|redacted|example|placeholder"
    r"|change.?me|your[_-]|dummy",
    re.IGNORECASE,
)
_DIGIT_PATTERN = re.compile("[0-9]")
_DATE_PATTERN = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_NUMBER_PATTERN = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_PIECES_PATTERN = re.compile(r"[A-Za-z0-9]+")
_CHANGE_PATTERN = re.compile(r"[A-Za-z](?=[0-9])|[0-9](?=[A-Za-z])")
_CAMEL_CASE = re.compile(r"(?:[A-Z]{0,5}[a-z]{2,}|[A-Z]{2,})+[0-9]{0,4}")
_ATTRIBUTE_PATTERN = re.compile(r"[A-Za-z_]+(?:\.[A-Za-z_][A-Za-z0-9_]*)+")
_WORD_AND_NUMBER = re.compile(r"[A-Za-z]*[0-9]{0,4}|[0-9]+[A-Za-z]{0,2}|[A-Za-z]{3,}[0-9][A-Za-z]{3,}[0-9]?")
_TERM_PATTERN = re.compile(
    r"(?:base|b)(?:16|32|64|85)|utf(?:8|16|32)|sha[0-9]{1,3}|md[245]|oauth[12]|http[123]|pbkdf2|argon2(?:id?|d)?|x509|pkcs[0-9]{1,2}"
    r"|ed25519|x25519|secp[0-9]{3}[kr]1|p(?:256|384|521)|aes(?:128|192|256)|[rhep]s(?:256|384|512)|u?int(?:8|16|32|64)"
    r"|ipv[46]|e2e|i18n|l10n|k8s|s3|ec2|r2d2|v[0-9]{1,3}|2fa|u2f|p12|ntlmv[12]|md4|sm[234]|crc(?:16|32)|http2",
    re.IGNORECASE,
)
"""Technical terms with digits."""
_NAME_WORDS = re.compile(
    r"(?:pass(?:word|wd|phrase)?|pwd|secret|token|key|auth|user(?:name)?|name|field|value|val|test|arg|param|str|string|hash"
    r"|input|old|new|my|the|is|has|get|set)+",
    re.IGNORECASE,
)
_SPECIAL_PATTERN = re.compile(r"[A-Za-z0-9][!@#$%^&*+=~?][A-Za-z0-9!@#$%^&*+=~?]")
_ADDRESS_WORDS = frozenset(
    {
        "password",
        "passwd",
        "pass",
        "pwd",
        "secret",
        "token",
        "pw",
        "yourpassword",
        "user",
        "username",
        "passphrase",
        "...",
    }
)


class FoundValue(NamedTuple):
    """A value that a pattern has found."""

    name: str
    """The name before it; "" if the rule needs no name."""
    lead: str
    """The characters before the name, four at most."""
    text: str
    is_quoted: bool
    after: str
    """The next character."""


def is_secret(value: FoundValue) -> bool:
    """Return whether the value of a name looks like a secret."""
    text = value.text
    if _is_word(text):
        return False
    if not value.is_quoted:
        text = text.rstrip(".")  # the end of a sentence
        if value.after in ("(", "[") or _ATTRIBUTE_PATTERN.fullmatch(text):
            return False  # a call, a subscript, an attribute
        if value.after in (",", "]", "}") and _NUMBER_PATTERN.fullmatch(text):
            return False  # a number in JSON; a mark instead of it would not be JSON
    if "://" in text or _PLACEHOLDER_PATTERN.search(text) or _DATE_PATTERN.match(text):
        return False
    if value.name.lower() == "pwd" and _is_path(value):
        return False
    if _PASSWORD_PATTERN.search(value.name):
        return len(text) >= MIN_PASSWORD_CHARS and _is_password(text, is_quoted=value.is_quoted)
    if len(text) < MIN_SECRET_CHARS:
        return False
    is_key = value.is_quoted and _KEY_PATTERN.search(value.name)
    return is_random(text) or bool(is_key and _is_password(text, is_quoted=False))


def is_random(value: str) -> bool:
    """Return whether a value looks random, not like a name, a path or a number."""
    if _is_word(value) or find_entropy(value) < MIN_ENTROPY or _PLACEHOLDER_PATTERN.search(value):
        return False
    pieces = _drop_terms(value)
    max_chars = max(pieces, key=len, default="")
    if all(map(_WORD_AND_NUMBER.fullmatch, pieces)):
        mixed = not max_chars.islower() and not max_chars.isupper()
        return len(max_chars) >= _MIN_RANDOM_CHARS and mixed and not _CAMEL_CASE.fullmatch(max_chars)
    digits = sum(map(str.isdigit, max_chars))
    if len(max_chars) >= _MIN_RANDOM_CHARS and digits >= _MIN_DIGITS:
        return True
    return len(_CHANGE_PATTERN.findall(value)) >= _MIN_CHANGES


def _drop_terms(value: str) -> list[str]:
    """Return the runs of letters and digits in a value, without technical terms."""
    return [
        _TERM_PATTERN.sub("", piece) if _DIGIT_PATTERN.search(piece) else piece
        for piece in _PIECES_PATTERN.findall(value)
    ]


def find_entropy(text: str | bytes) -> float:
    """Return the Shannon entropy of a text, in bits per character."""
    size = len(text)
    counts = [text.count(unit) for unit in set(text)]  # pyright: ignore[reportArgumentType] - of the same kind
    return -sum([count / size * math.log2(count / size) for count in counts])


def _is_word(text: str) -> bool:
    """Return whether a value has no digit and letters of one case only, as most values in source: a fast check."""
    return text.isascii() and (text.islower() or text.isupper()) and not _DIGIT_PATTERN.search(text)


def _is_password(value: str, *, is_quoted: bool) -> bool:
    """Return whether a value may be a chosen password: `hunter2` is one, `password1` and `sha256` are not."""
    letters = any(map(str.isalpha, value))
    if not letters or not any(map(str.isdigit, value)):
        mixed = any(map(str.isupper, value)) and any(map(str.islower, value))
        return is_random(value) or bool(is_quoted and letters and mixed and _SPECIAL_PATTERN.search(value))
    if is_quoted and _SPECIAL_PATTERN.search(value) and " " not in value:
        return True
    mixed = [piece for piece in _drop_terms(value) if _CHANGE_PATTERN.search(piece)]
    return any(not _NAME_WORDS.fullmatch(piece.rstrip("0123456789")) for piece in mixed)


def _is_path(value: FoundValue) -> bool:
    """Return whether the value of a name that ends in `pwd` is a directory, not a password.

    `PWD` and `OLDPWD` may be any absolute path. Under other names, a value with a single name or a random one in it
    remains a password.
    """
    if value.text.startswith("/") and _WORKING_FOLDER.search(value.lead + value.name):
        return True
    return _PATH_PATTERN.fullmatch(value.text) is not None and not any(map(is_random, value.text.split("/")))


def _is_secret_of_data(value: FoundValue) -> bool:
    """Return whether a value in a document such as XML is a secret; names of source code do not occur there."""
    name = value.name if _PASSWORD_PATTERN.search(value.name) else "secret"
    return is_secret(value._replace(name=name, is_quoted=True))


def _is_key(value: FoundValue) -> bool:
    """Return whether a value that begins with `sk-` is a key, not a class of a style sheet."""
    rest = value.text[3:]
    return ("-" not in rest and "_" not in rest) or any(map(str.isupper, rest)) or _has_digit(value)


def _is_address_password(value: FoundValue) -> bool:
    return value.text.lower() not in _ADDRESS_WORDS and not _PLACEHOLDER_PATTERN.search(value.text)


def _has_digit(value: FoundValue) -> bool:
    return any(map(str.isdigit, value.text))


def _has_digit_or_capital(value: FoundValue) -> bool:
    return any(not char.islower() and char.isalnum() for char in value.text.partition("_")[2])


CHECKS: dict[str, Callable[[FoundValue], bool]] = {
    "value": is_secret,
    "data": _is_secret_of_data,
    "password": lambda value: is_secret(value._replace(name="password")),
    "random": lambda value: is_random(value.text),
    "key": _is_key,
    "address": _is_address_password,
    "digit": _has_digit,
    "mixed": _has_digit_or_capital,
    "aws": lambda value: not _AWS_EXAMPLE.fullmatch(value.text),
}
"""Checks by the names that rules use."""
