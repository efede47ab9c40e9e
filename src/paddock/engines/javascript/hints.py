"""Hints for programs that use what other environments have and Paddock does not.

A hint that has nothing to do with the error misleads its reader. Therefore a hint needs evidence: a name that means
nothing else, or the way in which the name is used. Without evidence there is no hint.
"""

import re

from paddock.engines.javascript.expressions import (
    ErrorSite,
    find_assignment,
    find_callee,
    find_iterated,
    gives_promise,
    split_names,
)
from paddock.model.compat import SDK_ALIAS
from paddock.model.outcome import ErrorInfo
from paddock.model.texts import FENCED, find_nearest

_NO_MODULES = "a program is one text without modules; call tools through servers.<name>.<tool>(...)"
_NO_NETWORK = "there is no network; call a tool: await servers.<name>.<tool>(...)"
_NO_FILES = "there are no files; call a tool: await servers.<name>.<tool>(...)"
_RETURN = "end the program with `return value`"
_HTML_ESCAPED = "the text is escaped for HTML; send it as it is"
_BYTES = "use Uint8Array: TextEncoder and TextDecoder for texts, fromBase64 and toBase64, fromHex and toHex"
_GLOBAL = "the global object is `globalThis`"
_NO_THIS = "`this` is undefined in a function that is called without an object: call it as `object.method()`"
_SCHEDULE = "use queueMicrotask(f), or setTimeout(f, 0)"
_TOOLS = "tools are in `servers`: await servers.<name>.<tool>(...)"
_INPUTS = "a program's inputs are in `input` and `paddock.vars`"
_NODE = f"there is no Node.js; {_INPUTS}"
_BROWSER = "there is no browser; a program returns data"
_PYTHON = "this is JavaScript: true, false, null"

HINTS_BY_NAME = {
    "require": _NO_MODULES,
    "module": _RETURN,
    "exports": _RETURN,
    "process": _NODE,
    "Deno": _NODE,
    "Bun": _NODE,
    "os": _NODE,
    "vars": _INPUTS,
    "args": _INPUTS,
    "argv": _INPUTS,
    "env": _INPUTS,
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
    "Buffer": _BYTES,
    "setImmediate": _SCHEDULE,
    "global": _GLOBAL,
    "window": _GLOBAL,
    "document": _BROWSER,
    "localStorage": _BROWSER,
    "print": "use console.log",
    "alert": "use console.log",
    "True": _PYTHON,
    "False": _PYTHON,
    "None": _PYTHON,
    "lt": _HTML_ESCAPED,
    "gt": _HTML_ESCAPED,
    "amp": _HTML_ESCAPED,
    "quot": _HTML_ESCAPED,
}
"""Hints by name."""

_CALL_SYNTAX, _MEMBER_SYNTAX = r"\s*\(", r"\s*(?:\?\.|\.|\[)"
_USE_PATTERNS = {
    **dict.fromkeys(("exec", "print", "alert"), _CALL_SYNTAX),
    **dict.fromkeys(("tools", "codemode", "mcp", "server", "os", "fs", "module", "exports"), _MEMBER_SYNTAX),
    **dict.fromkeys(("document", "window", "global"), _MEMBER_SYNTAX),
    "path": r"\s*\.\s*(?:join|resolve|basename|dirname|extname|relative|parse|normalize|isAbsolute|sep)\b",
    **dict.fromkeys(("lt", "gt", "amp", "quot"), r"\s*;"),
}
"""Required use of a name that could also be a variable that the program forgot to declare."""

