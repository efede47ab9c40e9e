"""Print figures about the source tree: size, names, suppressed lint, imports between rooms, repeated lines.

    python scripts/house_figures.py [--base REVISION] [--json]

A floor is a folder or a module directly below `src/paddock`. A room is a floor, or a folder directly below one that
contains only folders and an `__init__`. With `--base`, the figures of another git revision are printed beside those
of the working tree.
"""

import argparse
import ast
import io
import json
import re
import statistics
import subprocess
import sys
import tarfile
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
REPEATED_LINES = 8
IRREGULAR = re.compile(
    "born|begun|broken|built|caught|chosen|come|done|drawn|driven|fallen|felt|found|given|gone|grown|heard|"
    "held|hidden|kept|known|laid|left|lost|made|meant|met|paid|said|seen|sent|shown|sold|spent|spoken|stood|"
    "taken|taught|thought|told|understood|woken|won|worn|written"
)


def list_functions(tree: ast.AST) -> Iterator[str]:
    """Yield the name of each function and method, without leading underscores. Leave out properties and dunders."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("__"):
            decorators = {each.id for each in node.decorator_list if isinstance(each, ast.Name)}
            if not decorators & {"property", "cached_property"}:
                yield node.name.strip("_")


def is_participle(name: str) -> bool:
    """Return whether the name is, or begins with, a past participle."""
    word = name.split("_", maxsplit=1)[0]
    return IRREGULAR.fullmatch(word) is not None or re.fullmatch("[a-z]{2,}[^eb]ed", word) is not None


def list_imports(tree: ast.AST, module: str, modules: frozenset[str]) -> Iterator[str]:
    """Yield each module of the package that the file imports, imports inside functions included."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                named = [name.name for name in names]
            case ast.ImportFrom(module=str(source), names=names, level=0):
                named = [f"{source}.{name.name}" for name in names]
            case _:
                continue
        for name in named:
            target = name if name in modules else name.rpartition(".")[0]
            if target in modules and target != module:
                yield target


