"""The shape of the tree: what no file may be, hold or lack."""

import ast
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LONGEST = 600
LONGEST_FUNCTION = 100
CODE = {".py", ".js", ".ts"}
GENERATED = {"clients/typescript/src/schema.ts"}
"""Code that a program writes and nobody reads from top to bottom."""

MACHINE_PATH = re.compile(r"/(?:work|root|farm|mnt|Users)/\w|/tmp/\w*jobs")
REGISTRY = re.compile(r"registry\.npmjs|\bpypi\.org|pythonhosted|npmmirror|registry\.yarnpkg")
LOCKS = {"uv.lock"}
PUBLIC_REGISTRIES = ("src/paddock/engines/packages/hosts.py", REGISTRY)
"""What an installation may reach if the user has configured no registry."""


def tracked():
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return [ROOT / name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]


def texts():
    """Yield every tracked text but this file, which spells what it forbids."""
    for path in tracked():
        if path != Path(__file__).resolve() and path.name not in LOCKS:
            try:
                yield path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")
            except UnicodeDecodeError:
                continue


def modules():
    return [path for path in tracked() if path.suffix == ".py" and ROOT / "src" in path.parents]


def test_no_file_is_longer_than_a_room():
    code = [path for path in tracked() if path.suffix in CODE]
    assert len(code) > 50
    lengths = {path.relative_to(ROOT).as_posix(): len(path.read_text().splitlines()) for path in code}
    assert {name for name, length in lengths.items() if length > LONGEST} == GENERATED


def test_no_function_is_longer_than_a_page():
    long = {}
    for path in modules():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                assert node.end_lineno is not None
                length = node.end_lineno - node.lineno + 1
                if length > LONGEST_FUNCTION:
                    long[f"{path.relative_to(ROOT)}:{node.name}"] = length
    assert long == {}


@pytest.mark.parametrize("pattern", [MACHINE_PATH, REGISTRY], ids=["machine paths", "registries"])
def test_no_text_names_a_machine_or_a_registry(pattern):
    found = [
        f"{name}:{number}: {line.strip()[:120]}"
        for name, text in texts()
        for number, line in enumerate(text.splitlines(), 1)
        if pattern.search(line) and (name, pattern) != PUBLIC_REGISTRIES
    ]
    assert found == []


def test_nothing_is_called_by_what_it_is_not():
    names = {path.stem for path in tracked()} | {path.parent.name for path in tracked()}
    assert names & {"utils", "util", "helpers", "helper", "common", "manager", "misc"} == set()


def test_the_guide_to_the_tree_names_every_floor():
    table = (ROOT / "docs" / "architecture.md").read_text().partition("## Floors")[2]
    package = ROOT / "src" / "paddock"
    rooms = {path.relative_to(package).parts[0] for path in modules()} - {"__init__.py"}
    named = re.findall(r"`(\w+(?:/|\.py))`", "".join(re.findall(r"^\| (.+?) \|", table, re.MULTILINE)))
    assert {name.rstrip("/") for name in named} == rooms


def test_the_map_of_a_room_names_every_file():
    """A folder with more than five files says in its `__init__` which is the heart and in which order to read."""
    forgotten = {}
    for path in sorted((ROOT / "src" / "paddock").rglob("__init__.py")):
        names = {each.stem for each in path.parent.glob("*.py")} - {"__init__", "__main__"}
        names |= {each.parent.name for each in path.parent.glob("*/__init__.py")}
        if len(names) > 5 and path.parent != ROOT / "src" / "paddock":
            words = set(re.findall(r"\w+", ast.get_docstring(ast.parse(path.read_text())) or ""))
            if missing := names - words:
                forgotten[path.parent.name] = sorted(missing)
    assert forgotten == {}


def test_everything_public_says_what_it_is_for():
    silent = []
    for path in modules():
        tree = ast.parse(path.read_text())
        if ast.get_docstring(tree) is None:
            silent.append(str(path.relative_to(ROOT)))
        for node in tree.body:
            public = isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
            if public and not node.name.startswith("_") and ast.get_docstring(node) is None:
                silent.append(f"{path.relative_to(ROOT)}: {node.name}")
    assert silent == []


def test_the_guides_name_paths_that_exist():
    missing = []
    for guide in ("CONTRIBUTING.md", "docs/architecture.md"):
        for path in re.findall(
            r"`((?:[\w.-]+/)+[\w.-]*\.(?:py|toml|md|json|ts))`", (ROOT / guide).read_text()
        ):
            roots = (
                ROOT,
                ROOT / "src/paddock",
                ROOT / "src/paddock/surfaces",
                ROOT / "src/paddock/surfaces/http_api",
            )
            if "NAME" not in path and not any((root / path).exists() for root in roots):
                missing.append(f"{guide}: {path}")
    assert missing == []
