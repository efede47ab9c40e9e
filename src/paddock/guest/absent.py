"""What programs ask for and do not have, and what does the same here: advice for those who know other worlds."""

import re

_NO_MODULES = "a program is one text without modules; call tools through servers.<name>.<tool>(...)"
_NO_NETWORK = "there is no network; call a tool: await servers.<name>.<tool>(...)"
_NO_FILES = "there are no files; call a tool: await servers.<name>.<tool>(...)"
_RETURN = "end the program with `return value`"
_ESCAPED = "the text is escaped for HTML; send it as it is"
_TIMERS = "use setTimeout, or a loop with `await sleep(ms)`"
_BYTES = (
    "texts become bytes and back by Uint8Array.fromBase64(text) and bytes.toBase64(), or by fromHex and toHex"
)
_UTF_8 = "encodeURIComponent(text) gives the bytes of UTF-8, with percent signs"
_URLS = "write addresses as texts; encodeURIComponent(part) escapes what goes into one"
_GLOBAL = "there is no global object; declare names with const or let"
_SCHEDULE = "use `await null`, or setTimeout(f, 0)"

INSTEAD = {
    "require": _NO_MODULES,
    "module": _RETURN,
    "exports": _RETURN,
    "process": "there is no Node.js; what a program is given is in `input` and `paddock.vars`",
    "fs": _NO_FILES,
    "path": _NO_FILES,
    "__dirname": _NO_FILES,
    "__filename": _NO_FILES,
    "fetch": _NO_NETWORK,
    "axios": _NO_NETWORK,
    "XMLHttpRequest": _NO_NETWORK,
    "WebSocket": _NO_NETWORK,
    "tools": "tools are in `servers`: await servers.<name>.<tool>(...)",
    "codemode": "tools are in `servers`: await servers.<name>.<tool>(...)",
    "Buffer": _BYTES,
    "atob": _BYTES,
    "btoa": _BYTES,
    "TextEncoder": _UTF_8,
    "TextDecoder": _UTF_8,
    "URL": _URLS,
    "URLSearchParams": _URLS,
    "setInterval": _TIMERS,
    "clearInterval": _TIMERS,
    "setImmediate": _SCHEDULE,
    "queueMicrotask": _SCHEDULE,
    "structuredClone": "JSON.parse(JSON.stringify(value)) copies data",
    "crypto": "make names that differ by Date.now() and Math.random(), which are no secrets",
    "performance": "Date.now() tells milliseconds",
    "global": _GLOBAL,
    "globalThis": _GLOBAL,
    "window": _GLOBAL,
    "self": _GLOBAL,
    "document": "there is no browser; a program returns data",
    "print": "use console.log",
    "alert": "use console.log",
    "lt": _ESCAPED,
    "gt": _ESCAPED,
    "amp": _ESCAPED,
    "quot": _ESCAPED,
}
"""Advice by name."""

_NOT_DEFINED = re.compile(r"([\w$]{1,32}) is not defined")
_NO_BIGINT = "Do not know how to serialize a BigInt"


def advice(name: str, message: str) -> str:
    """Return what to use in the place of that of which an error says that it does not exist; empty for other errors."""
    if name == "TypeError" and message == _NO_BIGINT:
        return "JSON has no BigInt: use String(n), or Number(n) where it is small"
    found = _NOT_DEFINED.fullmatch(message) if name == "ReferenceError" else None
    return INSTEAD.get(found[1], "") if found else ""