def find_circles(imports: Mapping[str, frozenset[str]]) -> list[list[str]]:
    """Return the strongly connected sets of more than one module (Tarjan 1972), each sorted."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    circles: list[list[str]] = []

    def visit(module: str) -> None:
        index[module] = low[module] = len(index)
        stack.append(module)
        for target in sorted(imports[module]):
            if target not in index:
                visit(target)
                low[module] = min(low[module], low[target])
            elif target in stack:
                low[module] = min(low[module], index[target])
        if low[module] == index[module]:
            members = stack[stack.index(module) :]
            del stack[stack.index(module) :]
            if len(members) > 1:
                circles.append(sorted(members))

    for module in sorted(imports):
        if module not in index:
            visit(module)
    return circles


def count_repeated_lines(texts: Mapping[str, str]) -> int:
    """Return how many lines of code stand in a run of eight or more that occurs elsewhere, imports excepted."""
    seen: dict[tuple[str, ...], list[tuple[str, int]]] = {}
    for path, text in texts.items():
        imports = {
            number
            for node in ast.walk(ast.parse(text))
            if isinstance(node, ast.Import | ast.ImportFrom)
            for number in range(node.lineno, (node.end_lineno or node.lineno) + 1)
        }
        lines = [
            (number, line.strip())
            for number, line in enumerate(text.splitlines(), 1)
            if line.strip() and number not in imports and not line.lstrip().startswith("#")
        ]
        for start in range(len(lines) - REPEATED_LINES + 1):
            block = lines[start : start + REPEATED_LINES]
            seen.setdefault(tuple(line for _, line in block), []).extend(
                (path, number) for number, _ in block
            )
    return len({place for block, places in seen.items() if len(places) > len(block) for place in places})


def count_helpers_used_once(tree: ast.Module) -> int:
    """Return how many private functions of a module have exactly one use in it."""
    helpers = {
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("_")
    }
    uses = Counter(node.id for node in ast.walk(tree) if isinstance(node, ast.Name))
    return sum(uses[name] == 1 for name in helpers)


def count_repeated_classes(trees: Iterable[ast.Module]) -> int:
    """Return how many names of classes occur in more than one module, leading underscores left out."""
    names = Counter(
        name
        for tree in trees
        for name in {node.name.strip("_") for node in tree.body if isinstance(node, ast.ClassDef)}
    )
    return sum(count > 1 for count in names.values())


def find_room(module: str, modules: frozenset[str]) -> str:
    """Return the room of a module: `gate`, or `engines.javascript` where a floor has only rooms."""
    parts = module.split(".")[1:]
    floor = f"paddock.{parts[0]}"
    files = [each for each in modules if each.startswith(f"{floor}.") and each.count(".") == 2]
    rooms = {each for each in files if any(other.startswith(f"{each}.") for other in modules)}
    return ".".join(parts[:2]) if len(files) > 0 and len(rooms) >= len(files) - 1 else parts[0]


def count_arrows(imports: Mapping[str, frozenset[str]], place: Callable[[str], str]) -> set[tuple[str, str]]:
    """Return each pair of different places of which one imports the other."""
    pairs = {
        (place(module), place(target))
        for module, targets in imports.items()
        for target in targets
        if module.count(".") and target.count(".")
    }
    return {(module, target) for module, target in pairs if module != target}


def measure(root: Path) -> dict[str, float]:
    """Return the figures of the tree below `root`."""
    source = root / "src" / "paddock"
    texts = {str(path.relative_to(source)): path.read_text() for path in sorted(source.rglob("*.py"))}
    trees = {path: ast.parse(text) for path, text in texts.items()}
    lengths = [len(text.splitlines()) for text in texts.values()]
    lines = sum(lengths)
    functions = [name for tree in trees.values() for name in list_functions(tree)]
    names = {
        path: "paddock." + path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        for path in texts
    }
    names = {path: name.removesuffix(".__init__") for path, name in names.items()}
    modules = frozenset(names.values())
    imports = {
        names[path]: frozenset(list_imports(tree, names[path], modules)) for path, tree in trees.items()
    }
    places = {module: find_room(module, modules) for module in modules if module.count(".")}
    floors = count_arrows(imports, lambda module: module.split(".")[1])
    repeated = count_repeated_classes(trees.values())
    once = sum(map(count_helpers_used_once, trees.values()))
    silenced = sum(text.count("# noqa") for text in texts.values())
    return {
        "files": len(texts),
        "lines": lines,
        "lines of the median file": statistics.median(lengths),
        "longest file": max(lengths),
        "functions": len(functions),
        "functions named by one word, %": round(
            100 * sum("_" not in name for name in functions) / len(functions), 1
        ),
        "functions named by a participle": sum(map(is_participle, functions)),
        "noqa per 1,000 lines": round(1000 * silenced / lines, 2),
        "import circles": len(find_circles(imports)),
        "helpers used once per 1,000 lines": round(1000 * once / lines, 2),
        "class names that occur twice": repeated,
        "folders at the top": sum(1 for path in source.iterdir() if (path / "__init__.py").is_file()),
        "files at the top": sum(1 for path in source.glob("*.py")),
        "arrows between floors": len(floors),
        "floors that import each other": len({pair for pair in floors if pair[::-1] in floors}) // 2,
        "rooms": len(set(places.values())),
        "arrows between rooms": len(count_arrows(imports, places.__getitem__)),
        "repeated lines": count_repeated_lines(texts),
    }


def measure_revision(revision: str) -> dict[str, float]:
    """Return the figures of a git revision."""
    archive = subprocess.run(
        ["git", "archive", revision, "src"], cwd=ROOT, capture_output=True, check=True
    ).stdout
    with (
        tempfile.TemporaryDirectory() as folder,
        tarfile.open(fileobj=io.BytesIO(archive)) as files,
    ):
        files.extractall(folder, filter="data")
        return measure(Path(folder))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--base", metavar="REVISION", help="a git revision to compare with")
    parser.add_argument("--json", action="store_true", help="print JSON")
    given = parser.parse_args()
    columns = {given.base: measure_revision(given.base)} if given.base else {}
    columns["now"] = measure(ROOT)
    if given.json:
        json.dump(columns, sys.stdout, indent=2)
        print()
        return
    for name in columns["now"]:
        print(f"{name:34}", *(f"{column[name]!s:>12}" for column in columns.values()))


if __name__ == "__main__":
    main()
