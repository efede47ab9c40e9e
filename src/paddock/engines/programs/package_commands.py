"""Commands of programs that install packages, such as `pip install numpy`, and what to do instead."""

import json
import re
import shlex

from paddock.model.packages import INSTALLERS, Installer

_COMMANDS: dict[Installer, re.Pattern[str]] = {
    "uv": re.compile(
        r"\b(?:pip[\d.]*|uv|conda|mamba|micromamba)\b[^\n;&|]{0,80}?\b(?:install|add)\b(?P<names>[^\n;&|)]{0,2000})"
    ),
    "npm": re.compile(
        r"\b(?:npm|pnpm|yarn)\b[^\n;&|]{0,80}?\b(?:install|add|i)\b(?P<names>[^\n;&|)]{0,2000})"
    ),
}
"""A command line, or its words in a list of the program's language."""
_FAILURES: dict[Installer, re.Pattern[str]] = {
    "uv": re.compile(
        r"externally-managed-environment|No matching distribution found|No module named '?pip\b"
        r"|\b(?:pip[\d.]*|uv|conda|mamba|micromamba): (?:command )?not found|No such file or directory: '(?:pip3?|uv)'"
        r"|No solution found when resolving|Failed to fetch: |CondaHTTPError"
        r"|'pip', 'install'.{0,2000} returned non-zero exit status"
        r"|^\s{0,20}[%!](?:pip|conda|uv) .*\n.*\n?SyntaxError",
        re.MULTILINE,
    ),
    "npm": re.compile(
        r"npm (?:error|ERR!)|ERR_PNPM|\b(?:npm|pnpm|yarn): (?:command )?not found|spawnSync? npm ENOENT"
    ),
}
"""What installers print that failed, or the shell that did not find them."""
_NAME_PATTERN = re.compile(
    r"(?:@[\w.~-]{1,100}/)?[A-Za-z0-9][\w.~-]{0,99}(?:\[[\w.,-]{1,100}\])?(?:[@<>=~!][\w.*^<>=~!,-]{1,100})?",
    re.ASCII,
)
_FILES = (".txt", ".whl", ".toml", ".tgz", ".gz", ".zip")
_TAKE_VALUE = frozenset(
    {
        *("-r", "-c", "-t", "-i", "-f", "--requirement", "--constraint", "--target", "--prefix", "--root"),
        *("--index-url", "--extra-index-url", "--find-links", "--registry"),
    }
)
"""Options whose value is a word of its own."""
_MAX_NAMES = 10
_MAX_SEARCHED_CHARS = 64 * 1024
"""Maximum length of a program's text and of its last output that are searched, because both may be hostile."""


def advise_on_installation(code: str, stderr_text: str, language: str, *, in_session: bool) -> str:
    """Return how to get the packages that a program failed to install, by its text and its last output, or ""."""
    code, stderr_text = code[:_MAX_SEARCHED_CHARS], stderr_text[-_MAX_SEARCHED_CHARS:]
    for installer, failure in _FAILURES.items():
        if failure.search(stderr_text):
            command = _COMMANDS[installer].search(code) or _COMMANDS[installer].search(stderr_text)
            if command is not None:
                return _advise(installer, _find_names(command["names"]), language, in_session=in_session)
    return ""


def _find_names(words: str) -> list[str]:
    """Return the packages among the arguments of a command; ["NAME"] if there are none."""
    if words[:1] in {"'", '"'}:  # each word is a string of the program
        listed = re.match(r"""(?:[^'"\]]|'[^']*'|"[^"]*")*""", words[1:])
        found = re.findall(r"""['"]([^'"]+)['"]""", listed[0] if listed else "")
    else:
        line = re.match(r"""(?:\s+(?:'[^']*'|"[^"]*"|[^\s'"]+))*""", words)
        found = re.findall(r"""[^\s'"]+""", line[0] if line else "")
    names = [
        word
        for before, word in zip(["", *found], found, strict=False)
        if _NAME_PATTERN.fullmatch(word) and not word.endswith(_FILES) and before not in _TAKE_VALUE
    ]
    return names[:_MAX_NAMES] or ["NAME"]


def _advise(installer: Installer, names: list[str], language: str, *, in_session: bool) -> str:
    if INSTALLERS.get(language) != installer:
        language = next(each for each, its in INSTALLERS.items() if its == installer)
        what = f"a {language} session" if in_session else f"a {language} program"
    else:
        what = "a session" if in_session else "the program"
    do, command = ("open", "repl") if in_session else ("run", "exec")
    flags = " ".join(f"--package {shlex.quote(name)}" for name in names)
    return (
        f"programs cannot install packages; {do} {what} with packages={json.dumps(names)} "
        f"(paddock {command} {language} {flags}), which Paddock installs first"
    )
