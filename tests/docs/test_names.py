"""The words that names in the source are made of."""

import ast
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "paddock"
sys.path.insert(0, str(ROOT / "scripts"))

from house_figures import is_participle, list_functions  # noqa: E402 - a script, which is in no package

INSTEAD = {
    "born": "on_started, started",
    "deepest": "max_depth",
    "door": "endpoint",
    "gone": "on_disconnect, ended",
    "heard": "on_message, received",
    "intake": "parser",
    "ladder": "tiers",
    "lane": "rpc",
    "largest": "max_x",
    "longest": "max_chars, max_bytes",
    "meant": "wanted",
    "nameless": "anonymous",
    "outsides": "what is outside, by its own name",
    "shelf": "store",
    "strangers": "unauthenticated",
    "vigil": "busy_poll",
    "warden": "supervisor",
    "wardens": "supervisors",
    "zygote": "fork_server",
    "zygotes": "fork_servers",
}
"""Words that are no part of any name, each with what to say instead."""

CONSTANT_WORDS = {
    "kept": "MAX_x",
    "least": "MIN_x",
    "most": "MAX_x",
    "said": "MAX_x_CHARS, x_PATTERN",
    "told": "MAX_x, x_NAMES",
}
"""Words that are no part of a constant's name, each with what to say instead."""

KEPT_NAMES = {
    "_KEPT_RESOURCE_FIELDS": "the fields that are kept, not a bound",
    "_KEPT_SERVER_FIELDS": "the fields that are kept, not a bound",
    "_KEPT_VALUES": "the values that are kept, not a bound",
    "MAX_KEPT_CHARS": "says of what: the arguments that are kept",
    "_expected_issuer": "overrides a method of the OAuth library",
}
"""Names that stay, each with the reason."""


def split_name(name: str) -> set[str]:
    """Return the words of a name, in lower case."""
    return set(re.sub("(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().split("_"))


def list_names(tree: ast.AST) -> Iterator[str]:
    """Yield every name that a module gives to something."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.arg(arg=name):
                yield name
            case ast.Attribute(attr=name, ctx=ast.Store()) | ast.Name(id=name, ctx=ast.Store()):
                yield name


def find_faults(tree: ast.AST, module: str) -> dict[str, str]:
    """Return what to say instead of each wrong name of a module, by name."""
    found = {
        name: instead
        for name in sorted({module, *list_names(tree)} - KEPT_NAMES.keys())
        for word in split_name(name)
        if (instead := INSTEAD.get(word) or (CONSTANT_WORDS.get(word) if name.isupper() else None))
    }
    kept = {name.strip("_") for name in KEPT_NAMES}
    named = (name for name in list_functions(tree) if is_participle(name) and name not in kept)
    return found | dict.fromkeys(named, "a verb phrase")


@cache
def read_source() -> dict[str, tuple[frozenset[str], dict[str, str]]]:
    """Return the names that each module gives, and its faults. All tests of this file share them."""
    found = dict[str, tuple[frozenset[str], dict[str, str]]]()
    for path in sorted(SOURCE.rglob("*.py")):
        tree = ast.parse(path.read_text())
        found[str(path.relative_to(SOURCE))] = frozenset(list_names(tree)), find_faults(tree, path.stem)
    return found


def test_names_say_what_they_name_in_the_fields_own_words() -> None:
    assert {path: faults for path, (_, faults) in read_source().items() if faults} == {}


def test_each_kind_of_name_is_looked_at() -> None:
    source = """\
_MOST_WORDS = 3
most = 4
class NamelessFile:
    vigil: int
    def __init__(self, shelf): self.intake = shelf
def shown_first(): pass
async def heard(): gone = 1
"""
    assert find_faults(ast.parse(source), "ladder") == {
        "NamelessFile": "anonymous",
        "_MOST_WORDS": "MAX_x",
        "gone": "on_disconnect, ended",
        "heard": "a verb phrase",
        "intake": "parser",
        "ladder": "tiers",
        "shelf": "store",
        "shown_first": "a verb phrase",
        "vigil": "busy_poll",
    }


def test_no_exception_outlives_its_name() -> None:
    given = {name for names, _ in read_source().values() for name in names}
    assert KEPT_NAMES.keys() - given == set()
