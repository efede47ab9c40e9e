"""How programs in Python show values as text: it follows the text of `display.py` in one file."""

from _collections import OrderedDict, defaultdict, deque


class _Raw(str):
    """A text that is shown as it is."""

    __slots__ = ()


def _format(value, column=0, indent=0, tail=0, outer=()):
    """Return the text of a value as notebooks show it: a container that does not fit into a line has an item a line.

    The text begins at `column`, and `tail` characters follow it; `outer` are the identities of what contains it.
    """
    text = _format_flat(value, outer)
    parts = _split(value)
    if parts is None or id(value) in outer:
        return text.replace("\n", "\n" + " " * indent)
    if "\n" not in text and column + len(text) + tail <= _LINE_CHARS:
        return text
    opening, items, closing = parts
    inner, column, outer = indent + len(opening), column + len(opening), (*outer, id(value))
    shown = []
    for number, (key, item) in enumerate(items, 1):
        prefix = _format_prefix(key, outer)
        after = 1 if number < len(items) else len(closing) + tail
        shown.append(prefix + _format(item, column + len(prefix), inner, after, outer))
        column = inner
    return opening + (",\n" + " " * inner).join(shown) + closing


def _format_flat(value, outer=()):
    parts = _split(value)
    if parts is None:
        return _describe_leaf(value)
    opening, items, closing = parts
    if id(value) in outer:
        return opening + "..." + closing
    outer = (*outer, id(value))
    return (
        opening
        + ", ".join(_format_prefix(key, outer) + _format_flat(item, outer) for key, item in items)
        + closing
    )


def _format_prefix(prefix, outer):
    if isinstance(prefix, _Raw):
        return prefix
    return _format_flat(prefix[0], outer) + ": "


def _split(value):
    """Return the opening, the items with what precedes them, and the end of a container; None for any other value."""
    kind = type(value)
    calls = _list_calls()
    base = next(
        (each for each in kind.__mro__ if each in _BASES or each in calls or "__repr__" in vars(each)), None
    )
    if base is list:
        return "[", _list_items(value, len(value)), "]"
    if base is tuple:
        return "(", _list_items(value, len(value)), ",)" if len(value) == 1 else ")"
    if base is dict:
        items = [((key,), value[key]) for key in itertools.islice(value, _MAX_ITEMS)]
        return "{", items + [(_NONE, _Raw("..."))] * (len(value) > _MAX_ITEMS), "}"
    if base in (set, frozenset) and value:
        opening, closing = ("{", "}") if base is set else (kind.__name__ + "({", "})")
        return opening, _list_items(_sort(value), len(value)), closing
    if base in calls and (value or base.__name__ not in ("OrderedDict", "Counter")):
        name, list_arguments = calls[base]
        return (name or _name_class(kind).rpartition(".")[2]) + "(", list_arguments(value), ")"
    if base is BaseException:
        return _name_class(kind) + "(", [(_NONE, item) for item in value.args], ")"
    return None


def _sort(items):
    if len(items) > _MAX_ITEMS:
        return items
    try:
        return sorted(items)
    except Exception:
        return sorted(items, key=str)


def _list_pattern(value):
    flags = "|".join("re." + name for name in _FLAGS if value.flags & getattr(re, name))
    pattern = _Raw("r" + repr(value.pattern).replace("\\\\", "\\"))
    return [(_NONE, pattern)] + [(_NONE, _Raw(flags))] * bool(flags)


def _list_items(values, count):
    items = [(_NONE, item) for item in itertools.islice(values, _MAX_ITEMS)]
    return items + [(_NONE, _Raw("..."))] * (count > _MAX_ITEMS)


def _describe_leaf(value):
    if isinstance(value, _Raw):
        return str(value)
    kind = type(value)
    if isinstance(value, type) and kind.__repr__ is type.__repr__:
        return _name_class(value)
    if kind in (type(_split), type(len)):
        try:
            return "<function %s%s>" % (_name_class(value), _import_standard("inspect").signature(value))
        except (TypeError, ValueError):
            return "<function %s>" % _name_class(value)
    if kind.__repr__ is object.__repr__:
        return "<%s at 0x%x>" % (_name_class(kind), id(value))
    return repr(value)


def _name_class(named):
    """Return the qualified name of a class or function."""
    name = getattr(named, "__qualname__", getattr(named, "__name__", ""))
    module = getattr(named, "__module__", None)
    return name if module in (None, "builtins") else "%s.%s" % (module, name)


_FLAGS = ("IGNORECASE", "LOCALE", "MULTILINE", "DOTALL", "UNICODE", "VERBOSE", "DEBUG")
_NONE = _Raw("")
_BASES = {list, tuple, dict, set, frozenset, BaseException}
_CALLS = {
    deque: (
        "",
        lambda value: [(_NONE, list(value))] + [(_Raw("maxlen="), value.maxlen)] * (value.maxlen is not None),
    ),
    OrderedDict: ("", lambda value: [(_NONE, list(value.items()))]),
    defaultdict: ("", lambda value: [(_NONE, value.default_factory), (_NONE, dict(value))]),
    type(vars(type)): ("mappingproxy", lambda value: [(_NONE, dict(value))]),
    type(sys.implementation): (
        "namespace",
        lambda value: [(_Raw(key + "="), item) for key, item in vars(value).items()],
    ),
}
"""How values are shown that look like a call: its name, that of the class if empty, and what gives its arguments."""
_MORE_CALLS = {
    ("collections", "Counter"): ("", lambda value: [(_NONE, dict(value.most_common()))]),
    ("re", "Pattern"): ("re.compile", _list_pattern),
}
"""The same for classes of modules without which no program has such a value."""


def _list_calls():
    for (module, name), call in list(_MORE_CALLS.items()):
        kind = getattr(sys.modules.get(module), name, None)
        if kind is not None:
            _CALLS[kind] = call
            _MORE_CALLS.pop((module, name), None)
    return _CALLS
