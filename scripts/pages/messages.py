"""Read the messages that users see from the source, so that a page can list all of them."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2] / "src" / "paddock"
_GAP = "…"
"""Stands for a value that a message contains."""
_FIELD = re.compile(r"\{[a-z_]+\}")

Names = dict[str, ast.expr]


def constants(module: str) -> dict[str, str]:
    """Return the constants of a module that are one text, by name."""
    names = _assigned(_parse(SOURCE / module).body)
    return {name: text for name, value in names.items() if (text := _text(value, names)) is not None}


def table_of(module: str, name: str) -> dict[str, tuple[str, ...]]:
    """Return a constant that is a dictionary of texts, or of tuples of texts."""
    value = _assigned(_parse(SOURCE / module).body)[name]
    assert isinstance(value, ast.Dict)
    rows: dict[str, tuple[str, ...]] = {}
    for key, row in zip(value.keys, value.values, strict=True):
        assert isinstance(key, ast.Constant)
        items = row.elts if isinstance(row, ast.Tuple) else [row]
        rows[str(key.value)] = tuple(text for item in items if (text := _text(item, {})) is not None)
    return rows


def arguments_of(callee: str, where: str, *keywords: str) -> Iterator[tuple[str, ...]]:
    """Yield the texts of each call of a name: its first two arguments, or these keywords; "" for what is no text."""
    path = SOURCE / where
    for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
        tree = _parse(file)
        outer = _assigned(tree.body)
        for function in [tree, *(node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))]:
            names = outer | _assigned(list(_own_nodes(function)))
            for call in _own_nodes(function):
                if isinstance(call, ast.Call) and ast.unparse(call.func).rpartition(".")[2] == callee:
                    given = {each.arg: each.value for each in call.keywords}
                    values = [given.get(name) for name in keywords] or [*call.args, None, None][:2]
                    yield tuple((value and _text(value, names)) or "" for value in values)


def _own_nodes(function: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a function or module, without those of functions in it."""
    for node in ast.iter_child_nodes(function):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node
            yield from _own_nodes(node)


def _parse(path: Path) -> ast.Module:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.AsyncFunctionDef):
            node.__class__ = ast.FunctionDef  # the same fields
    return tree


def _assigned(nodes: list[ast.AST] | list[ast.stmt]) -> Names:
    names: Names = {}
    for node in nodes:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                names[name] = value
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)):
                names |= {
                    each.id: value
                    for each, value in zip(targets, values, strict=False)
                    if isinstance(each, ast.Name)
                }
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                names[name] = value
            case _:
                pass
    return names


def _text(value: ast.expr, names: Names) -> str | None:
    """Return the text of an expression, with a gap for each value; None if it is not a text."""
    match value:
        case ast.Constant(value=str(text)):
            return _FIELD.sub(_GAP, text)
        case ast.JoinedStr(values=parts):
            return "".join(_text(part, names) or _GAP for part in parts)
        case ast.FormattedValue(value=inner):
            return _text(inner, names) if isinstance(inner, ast.Name) and inner.id.isupper() else _GAP
        case ast.Name(id=name) if name in names and names[name] is not value:
            return _text(names[name], {key: each for key, each in names.items() if key != name})
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return f"{_text(left, names) or _GAP}{_text(right, names) or _GAP}"
        case _:
            return None
