"""What a person reads on a page: the text of its main part, and its forms."""

from html.parser import HTMLParser

_BLOCKS = frozenset(
    {
        *(
            "p",
            "h1",
            "h2",
            "h3",
            "li",
            "tr",
            "dt",
            "dd",
            "pre",
            "button",
            "section",
            "form",
            "label",
            "option",
        ),
        *("summary", "details", "table", "ul", "ol", "nav", "div", "textarea"),
    }
)


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = [""]
        self.forms: list[dict[str, str]] = []
        self.tags: set[tuple[str, str]] = set()
        self._within = False
        self._cells = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self._within = self._within or tag == "main"
        self.tags |= {(tag, name) for name in given} or {(tag, "")}
        if tag == "form":
            self.forms.append({"": given.get("action", "")})
        elif tag == "input" and self.forms and "name" in given:
            self.forms[-1][given["name"]] = given.get("value", "")
        elif tag in {"td", "th"}:
            self.lines[-1] += " | " * (self._cells > 0)
            self._cells += 1
        elif tag == "tr":
            self._cells = 0
        if tag in _BLOCKS:
            self.lines.append("")

    def handle_endtag(self, tag: str) -> None:
        self._within = self._within and tag != "main"
        if tag in _BLOCKS:
            self.lines.append("")

    def handle_data(self, data: str) -> None:
        if self._within:
            self.lines[-1] += data


def read_lines(html: str) -> list[str]:
    """Return the lines of the main part, one for each block and row, without spaces around them."""
    reader = _Reader()
    reader.feed(html)
    lines = (" ".join(line.split()) for line in reader.lines)
    return [line for line in lines if line]


def read_forms(html: str) -> list[dict[str, str]]:
    """Return the inputs of each form by name, with its address as the value of ""."""
    reader = _Reader()
    reader.feed(html)
    return reader.forms


def list_attributes(html: str) -> set[tuple[str, str]]:
    """Return each element with each of its attributes: what a hostile text would have added to."""
    reader = _Reader()
    reader.feed(html)
    return reader.tags
