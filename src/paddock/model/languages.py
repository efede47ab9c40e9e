"""The names of languages: one table for every surface.

A language name always means a program in a language runtime; `javascript` is therefore Node.js. There is one exception:
where one field of the HTTP API offers the V8 guest beside the runtimes, `javascript` and `typescript` are the guest
(`read_guest_language`), and `node` is Node.js.
"""

from collections.abc import Mapping
from types import MappingProxyType

ALIASES: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(("javascript", "js", "nodejs", "node.js", "ecmascript", "mjs", "cjs"), "node"),
        **dict.fromkeys(("ts", "mts", "cts"), "typescript"),
        **dict.fromkeys(("py", "python3"), "python"),
        **dict.fromkeys(("bash", "sh"), "shell"),
        **dict.fromkeys(("pwsh", "ps1"), "powershell"),
        "golang": "go",
        **dict.fromkeys(("kt", "kts", "kotlin_script"), "kotlin"),
        **dict.fromkeys(("rs", "rustlang"), "rust"),
        **dict.fromkeys(("c++", "cxx"), "cpp"),
        **dict.fromkeys(("c#", "cs", "csx"), "csharp"),
        "rb": "ruby",
        "pl": "perl",
        "rscript": "r",
        **dict.fromkeys(("ex", "exs"), "elixir"),
    }
)
"""Other names of the built-in runtimes, in lower case. A language that settings add has none of these names."""
_GUEST_ALIASES = {
    "javascript": "javascript",
    "js": "javascript",
    "typescript": "typescript",
    "ts": "typescript",
}


def read_language(name: str) -> str:
    """Return the runtime that a name means: the name in lower case, or the runtime that it is an alias of."""
    lower = name.lower()
    return ALIASES.get(lower, lower)


def read_guest_language(name: str) -> str | None:
    """Return the language of the V8 guest that a name means: `javascript` or `typescript`; None for another name."""
    return _GUEST_ALIASES.get(name.lower())
