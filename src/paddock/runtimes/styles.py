"""What a program in one of several styles needs to be run: its file's name, its text, its entry point.

Nothing here parses a language. A program that is misread runs into its compiler's error, on the user's own lines:
whatever is put around a program adds no line.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from paddock.runtimes.recipe import Style


@dataclass(frozen=True, slots=True)
class Prepared:
    """A program as it is written to its file."""

    file_name: str
    source: str
    main: str = ""
    """What the run command names as its entry point."""


def prepared(style: Style, code: str, extension: str) -> Prepared:
    """Return a program as the commands of its recipe want it."""
    return _STYLES[style](code, extension)


def _plain(code: str, extension: str) -> Prepared:
    return Prepared(f"code{extension}", code)


def _php(code: str, extension: str) -> Prepared:
    """Open PHP where the program does not."""
    return Prepared(f"code{extension}", code if re.search(r"<\?(?:php\b|=)", code) else f"<?php {code}")


_JAVA_SILENT = re.compile(
    r'"""(?:\\.|(?!""").)*+"""|"(?:\\.|[^"\\\n])*+"|\'(?:\\.|[^\'\\\n])++\'|//[^\n]*+|/\*(?:(?!\*/).)*+(?:\*/)?',
    re.DOTALL,
)
_JAVA_TOKEN = re.compile(
    r"(?P<brace>[{}])"
    r"|(?P<public>\bpublic\s+(?:(?:abstract|final|sealed|strictfp|static)\s+|non-sealed\s+)*)?"
    r"(?<![.\w])(?:class|interface|enum|record)\s+(?P<type>[A-Za-z_$][\w$]*)"
    r"|\bvoid\s+(?P<main>main)\s*\("
)
_JAVA_PACKAGE = re.compile(r"^\s*package\s+([\w.]+)\s*;", re.MULTILINE)


def _java(code: str, extension: str) -> Prepared:
    """Name the file after the public type, and run the first type that has `main`.

    A file without types around `main` is a class of the file's name (JEP 512).
    """
    text = _JAVA_SILENT.sub(" ", code)
    depth, current, public, owner = 0, "", "", ""
    for token in _JAVA_TOKEN.finditer(text):
        if token["brace"]:
            depth += 1 if token["brace"] == "{" else -1
        elif token["type"] and depth == 0:
            current = token["type"]
            public = public or (current if token["public"] else "")
        elif token["main"] and depth == 1:
            owner = owner or current
    name = public or owner or "Main"
    return Prepared(f"{name}{extension}", code, _prefix(_JAVA_PACKAGE.search(text)) + (owner or name))


_KOTLIN_MAIN = re.compile(r"^(?:(?:public|internal|suspend)\s+)*fun\s+main\s*\(", re.MULTILINE)
_KOTLIN_CALL = re.compile(r"^main\s*\(", re.MULTILINE)
_KOTLIN_PACKAGE = re.compile(r"^package\s+([\w.]+)", re.MULTILINE)
_KOTLIN_NAME = re.compile(r'^@file:JvmName\("([\w$]+)"\)', re.MULTILINE)


def _kotlin(code: str, extension: str) -> Prepared:
    """Tell a script (statements) from a program (`fun main`, which nothing calls)."""
    if not _KOTLIN_MAIN.search(code) or _KOTLIN_CALL.search(code):
        return Prepared(f"code{extension}", code, "Launch")
    name = _KOTLIN_NAME.search(code)
    return Prepared("code.kt", code, _prefix(_KOTLIN_PACKAGE.search(code)) + (name[1] if name else "CodeKt"))


def _prefix(package: re.Match[str] | None) -> str:
    return f"{package[1]}." if package else ""


_STYLES: Mapping[Style, Callable[[str, str], Prepared]] = MappingProxyType(
    {"plain": _plain, "php": _php, "java": _java, "kotlin": _kotlin}
)
