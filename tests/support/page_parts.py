"""What a page consists of: its elements with the names of their attributes, its addresses, and its texts."""

import re
import unicodedata
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import NamedTuple
from urllib.parse import parse_qsl, urlsplit

_ADDRESSES = frozenset(
    [
        "href",
        "src",
        "action",
        "formaction",
        "data",
        "poster",
        "srcset",
        "cite",
        "background",
        "ping",
        "manifest",
        "xlink:href",
        "longdesc",
        "hx-get",
        "hx-post",
        "hx-put",
        "hx-patch",
        "hx-delete",
        "sse-connect",
        "ws-connect",
    ]
)
_SAFE_ADDRESS = re.compile(r"(/(?![/\\])|\?|#|$)[A-Za-z0-9/?#&=%._~:@!$'()*+,;\[\]-]*")
_HIDDEN = frozenset("\u061c\u200b\u200e\u200f\u2028\u2029\u2060\ufeff") | {
    chr(number) for number in (*range(0x202A, 0x202F), *range(0x2066, 0x206A), *range(0xE0000, 0xE0080))
}
_MAX_MARKS = 6
_MARKS = frozenset({"Mn", "Me"})


class Address(NamedTuple):
    """An address without what differs between places."""

    attribute: str
    first: str
    depth: int
    query: tuple[str, ...]


class PageParts(HTMLParser):
    """The parts of one page."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: set[tuple[str, tuple[str, ...]]] = set()
        self.links: set[str] = set()
        """All addresses, as they stand in the page."""
        self.addresses: set[Address] = set()
        self.texts: list[str] = []
        self.others: list[str] = []
        """Comments, declarations and instructions, which no page has."""
        self.values: list[tuple[str, str, str]] = []
        """Element, name and value of each attribute."""
        self.forms: list[tuple[dict[str, str], list[str]]] = []
        """Attributes of each form, and the names of what a person fills in."""
        self.feed(text)
        self.close()
        self.text = "".join(self.texts)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.add((tag, tuple(sorted(name for name, _ in attrs))))
        found = {name: value or "" for name, value in attrs}
        for name, value in found.items():
            self.values.append((tag, name, value))
            if name in _ADDRESSES:
                self.links.add(value)
                self.addresses.add(_generalize(name, value))
        if tag == "form":
            self.forms.append((found, []))
        if (
            tag in {"input", "select", "textarea"}
            and self.forms
            and found.get("type") not in {"hidden", "submit"}
        ):
            self.forms[-1][1].append(found.get("name", ""))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    def handle_comment(self, data: str) -> None:
        self.others.append(data)

    def handle_pi(self, data: str) -> None:
        self.others.append(data)

    def unknown_decl(self, data: str) -> None:
        self.others.append(data)

    def list_faults(self) -> Iterator[str]:
        """Yield what no page may have, whatever others have written."""
        yield from (f"a comment or declaration: {text[:80]!r}" for text in self.others)
        for link in self.links:
            if not _SAFE_ADDRESS.fullmatch(link):
                yield f"the address {link[:200]!r}"
        for tag, name, value in self.values:
            if name.startswith(("on", "hx-on")) or name in {"style", "srcdoc", "target", "is", "slot"}:
                yield f"the attribute {name} of {tag}"
            # A form sends a hidden value exactly as it is.
            elif name != "value" and (found := find_hidden(value)):
                yield f"{found} in the attribute {name} of {tag}: {value[:200]!a}"
        if found := find_hidden(self.text):
            yield f"{found} in the text"


def find_hidden(text: str) -> str:
    """Return a description of the first characters that hide, reorder or cover a text; "" for none."""
    if text.isascii() and text.replace("\n", "").replace("\t", "").isprintable():
        return ""
    marks = 0
    for at, character in enumerate(text):
        category = unicodedata.category(character)
        marks = marks + 1 if category in _MARKS else 0
        hidden = category in {"Cc", "Cs"} and character not in "\n\t"
        if hidden or character in _HIDDEN or marks > _MAX_MARKS:
            return f"U+{ord(character):04X} ({text[max(0, at - 20) : at + 20]!a})"
    return ""


def _generalize(attribute: str, value: str) -> Address:
    parts = urlsplit(value.replace("\\", "/"))
    path = f"{parts.scheme}:{parts.netloc}" if parts.scheme or parts.netloc else ""
    segments = parts.path.split("/")
    first = path + "/".join(segments[:2]) if len(segments) > 1 else path + parts.path
    names = sorted({name for name, _ in parse_qsl(parts.query, keep_blank_values=True)})
    return Address(attribute, first, len(segments), tuple(names))
