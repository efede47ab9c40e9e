"""Prepare a program of one of several styles: the name of its file, its text, its entry point.

This module does not parse languages. If it misreads a program, the compiler reports an error, on the user's own lines:
additions to a program never add a line.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import PurePath
from types import MappingProxyType

from paddock.model.late_pattern import compile_late
from paddock.policy.settings.recipes import Style


@dataclass(frozen=True, slots=True)
class PreparedProgram:
    """A program as it is written to its file."""

    file_name: str
    source: str
    main: str = ""
    """The entry point in the run command."""


def prepare_program(style: Style, code: str, extension: str, stem: str = "code") -> PreparedProgram:
    """Return a program in the form that the commands of its recipe need, without a byte order mark.

    `stem` is the stem of its file, unless the language prescribes one.
    """
    return _STYLES[style](code.removeprefix("\ufeff"), f"{stem}{extension}")


# Strings and comments. An unclosed one ends with its line or the file: searching for its end again from every later
# position would let a program of a megabyte block Paddock for an hour.
_SILENT = r'"(?:\\.|[^"\\\n])*+"?|\'(?:\\.|[^\'\\\n])*+\'?|//[^\n]*+|/\*(?:(?!\*/).)*+(?:\*/)?'
_PHP_SILENT = compile_late(rf"{_SILENT}|#[^\n]*+", re.DOTALL)
_PHP_OPEN = compile_late(r"<\?(?:php\b|=)|\A\s*+<(?!<)", re.IGNORECASE)
_PHP_STATEMENT = compile_late(r"\s*+(?:[$/]|#(?!!)|[^\n]*[;{]\s*$)", re.MULTILINE)


def _prepare_php(code: str, name: str) -> PreparedProgram:
    """Add `<?php` unless the program has it; one in a string or comment does not count, unlike in a page."""
    text = _PHP_SILENT.sub(" ", code) if _PHP_STATEMENT.match(code) else code
    return PreparedProgram(name, code if _PHP_OPEN.search(text) else f"<?php {code}")


def _without_interpreter(code: str) -> str:
    """Turn a `#!` line into a comment, because the compiler rejects it."""
    return f"//{code}" if code.startswith("#!") else code


_JAVA_SILENT = compile_late(rf'"""(?:\\.|(?!""").)*+(?:""")?|{_SILENT}', re.DOTALL)
_JAVA_TOKEN = compile_late(
    r"(?P<brace>[{}])"
    r"|(?P<public>\bpublic\s+(?:(?:abstract|final|sealed|strictfp|static)\s+|non-sealed\s+)*)?"
    r"(?<![.\w])(?:class|interface|enum|record)\s+(?P<type>(?:[^\W\d]|\$)[\w$]*)"
    r"|\bvoid\s+(?P<main>main)\s*\((?P<takes>[^(){}]*)"
)
_MAX_NAME_CHARS = 240
"""Maximum bytes of a type's name from which a file name is made; file names have at most 255."""
_JAVA_PACKAGE = compile_late(r"^[ \t]*package\s+([\w.]+)\s*;", re.MULTILINE)


def _prepare_java(code: str, name: str) -> PreparedProgram:
    """Name the file after the public type, and run the first type with a `main`, preferably one that takes strings.

    A file with `main` outside of types is a class with the file's name (JEP 512).
    """
    code = _without_interpreter(code)
    text = _JAVA_SILENT.sub(" ", code)
    depth, current, public, owner, other = 0, "", "", "", ""
    for token in _JAVA_TOKEN.finditer(text):
        if token["brace"]:
            depth += 1 if token["brace"] == "{" else -1
        elif token["type"] and depth == 0:
            current = token["type"]
            public = public or (current if token["public"] else "")
        elif token["main"] and depth == 1 and "String" in token["takes"]:
            owner = owner or current
        elif token["main"] and depth == 1:
            other = other or current
    owner = owner or other
    file = public or owner or "Main"
    if len(file.encode("utf-8", "surrogatepass")) > _MAX_NAME_CHARS:
        file = "Main"  # a file cannot have such a name; the compiler then reports the mismatch
    return PreparedProgram(
        f"{file}{PurePath(name).suffix}", code, _find_prefix(_JAVA_PACKAGE.search(text)) + (owner or file)
    )


_KOTLIN_SILENT = compile_late(rf'"""(?:(?!""").)*+(?:""")?|{_SILENT}', re.DOTALL)
_BRACE_PATTERN = compile_late(r"([{}])")
_KOTLIN_MAIN = compile_late(r"^(?:(?:public|internal|suspend)[ \t]+)*fun\s+main\s*\(", re.MULTILINE)
_KOTLIN_TOP_MAIN = compile_late(r"(?<![.\w])fun\s+main\s*\(")
_KOTLIN_CALL = compile_late(r"(?:^|;)[ \t]*main\s*\(", re.MULTILINE)
_KOTLIN_PACKAGE = compile_late(r"^[ \t]*package\s+([\w.]+)", re.MULTILINE)
_KOTLIN_NAME = compile_late(r'^[ \t]*@file:JvmName\("([\w$]+)"\)', re.MULTILINE)
_KOTLIN_TOKEN = compile_late(
    r"(?P<brace>[{}])"
    r"|\bcompanion\s+(?P<companion>object)\b"
    r"|(?<![.\w])(?:class|object|interface)\s+(?P<type>[^\W\d]\w*)"
    r"|(?P<main>@JvmStatic\s+(?:(?:public|suspend)\s+)*fun\s+main\s*\()"
    r"|\.\s*(?P<call>main)\s*\("
)


def _prepare_kotlin(code: str, name: str) -> PreparedProgram:
    """Distinguish a script (statements) from a program (a `fun main`, at the top or in an object, without a call)."""
    text = _KOTLIN_SILENT.sub("", code)
    package = _find_prefix(_KOTLIN_PACKAGE.search(text))
    top = _outside_braces(text)
    if _KOTLIN_MAIN.search(text) or _KOTLIN_TOP_MAIN.search(top):
        if not _KOTLIN_CALL.search(top):
            own = _KOTLIN_NAME.search(code)
            return PreparedProgram("code.kt", code, package + (own[1] if own else "CodeKt"))
    elif owner := _kotlin_owner(text):
        return PreparedProgram("code.kt", code, package + owner)
    return PreparedProgram(f"code{PurePath(name).suffix}", code, "Launch")


def _outside_braces(text: str) -> str:
    depth, kept = 0, list[str]()
    for part in _BRACE_PATTERN.split(text):
        if part in ("{", "}"):
            depth += 1 if part == "{" else -1
        elif depth == 0:
            kept.append(part)
    return ";".join(kept)


def _kotlin_owner(text: str) -> str:
    """Return the first top-level object or class with a static `main` that the program does not call, or ""."""
    depth, current, within, owner = 0, "", 1, ""
    for token in _KOTLIN_TOKEN.finditer(text):
        if token["brace"]:
            depth += 1 if token["brace"] == "{" else -1
        elif token["type"] and depth == 0:
            current, within = token["type"], 1
        elif token["companion"] and depth == 1:
            within = 2
        elif token["main"] and depth == within:
            owner = owner or current
        elif token["call"]:
            return ""
    return owner


def _find_prefix(package: re.Match[str] | None) -> str:
    return f"{package[1]}." if package else ""


_STYLES: Mapping[Style, Callable[[str, str], PreparedProgram]] = MappingProxyType(
    {
        "plain": lambda code, name: PreparedProgram(name, code),
        "csharp": lambda code, name: PreparedProgram(name, _without_interpreter(code)),
        "php": _prepare_php,
        "java": _prepare_java,
        "kotlin": _prepare_kotlin,
    }
)
