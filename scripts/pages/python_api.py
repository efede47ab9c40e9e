"""The names that `import paddock` offers, from their signatures and docstrings."""

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import is_dataclass
from enum import Enum

import paddock
from paddock.model import errors
from paddock.model.base import Value
from paddock.model.status import Status
from paddock.policy.settings.schema import Settings
from pages.text import described, spoken, table

HEAD = """\
# Python

<!-- Written by scripts/reference.py from the docstrings of what `paddock` exports; `make check` compares. -->

`from paddock import ...` offers these names. Importing them is cheap, because each is loaded at its first use.
[Paddock from Python](library.md) is the guide.

"""
MADE_BY_CALLERS = frozenset(
    {
        *("Answer", "BlockingPaddock", "Case", "Checker", "OutputQuery", "Paddock", "Program"),
        *("ProgramExecutor", "Settings"),
    }
)
"""What programs make themselves; everything else is in what they get."""
SEAMS = frozenset(
    {
        *(
            "ArtifactStore",
            "AuditSink",
            "ProcessGrants",
            "ProcessLimits",
            "ProcessResult",
            "ProcessUsage",
            "Sandbox",
        ),
        *("SandboxSlot", "Streams", "TierReport"),
    }
)
"""Protocols of what callers may bring, and what their methods take and return."""
_WIDTH = 88


def page() -> str:
    """Return the page."""
    kinds = [getattr(paddock, name) for name in paddock.__all__ if not name.startswith("__")]
    functions = [kind for kind in kinds if inspect.isfunction(kind)]
    raised = [kind for kind in kinds if kind not in functions and issubclass(kind, Exception)]
    others = [kind for kind in kinds if kind not in raised and kind not in functions]
    made = [part for kind in others if kind.__name__ in MADE_BY_CALLERS for part in sections(kind, "##")]
    seams = [part for kind in others if kind.__name__ in SEAMS for part in sections(kind, "###")]
    got = [
        part
        for kind in others
        if kind.__name__ not in MADE_BY_CALLERS | SEAMS
        for part in sections(kind, "###")
    ]
    called = [part for function in functions for part in function_section(function)]
    return HEAD + "\n".join(
        [
            *made,
            "## Protocols\n",
            "What the caller may pass to `Paddock`: [Parts of your own](library.md#parts-of-your-own).\n",
            *seams,
            *called,
            "## Results\n",
            *got,
            "## Exceptions\n",
            *exceptions(raised),
        ]
    )


def function_section(function: Callable[..., object]) -> Iterator[str]:
    """Yield what is told of a function."""
    [node] = ast.parse(textwrap.dedent(inspect.getsource(function))).body
    assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    node.args.args.insert(0, ast.arg("self"))
    name = function.__name__
    yield f"### `{name}()`\n\n```python\n{signature(name, node)}\n```\n\n{prose(function)}\n"


def exceptions(kinds: list[type[Exception]]) -> Iterator[str]:
    """Yield the tree of the exceptions, and what each means."""
    _, _, tree = (errors.__doc__ or "").partition("\n\n")
    yield f"```text\n{tree.strip()}\n```\n"
    yield table(
        ("exception", "meaning"), ((f"`{kind.__name__}`", " ".join(prose(kind).split())) for kind in kinds)
    )


def sections(kind: type, mark: str) -> Iterator[str]:
    """Yield what is told of a class."""
    yield f"{mark} `{kind.__name__}`\n\n{prose(kind)}\n"
    if kind is Settings:
        yield "Its members are the settings of [the configuration](configuration.md).\n"
    elif kind is Status:
        yield "Its members are the [statuses](answers.md#statuses).\n"
    elif issubclass(kind, Enum):
        texts = described(kind)
        rows = [(f"`{each.name}`", f"`{each.value}`", spoken(texts[each.name])) for each in kind]
        yield table(("member", "value", "what it is"), rows)
        yield from methods(kind, mark)
    elif issubclass(kind, Value) or is_dataclass(kind):
        yield table(("member", "type", "what it is"), members(kind))
        yield from methods(kind, mark)
    else:
        yield from methods(kind, mark)


