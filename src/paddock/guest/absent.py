"""What programs ask for and do not have, and what does the same here: advice for those who know other worlds."""

import re

from paddock.model.outcome import ErrorInfo

_NO_MODULES = "a program is one text without modules; call tools through servers.<name>.<tool>(...)"
_NO_NETWORK = "there is no network; call a tool: await servers.<name>.<tool>(...)"
_NO_FILES = "there are no files; call a tool: await servers.<name>.<tool>(...)"
_RETURN = "end the program with `return value`"
_ESCAPED = "the text is escaped for HTML; send it as it is"
_TIMERS = "use setTimeout, or a loop with `await sleep(ms)`"
_BYTES = (
    "texts become bytes and back by Uint8Array.fromBase64(text) and bytes.toBase64(), or by fromHex and toHex"
)
_PERCENT = "encodeURIComponent(text) writes a text with percent signs, decodeURIComponent(text) reads it"
_UTF_8 = "encodeURIComponent(text) gives the bytes of UTF-8, with percent signs"
_URLS = "write addresses as texts; encodeURIComponent(part) escapes what goes into one"
_GLOBAL = "there is no global object; declare names with const or let"
_SCHEDULE = "use `await null`, or setTimeout(f, 0)"
_TOOLS = "tools are in `servers`: await servers.<name>.<tool>(...)"
_GIVEN = "what a program is given is in `input` and `paddock.vars`"
_NODE = f"there is no Node.js; {_GIVEN}"
_ABORT = "await Promise.race([call, sleep(ms)]) waits no longer than that for a call"
_BROWSER = "there is no browser; a program returns data"
_PYTHON = "this is JavaScript: true, false, null"

INSTEAD = {
    "require": _NO_MODULES,
    "module": _RETURN,
    "exports": _RETURN,
    "process": _NODE,
    "Deno": _NODE,
    "Bun": _NODE,
    "os": _NODE,
    "vars": _GIVEN,
    "args": _GIVEN,
    "argv": _GIVEN,
    "env": _GIVEN,
    "exec": "programs in other languages run by `await paddock.exec(runtime, code)`",
    "fs": _NO_FILES,
    "path": _NO_FILES,
    "__dirname": _NO_FILES,
    "__filename": _NO_FILES,
    "fetch": _NO_NETWORK,
    "axios": _NO_NETWORK,
    "XMLHttpRequest": _NO_NETWORK,
    "WebSocket": _NO_NETWORK,
    "Request": _NO_NETWORK,
    "Response": _NO_NETWORK,
    "Headers": _NO_NETWORK,
    "FormData": _NO_NETWORK,
    "tools": _TOOLS,
    "codemode": _TOOLS,
    "mcp": _TOOLS,
    "server": _TOOLS,
    "callTool": _TOOLS,
    "call_tool": _TOOLS,
    "AbortController": _ABORT,
    "AbortSignal": _ABORT,
    "Buffer": _BYTES,
    "atob": _BYTES,
    "btoa": _BYTES,
    "TextEncoder": _UTF_8,
    "TextDecoder": _UTF_8,
    "escape": _PERCENT,
    "unescape": _PERCENT,
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
    "document": _BROWSER,
    "localStorage": _BROWSER,
    "print": "use console.log",
    "alert": "use console.log",
    "True": _PYTHON,
    "False": _PYTHON,
    "None": _PYTHON,
    "lt": _ESCAPED,
    "gt": _ESCAPED,
    "amp": _ESCAPED,
    "quot": _ESCAPED,
}
"""Advice by name."""

_NOT_DEFINED = re.compile(r"([\w$]{1,32}) is not defined")
_NO_LOG = re.compile(r"console\.\w+ is not a function")
_OF_A_MESSAGE = re.compile(r"\.(content|structuredContent)\b|\bcontent(\?\.)?\[0\]")
_LOGS = "console has log, info, warn, error and debug"
_RESULT = (
    "a tool's result is its data, or its text: data needs no JSON.parse, and there is no `content[0].text`; "
    "servers.<name>.callRaw(tool, args) gives the whole message"
)
_BIG = (
    "whole numbers beyond 2**53 are BigInt: calculate with BigInt alone (`n + 1n`, `BigInt(m)`), "
    "or with Number(n), which may lose the last digits"
)
_NO_CODE = "a text does not become code: write the code itself; JSON.parse(text) reads data"
_BY_MESSAGE = {
    ("EvalError", "Code generation from strings disallowed for this context"): _NO_CODE,
    ("SyntaxError", '"undefined" is not valid JSON'): _RESULT,
    ("SyntaxError", '"[object Object]" is not valid JSON'): _RESULT,
    ("TypeError", "Do not know how to serialize a BigInt"): (
        "a BigInt of more than 4,000 digits goes into no JSON: use String(n)"
    ),
    ("TypeError", "Cannot mix BigInt and other types, use explicit conversions"): _BIG,
    ("TypeError", "Cannot convert a BigInt value to a number"): _BIG,
}

_EMIT = "a computation gives its result by emit(text), as often as it likes"
_READ = "read_input() gives the input, a text"
_ALONE = "a computation has its input and nothing else: no modules, files, network or servers"
_AT_ONCE = "a computation has no timers, and nothing to wait for"
_INTL = "Intl is there with `limits.deterministic: false`"
_PLAIN = "a computation is plain JavaScript, without types"
_FENCE = "send the program alone, without the fence around it"
_COMPUTING = {
    _EMIT: "console print alert process document output module exports result",
    _READ: "input readInput stdin args argv paddock",
    _ALONE: "require fetch axios XMLHttpRequest fs os path servers tools mcp callTool Deno Bun Buffer",
    _AT_ONCE: "setTimeout setInterval setImmediate sleep clearTimeout queueMicrotask",
    _INTL: "Intl",
    _PYTHON: "True False None",
}
_IN_COMPUTATIONS = {name: told for told, names in _COMPUTING.items() for name in names.split()}
_IN_SCRIPTS = {
    "Illegal return statement": _EMIT,
    "Cannot use import statement outside a module": _ALONE,
    "Unexpected token 'export'": _EMIT,
}
_WAITS = re.compile(r"\bawait\b")
_TYPED = re.compile(
    r":\s*(?:string|number|boolean|any|unknown|void|Record<|Array<)|^(?:interface|type|enum) \w"
)


def advice(error: ErrorInfo) -> str:
    """Return what to write in the place of what an error says is not there; empty for other errors."""
    if told := _BY_MESSAGE.get((error.name, error.message)):
        return told
    if error.name == "ReferenceError":
        found = _NOT_DEFINED.fullmatch(error.message)
        return INSTEAD.get(found[1], "") if found else ""
    if error.name != "TypeError":
        return ""
    if _NO_LOG.fullmatch(error.message):
        return _LOGS
    return _RESULT if _OF_A_MESSAGE.search(error.excerpt) else ""


def advice_for_computations(error: ErrorInfo) -> str:
    """Return what to write instead in a computation, which has less; empty for other errors."""
    if error.name == "ReferenceError":
        found = _NOT_DEFINED.fullmatch(error.message)
        return _IN_COMPUTATIONS.get(found[1], "") if found else ""
    if error.name == "SyntaxError":
        if "JSON" in error.message:
            return ""
        line = error.excerpt.partition("\n")[0]
        waits, typed = _WAITS.search(line), _TYPED.search(line)
        return _IN_SCRIPTS.get(error.message) or (_AT_ONCE if waits else _PLAIN if typed else "")
    fenced = error.name == "TypeError" and error.excerpt.startswith("```")
    return _FENCE if fenced else ""