_NOT_DEFINED = re.compile(r"([\w$]{1,64}) is not defined")
_NO_LOG = re.compile(r"console\.\w+ is not a function")
_NOT_READ = re.compile(r"Cannot read properties of (?:undefined|null) \(reading '([^']{1,64})'\)")
_NOT_OF_THIS = re.compile(r"Cannot (read|set) properties of undefined \((?:reading|setting) '([^']{1,64})'\)")
_NO_FUNCTION = re.compile(r"(.{1,200})\.([A-Za-z_$][\w$]{0,40}) is not a function", re.DOTALL)
_ASKED_BY_JAVASCRIPT = ("then", "toString", "valueOf")
_SERVER = re.compile(r"servers(?:\.[\w$]{1,64}|\[.{1,64}\])")
_NOT_ITERABLE = re.compile(
    r"(?:(.{1,200}) is not iterable|undefined is not iterable \(cannot read property Symbol\(Symbol\.iterator\)\))",
    re.DOTALL,
)
_CALL_NOT_ITERABLE = re.compile(
    r"(.{1,200}) is not a function or its return value is not iterable", re.DOTALL
)
_OBJECT_NOT_ITERABLE = "object is not iterable (cannot read property Symbol(Symbol.iterator))"
_ITERATES = re.compile(r"(?:new\s+)?[\w$]{1,64}\(\s*")
"""What goes through all members of its argument: `new Map(`, `fromEntries(`."""
_OF_KEYS = re.compile(r"(?:keys|values|entries|getOwnPropertyNames)\(\s*")
_OF_A_MESSAGE = re.compile(r"\.(?:content|structuredContent)$")
_OF_ITS_TEXT = re.compile(r"(?:\?\.)?\[?0\]\s*(?:\?\.|\.)\s*(?:text|type|data|resource)\b")
_READ_AS_JSON = re.compile(r"parse\([^)\n]{0,200}(?:\bcontent\b|\bstructuredContent\b)")
_LOGS = "console has log, info, warn, error, debug, dir, table, group, count, time, assert and trace"
_RESULT = (
    "a tool's result is its data, or its text: data needs no JSON.parse, and there is no `content[0].text`; "
    "servers.<name>.callRaw(tool, args) gives the whole message"
)
_BIG = (
    "whole numbers beyond 2**53 are BigInt: calculate with BigInt alone (`n + 1n`, `BigInt(m)`), "
    "or with Number(n), which may lose the last digits"
)
_ALREADY_DATA = "this is data already, as the result of a tool is: leave JSON.parse out"
_IS_AWAITED = re.compile(r"await\b|Promise\b")
_MAPPED = re.compile(r".{0,500}?\.map\(\s*(?:\([^()]{0,200}\)|[\w$]{1,64})\s*=>\s*")
_A_PROMISE = "a call returns a promise: put `await` before it"
_NO_CODE = "a program cannot run a string as code: write the code itself; JSON.parse(text) reads data"
_BY_MESSAGE = {
    ("EvalError", "Code generation from strings disallowed for this context"): _NO_CODE,
    ("SyntaxError", '"[object Object]" is not valid JSON'): _ALREADY_DATA,
    ("SyntaxError", "Unexpected token 'o', \"[object Promise]\" is not valid JSON"): _A_PROMISE,
    ("TypeError", "Do not know how to serialize a BigInt"): (
        "JSON cannot carry a BigInt of more than 4,000 digits: use String(n)"
    ),
    ("TypeError", "Cannot mix BigInt and other types, use explicit conversions"): _BIG,
    ("TypeError", "Cannot convert a BigInt value to a number"): _BIG,
}


_METHOD_NAMES = (
    "at charAt charCodeAt codePointAt concat endsWith includes indexOf lastIndexOf localeCompare match "
    "matchAll normalize padEnd padStart repeat replace replaceAll search slice split startsWith substring "
    "toLowerCase toUpperCase toString trim trimEnd trimStart every fill filter find findIndex findLast "
    "flat flatMap forEach join keys map pop push reduce reduceRight reverse shift some sort splice "
    "toReversed toSorted toSpliced unshift values with entries has get set add delete clear union "
    "intersection difference then catch finally all allSettled race any resolve reject assign fromEntries "
    "hasOwn freeze isArray from of parse stringify toISOString getTime getFullYear getMonth getDate "
    "getDay getHours getMinutes toFixed toPrecision isInteger isFinite isNaN parseInt parseFloat test "
    "exec abs ceil floor max min pow random round sqrt trunc groupBy "
)
_METHODS = _METHOD_NAMES.split()
"""Methods of ECMAScript's objects, for comparison with a misspelt one."""
_FOREIGN_METHODS = {
    "contains": "includes",
    "append": "push",
    "strip": "trim",
    "lower": "toLowerCase",
    "upper": "toUpperCase",
}
"""Methods of other languages, whose names mean nothing else, and their names in JavaScript."""
_MIN_SIMILARITY = 0.82

