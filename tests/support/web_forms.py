"""Forms and notices in pages, for tests without a browser."""

import re
from html import unescape
from html.parser import HTMLParser


class Form(HTMLParser):
    """The first form for one address, with its fields and the values of its buttons."""

    def __init__(self, page: str, action: str) -> None:
        super().__init__()
        self.fields: dict[str, str] = {}
        """Hidden and text fields, by name."""
        self.ticks: dict[str, list[str]] = {}
        """Values of checkboxes, by name."""
        self.buttons: list[str] = []
        self._action, self._inside, self.found = action, False, False
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag == "form":
            self._inside = given.get("action") == self._action and not self.found
            self.found = self.found or self._inside
        elif self._inside and tag == "input":
            if given.get("type") == "checkbox":
                self.ticks.setdefault(given["name"], []).append(given.get("value", "on"))
            else:
                self.fields[given["name"]] = given.get("value", "")
        elif self._inside and tag == "button":
            self.buttons.append(given.get("value", ""))

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self._inside = False


def read_notice(page: str) -> str:
    """Return what a page says of a form that was sent."""
    [found] = re.findall(r'<p class="note [a-z]+" role="status">(.*?)</p>', page, re.DOTALL)
    return unescape(found)


def read_text(page: str) -> str:
    """Return the text of the main part of a page, with single spaces."""
    main = page.partition("<main")[2].partition("</main>")[0]
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", f"<{main}")).split())
