"""Words of the source, fit for a page."""

import ast
import inspect
import re
import textwrap
from collections.abc import Iterable
from itertools import pairwise

_CASE_IDS = re.compile(
    r" \((?:[A-Z]\d+|seed \d+|spec [\d.]+)(?:(?:, | and )(?:[A-Z]\d+|seed \d+|spec [\d.]+))*\)"
)
"""Where a rule comes from, for who reads the source."""


def described(kind: type) -> dict[str, str]:
    """Return the text below each member of a class and of the classes it inherits from.

    pydantic can do this, but then it reads the source of every model whenever Paddock starts.
    """
    found: dict[str, str] = {}
    for base in reversed([base for base in kind.__mro__ if base.__module__.startswith("paddock.")]):
        [definition] = ast.parse(textwrap.dedent(inspect.getsource(base))).body
        assert isinstance(definition, ast.ClassDef)
        for member, text in pairwise(definition.body):
            match member, text:
                case (
                    ast.AnnAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)]),
                    ast.Expr(value=ast.Constant(value=str(words))),
                ):
                    found[name] = inspect.cleandoc(words)
                case _:
                    pass
    return found


def spoken(text: str) -> str:
    """Return a description in one line and without case ids."""
    return _CASE_IDS.sub("", " ".join(text.split()))


def table(columns: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """Return a Markdown table with a blank line after it."""
    lines = [columns, ("---",) * len(columns), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)