_EMIT = "a computation outputs its result with emit(text), once or several times"
_READ = "read_input() returns the input, a string"
_ALONE = "a computation has its input and nothing else: no modules, files, network or servers"
_AT_ONCE = "a computation has no timers, and nothing to wait for"
_INTL = "Intl is available with `limits.deterministic: false`"
_PLAIN = "a computation is plain JavaScript, without types"
_COMPUTING = {
    _EMIT: "console print alert process document output module exports",
    _READ: "input readInput stdin args argv paddock",
    _ALONE: "require fetch axios XMLHttpRequest fs os path servers tools mcp callTool Deno Bun Buffer",
    _AT_ONCE: "setTimeout setInterval setImmediate sleep clearTimeout queueMicrotask",
    _INTL: "Intl",
    _PYTHON: "True False None",
}
_IN_COMPUTATIONS = {name: hint for hint, names in _COMPUTING.items() for name in names.split()}
_IN_SCRIPTS = {
    "Illegal return statement": _EMIT,
    "Cannot use import statement outside a module": _ALONE,
    "Unexpected token 'export'": _EMIT,
}
_USED_IN_COMPUTATIONS = {
    **dict.fromkeys(("print", "alert", "output", "exec"), _CALL_SYNTAX),
    **dict.fromkeys(("document", "module", "exports", "servers", "tools", "mcp", "os", "fs"), _MEMBER_SYNTAX),
    "path": _USE_PATTERNS["path"],
}
_AWAIT_BEFORE_PATTERN = re.compile(r"\bawait\b\s*$")
_AWAIT_PATTERN = re.compile(r"await\b\s*[\w$(\[{'\"`]")
_ONLY_ASYNC = "await is only valid in async functions"
_CALLED, _CALLED_WITH_OBJECT = re.compile(r"\s*\("), re.compile(r"\s*\(\s*\{")
_MAX_SPACE_CHARS = 20
_TYPE_PATTERN = re.compile(
    r":\s*(?:string|number|boolean|any|unknown|void|Record<|Array<)|^(?:interface|type|enum) \w"
)
_TYPE_CONTEXT_CHARS = 40
"""Characters before and after a syntax error in which a type counts as its reason."""


def write_hint(error: ErrorInfo, source: str) -> str:
    """Return a hint on what to write instead; "" if that is not clear."""
    site = ErrorSite.of(error, source)
    if hint := _BY_MESSAGE.get((error.name, error.message)):
        return hint
    if error.name == "SyntaxError" and error.message == '"undefined" is not valid JSON':
        return _RESULT if site and _READ_AS_JSON.match(site.after) else ""
    if error.name == "ReferenceError":
        return _of_a_name(error, site, HINTS_BY_NAME, _USE_PATTERNS)
    if error.name != "TypeError":
        return ""
    if _NO_LOG.fullmatch(error.message):
        return _LOGS
    if site is None:
        return ""
    if _is_of_this(error, site):
        return _NO_THIS
    return _of_a_promise(error, site, source) or _of_a_result(error, site) or _of_a_method(error)


def find_called_names(error: ErrorInfo, source: str) -> list[str]:
    """Return the names by which a program tried to call a tool, such as `["g", "search"]` for `g.search`."""
    site = ErrorSite.of(error, source)
    if site is None:
        return []
    if error.name == "ReferenceError" and (found := _NOT_DEFINED.fullmatch(error.message)):
        return split_names(site.next(found[1]))
    if error.name != "TypeError":
        return []
    if (found := _NO_FUNCTION.fullmatch(error.message)) and found[1] == "servers":
        return ["servers", found[2]]
    if (found := _NOT_READ.fullmatch(error.message)) and site.base().startswith(
        ("paddock.", f"{SDK_ALIAS}.")
    ):
        return [*split_names(site.base()), found[1]]
    return []


