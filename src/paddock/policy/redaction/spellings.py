"""Other spellings of a secret by programs that pass it on: escaped, percent-encoded, in hex, in base64.

If a text that contains the secret is encoded in base64, the secret has three possible spellings, because three bytes
become four characters (RFC 4648). Its first and last characters also depend on the neighbouring bytes.
"""

import base64
import html
import json
import re
from collections.abc import Iterator
from urllib.parse import quote, quote_plus

_COMPONENT_CHARACTERS = "!'()*"
"""Characters that encodeURIComponent does not encode, besides letters, digits and `-._~`."""
_URI_CHARACTERS = ";,/?:@&=+$#" + _COMPONENT_CHARACTERS
_MIN_INNER_CHARS = 6
"""Minimum length of base64; shorter text could mean anything."""
_LINE_LENGTHS = (64, 76)
"""Lengths at which programs break lines of base64 (RFC 1421, RFC 2045)."""
_CODE_PATTERN = re.compile(r"\\u([0-9a-f]{4})")
_PERCENT_PATTERN = re.compile("%[0-9A-F]{2}")
_SHELL_APOSTROPHES = ("'\\''", "'\"'\"'")
"""Spellings of an apostrophe within a string in apostrophes, in shells."""
_HTML_QUOTES = (
    *(("&quot;", "&#x27;"), ("&quot;", "&#39;"), ("&quot;", "&#039;"), ("&quot;", "&apos;")),
    *(("&quot;", "'"), ("&#34;", "&#39;")),
)
"""Spellings of quotes and apostrophes in HTML and XML."""
_URL_SAFE = str.maketrans("+/", "-_")


def _escape_table(characters: str) -> dict[int, str]:
    return {ord(character): f"\\u{ord(character):04x}" for character in characters}


_TABLES = ({ord("/"): "\\/"}, _escape_table("<>&"), _escape_table("<>&'"), _escape_table("<>&='"))
"""Additional escapes in the JSON of PHP, Go, Jinja and Gson."""


def spellings(value: str) -> Iterator[str]:
    """Yield other spellings of a value, some of them more than once or short."""
    yield from _spell_escaped(value)
    data = value.encode("utf-8", "surrogatepass")
    yield from _spell_percent(data)
    yield data.hex()
    yield data.hex().upper()
    for text in _spell_base64(data):
        yield text
        yield text.translate(_URL_SAFE)


def _spell_escaped(value: str) -> Iterator[str]:
    for part in {value, *value.split("\n")}:
        for once in {*_spell_json(part), *_json_of_others(part)}:
            yield once
            yield from _spell_json(once)
        yield repr(part)[1:-1]
        bare = html.escape(part, quote=False)
        yield bare
        yield from (bare.replace('"', double).replace("'", single) for double, single in _HTML_QUOTES)
        yield from (part.replace("'", single) for single in _SHELL_APOSTROPHES)


def _spell_json(text: str) -> tuple[str, str]:
    return json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1]


def _json_of_others(text: str) -> Iterator[str]:
    """Yield the JSON of libraries that escape more than necessary."""
    for form in _spell_json(text):
        yield from (form.translate(table) for table in _TABLES)
    coded = json.dumps(text)[1:-1].replace('\\"', "\\u0022").translate(_escape_table("<>&'+`"))
    yield _CODE_PATTERN.sub(lambda found: f"\\u{found[1].upper()}", coded)  # C#


def _spell_percent(data: bytes) -> Iterator[str]:
    every = "".join(f"%{byte:02X}" for byte in data)
    for text in (
        *(quote(data, safe=safe) for safe in ("", "/", _COMPONENT_CHARACTERS, _URI_CHARACTERS)),
        *(quote_plus(data, safe=safe) for safe in ("", "*")),
        quote_plus(data, safe="*").replace("~", "%7E"),
        every,
    ):
        yield text
        yield _PERCENT_PATTERN.sub(lambda found: found[0].lower(), text)


def _spell_base64(data: bytes) -> Iterator[str]:
    alone = base64.b64encode(data).decode()
    yield alone
    for width in _LINE_LENGTHS:
        if len(alone) > width:
            yield from (alone[at : at + width] for at in range(0, len(alone), width))
    for before in range(3):
        text = base64.b64encode(bytes(before) + data).decode()
        last = (before + len(data)) * 8 // 6
        inner = text[-(-before * 8 // 6) : last]
        if len(inner) >= _MIN_INNER_CHARS:
            yield inner
