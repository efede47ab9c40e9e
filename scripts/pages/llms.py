"""The list of pages for language models (llms.txt), from the navigation of the site."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
HEAD = """\
# Paddock

> Runs unreviewed code with exactly the permissions that its policy grants, and records everything that it does.
> A command line, an MCP server and a Python library, for Linux.
"""
_LINK = re.compile(r"\[([^]]*)\]\([^)]*\)")
_INCLUDED = re.compile(r'--8<-- "(.+)"')
_SENTENCE = re.compile(r"(?<=\.)\s")


def page() -> str:
    """Return the list."""
    site = tomllib.loads((ROOT / "zensical.toml").read_text(encoding="utf-8"))
    return "\n".join([HEAD, *sections(site["project"]["nav"])])


def sections(navigation: list[Any]) -> Iterator[str]:
    """Yield a heading and the pages below it, for each part of the navigation."""
    for entry in navigation:
        [(title, below)] = entry.items()
        if isinstance(below, str):
            yield f"{line(title, below)}\n"
        else:
            pages = [(name, target) for each in below for name, target in each.items()]
            yield f"## {title}\n\n" + "\n".join(line(name, target) for name, target in pages) + "\n"


def line(title: str, target: str) -> str:
    """Return the line of a page: where it is, and its first sentence."""
    place = re.sub(r"(^|/)README\.md$", r"\1index.md", target).removesuffix(".md") + ".html"
    return f"- [{title}]({place}): {first_sentence(ROOT / 'docs' / target)}"


def first_sentence(path: Path) -> str:
    """Return the first sentence of a page that is prose, without links."""
    text = path.read_text(encoding="utf-8")
    if included := _INCLUDED.match(text):
        text = (ROOT / included[1]).read_text(encoding="utf-8")
    text = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)
    paragraphs = [part.strip() for part in text.split("\n\n")]
    prose = next(part for part in paragraphs if re.match(r"[\w`\[]", part))
    return _SENTENCE.split(_LINK.sub(r"\1", " ".join(prose.split())))[0].rstrip(":")