def calls_missing_tool(error: ErrorInfo, source: str) -> bool:
    """Return whether the text shows that an undefined name was meant as a tool.

    It is awaited, or called with an object that is written there, or its name joins words by underscores.
    """
    site, found = ErrorSite.of(error, source), _NOT_DEFINED.fullmatch(error.message)
    if site is None or error.name != "ReferenceError" or found is None:
        return False
    called = site.next(found[1])
    before, _, after = site.after.partition(called) if called else ("", "", "")
    if not _CALLED.match(after):
        return False
    is_awaited = _AWAIT_BEFORE_PATTERN.search(f"{site.before[-_MAX_SPACE_CHARS:]}{before}") is not None
    return is_awaited or "_" in called.strip("_") or _CALLED_WITH_OBJECT.match(after) is not None


def _of_a_name(error: ErrorInfo, site: ErrorSite | None, advice: dict[str, str], used: dict[str, str]) -> str:
    """Return the hint on an undefined name, if the program uses it as another environment's name."""
    found = _NOT_DEFINED.fullmatch(error.message)
    if found is None or (name := found[1]) not in advice:
        return ""
    if (way := used.get(name)) is None:
        return advice[name]
    if site is None:
        return ""
    before = "&" if way == _USE_PATTERNS["lt"] else r"(?<![\w$.])"
    text = site.before[-1:] + site.after
    return advice[name] if re.search(rf"{before}{re.escape(name)}{way}", text) else ""


def _is_of_this(error: ErrorInfo, site: ErrorSite) -> bool:
    if (found := _NOT_OF_THIS.fullmatch(error.message)) is None:
        return False
    if found[1] == "read":  # the position is that of the member; for an assignment, that of the `=`
        return site.base() == "this"
    return re.search(rf"(?<![\w$.])this\s*\.\s*{re.escape(found[2])}\s*$", site.before) is not None


def _of_a_promise(error: ErrorInfo, site: ErrorSite, source: str) -> str:
    """Return the hint on a promise whose value was used without `await`, if the text shows that."""
    if (called := _find_iterated_call(error, site)) and gives_promise(called, source):
        return f"{_A_PROMISE}, `await {called}(...)`"
    base = _find_base(error, site)
    base = re.sub(r"^\(\s*await\b\s*(.*)\)$", r"\1", base, flags=re.DOTALL)
    if (direct := find_callee(base)) and gives_promise(direct, source):
        rest = base.rpartition(")")[2]
        return f"the call returns a promise; await it first: `(await {direct}(...)){rest}`"
    names = split_names(base)
    if not names or not re.match(r"[A-Za-z_$]", base):
        return ""
    for name in (names[0], find_iterated(names[0], site.before)):
        if name and _holds_promises(find_assignment(name, site.before).value, source):
            return f"`{name}` holds promises: `await Promise.all({name})` returns their values"
    value, whole = find_assignment(names[0], site.before)
    if (call := find_callee(value)) and gives_promise(call, source):
        what = "is" if whole else "was read from"
        return f"`{names[0]}` {what} a promise: put `await` before the call, `await {call}(...)`"
    return ""


def _find_base(error: ErrorInfo, site: ErrorSite) -> str:
    """Return the expression that is not what the program took it for; "" for other errors."""
    if _NOT_READ.fullmatch(error.message):
        return site.base()
    if found := _NO_FUNCTION.fullmatch(error.message):
        return found[1]
    if found := _NOT_ITERABLE.fullmatch(error.message):
        return found[1] or site.next()
    if error.message == _OBJECT_NOT_ITERABLE:
        return ErrorSite("", _find_iterated_text(site)).next()
    if error.message == "Cannot convert undefined or null to object" and (
        found := _OF_KEYS.match(site.after)
    ):
        return ErrorSite("", site.after[found.end() :]).next()
    return ""


