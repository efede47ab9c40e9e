"""Find the packages that a failed program lacks, or tried to install (`pip install numpy`), and what to do instead."""

import contextlib
import json
import os
import re
import shlex
import sys
from collections.abc import Callable
from itertools import islice
from pathlib import Path

from paddock.engines.programs.environments import ENVIRONMENT_KEY, REQUEST_READ_ONLY, RejectedInterpreter
from paddock.engines.programs.task import ProgramTask
from paddock.engines.programs.toolchain import Toolchain
from paddock.model.late_pattern import compile_late
from paddock.model.requirements import INSTALLERS, Installer

_COMMANDS: dict[Installer, re.Pattern[str]] = {
    "uv": compile_late(
        r"\b(?:pip[\d.]*|uv|conda|mamba|micromamba)\b[^\n;&|]{0,80}?\b(?:install|add)\b(?P<names>[^\n;&|)]{0,2000})"
    ),
    "npm": compile_late(
        r"\b(?:npm|pnpm|yarn)\b[^\n;&|]{0,80}?\b(?:install|add|i)\b(?P<names>[^\n;&|)]{0,2000})"
    ),
}
"""A command line, or its words in a list of the program's language."""
_FAILURES: dict[Installer, re.Pattern[str]] = {
    "uv": compile_late(
        r"externally-managed-environment|No matching distribution found|No module named '?pip\b"
        r"|\b(?:pip[\d.]*|uv|conda|mamba|micromamba): (?:command )?not found|No such file or directory: '(?:pip3?|uv)'"
        r"|No solution found when resolving|Failed to fetch: |CondaHTTPError"
        r"|'pip', 'install'.{0,2000} returned non-zero exit status"
        r"|^\s{0,20}[%!](?:pip|conda|uv) .*\n.*\n?SyntaxError",
        re.MULTILINE,
    ),
    "npm": compile_late(
        r"npm (?:error|ERR!)|ERR_PNPM|\b(?:npm|pnpm|yarn): (?:command )?not found|spawnSync? npm ENOENT"
    ),
}
"""What installers print that failed, or the shell that did not find them."""
_NAME_PATTERN = compile_late(
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
"""Options that take the next argument as their value."""
_MAX_NAMES = 10
_MAX_SEARCHED_CHARS = 64 * 1024
"""Maximum length of a program's text and of its last output that are searched, because both may be hostile."""
_MAX_ENTRIES = 1000
"""Maximum entries of the working directory that are searched for the program's own modules."""
_MISSING_MODULE_PATTERN = compile_late(r"No module named '?([A-Za-z_][A-Za-z0-9_]{0,99})(?![A-Za-z0-9_])")
_MISSING_NPM_PACKAGE_PATTERN = compile_late(
    r"Cannot find (?:module|package) '((?:@[a-z0-9~-][\w.~-]{0,99}/)?[a-z0-9~-][\w.~-]{0,99})['/]"
)
_PACKAGES = {
    "Crypto": "pycryptodome",
    "OpenSSL": "pyopenssl",
    "PIL": "pillow",
    "bs4": "beautifulsoup4",
    "cv2": "opencv-python",
    "dateutil": "python-dateutil",
    "docx": "python-docx",
    "dotenv": "python-dotenv",
    "fitz": "pymupdf",
    "jwt": "pyjwt",
    "serial": "pyserial",
    "skimage": "scikit-image",
    "sklearn": "scikit-learn",
    "yaml": "pyyaml",
}
"""Well-known packages whose name differs from their module's. A package of the module's name may be a stranger's."""


def advise_on_installation(code: str, stderr_text: str, language: str, *, in_session: bool) -> str:
    """Return how to get the packages that a program failed to install, by its text and its last output, or ""."""
    code, stderr_text = code[:_MAX_SEARCHED_CHARS], stderr_text[-_MAX_SEARCHED_CHARS:]
    for installer, failure in _FAILURES.items():
        if not failure.search(stderr_text):
            continue
        command = _COMMANDS[installer].search(code) or _COMMANDS[installer].search(stderr_text)
        if command is None:
            continue
        names = _find_names(command["names"])
        if INSTALLERS.get(language) != installer:
            language = next(each for each, its in INSTALLERS.items() if its == installer)
            what = f"a {language} session" if in_session else f"a {language} program"
        else:
            what = "a session" if in_session else "the program"
        verb, subcommand = ("open", "repl") if in_session else ("run", "exec")
        flags = " ".join(f"--package {shlex.quote(name)}" for name in names)
        return (
            f"programs cannot install packages; {verb} {what} with packages={json.dumps(names)} "
            f"(paddock {subcommand} {language} {flags}), which Paddock installs first"
        )
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


def explain_missing_module(
    stderr_text: str,
    task: ProgramTask,
    toolchain: Toolchain,
    passed_over: Callable[[], list[RejectedInterpreter]],
) -> str:
    """Return how to install a package that a program failed to import, by its last output; "" for its own modules."""
    found = list(_MISSING_MODULE_PATTERN.finditer(stderr_text))
    if not found:
        return ""
    name = found[-1][1]
    blind = task.terms.grants.access == "none"
    # A program that may not read the workspace must not learn what is in it.
    if not blind and _is_own_module(name, task.cwd):
        return ""  # another hint covers this
    interpreter = toolchain.placeholders["executable"]
    sentences = [f"{name} is not installed for {interpreter}, which ran this program"]
    if blind:
        sentences.append(
            f"It may not read the workspace (access none): {REQUEST_READ_ONLY} to import what is there"
        )
    if name in sys.stdlib_module_names:
        sentences.append(
            f"It is part of Python, but {interpreter} was built without it: use another interpreter"
        )
        return ". ".join(sentences)
    for rejected in passed_over():
        sentences.append(rejected.reason)
        if rejected.remedies:
            sentences.append(f"To use it, {' and '.join(rejected.remedies)}")
    package = _PACKAGES.get(name, name)
    what, command = ("Open a session", "repl") if task.work.session else ("Run the program", "exec")
    sentences.append(
        f'{what} with packages = ["{package}"] (paddock {command} --package {package}), name an environment that '
        f"has it with {ENVIRONMENT_KEY} in the user's paddock.toml, or install it for that interpreter: "
        f"{interpreter} -m pip install {package}"
    )
    return ". ".join(sentences)


def _is_own_module(name: str, cwd: Path) -> bool:
    """Return whether a module is in the working directory or in a directory in it."""
    with contextlib.suppress(OSError), os.scandir(cwd) as entries:
        inner = [Path(entry.path) for entry in islice(entries, _MAX_ENTRIES) if entry.is_dir()]
        folders = (cwd, *(folder for folder in inner if not folder.name.startswith(".")))
        return any((folder / path).exists() for folder in folders for path in (name, f"{name}.py"))
    return False


def explain_missing_npm_package(stderr_text: str, language: str, *, in_session: bool) -> str:
    """Return how to give a program the npm package that it failed to import, by its last output, or ""."""
    found = _MISSING_NPM_PACKAGE_PATTERN.findall(stderr_text)
    if not found:
        return ""
    name = found[-1]
    what, command = ("Open a session", "repl") if in_session else ("Run the program", "exec")
    return (
        f'{name} is not installed. {what} with packages = ["{name}"] (paddock {command} {language} --package {name}). '
        "Inline code does not see the node_modules of the workspace: save it there and run that file, for instance: "
        f"paddock exec {language} ./main.{'ts' if language == 'typescript' else 'js'}"
    )