def members(kind: type) -> Iterator[tuple[str, str, str]]:
    """Yield the rows of a value: its members, those that it inherits included."""
    texts = described(kind)
    types = {
        node.target.id: ast.unparse(_Plain().visit(node.annotation))
        for base in reversed(kind.__mro__)
        if base.__module__.startswith("paddock")
        for node in tree_of(base).body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    }
    for name in kind.model_fields if issubclass(kind, Value) else types:
        yield f"`{name}`", f"`{types[name]}`".replace("|", r"\|"), spoken(texts.get(name, ""))


class _Plain(ast.NodeTransformer):
    """Takes the bounds out of an annotation: they are checked, and would hide the type."""

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return ast.Name("PositiveInt") if node.id == "Maximum" else node

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        self.generic_visit(node)
        match node:
            case ast.Subscript(value=ast.Name(id="Annotated"), slice=ast.Tuple(elts=[kind, *_])):
                return kind
            case _:
                return node


def methods(kind: type, mark: str) -> Iterator[str]:
    """Yield the constructor, the properties and the methods of a class; of names that it only repeats, a list."""
    own = {
        node.name: node
        for node in tree_of(kind).body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    listed = () if issubclass(kind, Value | Enum) or is_dataclass(kind) else vars(kind)
    repeated = [name for name in listed if not name.startswith("_") and name not in own]
    for name, node in own.items():
        if name == "__init__" or not name.startswith("_"):
            member = inspect.getattr_static(kind, name)
            if isinstance(member, property):
                yield f"{mark}# `{kind.__name__}.{name}`\n\n{prose(member)}\n"
            else:
                title = kind.__name__ if name == "__init__" else f"{kind.__name__}.{name}"
                yield f"{mark}# `{title}()`\n\n```python\n{signature(title, node)}\n```\n\n{prose(member)}\n"
    if repeated:
        yield "Its other methods: " + ", ".join(f"`{name}`" for name in repeated) + ".\n"


def signature(title: str, node: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    """Return the signature of a method as a call, one parameter on each line when it is long."""
    arguments = node.args
    words: list[str] = []
    required = len(arguments.args) - len(arguments.defaults)
    for number, argument in enumerate(arguments.args[1:], 1):
        default = arguments.defaults[number - required] if number >= required else None
        words.append(parameter(argument, default))
    if arguments.vararg is not None:
        words.append(f"*{parameter(arguments.vararg, None)}")
    if arguments.kwonlyargs:
        words += [] if arguments.vararg is not None else ["*"]
        words += map(parameter, arguments.kwonlyargs, arguments.kw_defaults)
    head = "async " if isinstance(node, ast.AsyncFunctionDef) else ""
    end = f") -> {unquoted(node.returns)}" if node.returns and not title.endswith("Paddock") else ")"
    short = f"{head}{title}({', '.join(words)}{end}"
    return short if len(short) <= _WIDTH else f"{head}{title}(\n    " + ",\n    ".join(words) + f",\n{end}"


def parameter(argument: ast.arg, default: ast.expr | None) -> str:
    """Return one parameter of a signature."""
    kind = f": {unquoted(argument.annotation)}" if argument.annotation else ""
    return f"{argument.arg}{kind}" + (f" = {ast.unparse(default)}" if default else "")


def unquoted(annotation: ast.expr) -> str:
    """Return an annotation, without the quotes that keep it from being imported."""
    return (
        annotation.value
        if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str)
        else ast.unparse(annotation)
    )


def prose(thing: object) -> str:
    """Return a docstring as paragraphs."""
    return "\n\n".join(spoken(part) for part in (inspect.getdoc(thing) or "").split("\n\n"))


def tree_of(kind: type) -> ast.ClassDef:
    """Return the syntax tree of a class."""
    [definition] = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    assert isinstance(definition, ast.ClassDef)
    return definition