def _find_iterated_call(error: ErrorInfo, site: ErrorSite) -> str:
    """Return what was called to go through all members of what it gave: `servers.g.list`; "" for other errors."""
    if found := _CALL_NOT_ITERABLE.fullmatch(error.message):
        return found[1]
    return find_callee(_find_iterated_text(site)) if error.message == _OBJECT_NOT_ITERABLE else ""


def _find_iterated_text(site: ErrorSite) -> str:
    """Return the text from what has no members to go through on."""
    found = None if site.before.rstrip().endswith("=") else _ITERATES.match(site.after)
    return site.after[found.end() if found else 0 :]


def _holds_promises(value: str, source: str) -> bool:
    """Return whether a text makes an array of promises: `ids.map(async ...)`, `ids.map((id) => servers.g.get(id))`."""
    line = value.partition("\n")[0]
    if _IS_AWAITED.match(line):
        return False
    if re.match(r".*\.map\(\s*async\b|Array\.from\(.*=>\s*servers\.", line):
        return True
    found = _MAPPED.match(line)
    return found is not None and gives_promise(find_callee(line[found.end() :]), source)


def _of_a_result(error: ErrorInfo, site: ErrorSite) -> str:
    """Return the hint on a tool's result that is used as if it were a message of the protocol."""
    if _NOT_READ.fullmatch(error.message) is None:
        return ""
    base = site.base()
    if base.endswith(".structuredContent") or (base.endswith("content") and _OF_ITS_TEXT.match(site.after)):
        return _RESULT
    if base.startswith("(") and _OF_A_MESSAGE.search(base):
        return _RESULT if re.match(r"\(\s*await\s+servers\b", base) else ""
    names = split_names(base)
    if names not in (["content"], [*names[:1], "content"]):
        return ""
    return (
        _RESULT
        if re.match(r"await\s+servers\b(?!.*\.callRaw\()", find_assignment(names[0], site.before).value)
        else ""
    )


def _of_a_method(error: ErrorInfo) -> str:
    """Return the hint on a method that does not exist; the engine's message names it."""
    found = _NO_FUNCTION.fullmatch(error.message)
    if found is not None and found[2] in _ASKED_BY_JAVASCRIPT and _SERVER.fullmatch(found[1]):
        return f'JavaScript itself uses `{found[2]}`; call the tool as {found[1]}.call("{found[2]}", args)'
    if found is None or found[1] == "servers":
        return _TOOLS if found else ""
    if found[1].startswith(("servers", "paddock", SDK_ALIAS)):
        return ""
    if name := _FOREIGN_METHODS.get(found[2]):
        return f"the method is called `{name}` in JavaScript"
    near = find_nearest(found[2], _METHODS, cutoff=_MIN_SIMILARITY)
    return f"did you mean `{near[0]}`?" if near and near[0] != found[2] else ""


def advice_for_computations(error: ErrorInfo, source: str) -> str:
    """Return a hint on what to write instead in a computation, which has fewer features; "" for other errors."""
    site = ErrorSite.of(error, source)
    if error.name == "ReferenceError":
        return _of_a_name(error, site, _IN_COMPUTATIONS, _USED_IN_COMPUTATIONS)
    if error.name == "SyntaxError":
        if "JSON" in error.message or site is None:
            return ""
        if hint := _IN_SCRIPTS.get(error.message):
            return hint
        if (
            error.message.startswith(_ONLY_ASYNC)
            or _AWAIT_BEFORE_PATTERN.search(site.before)
            or _AWAIT_PATTERN.match(site.after)
        ):
            return _AT_ONCE
        line = error.excerpt.partition("\n")[0]
        near = site.before.rpartition("\n")[2][-_TYPE_CONTEXT_CHARS:] + site.after[:_TYPE_CONTEXT_CHARS]
        return _PLAIN if _TYPE_PATTERN.search(near) or _TYPE_PATTERN.match(line) else ""
    fenced = error.name == "TypeError" and error.excerpt.startswith("```")
    return FENCED if fenced else _of_a_method(error) if error.name == "TypeError" else ""
