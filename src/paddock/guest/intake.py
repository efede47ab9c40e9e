"""What goes to intake.js and what comes back: a program that can run, or why the text is none.

Intake runs in a worker of its own, away from programs: see intake.js for what it does. Load order there:
`SCRIPTS`; and once a text needs it, `TYPESCRIPT_SCRIPTS`, then `loadTypeScript` with the bytes of `TYPESCRIPT_WASM`.
"""

import json
from typing import Final, Literal

from paddock.guest.positions import Positions, place
from paddock.model.base import Value
from paddock.model.outcome import ErrorInfo
from paddock.model.request import Language

SCRIPTS: Final = ("vendor/acorn.js", "module_words.js", "intake.js")
"""Files of this package that define `intake(requestJson)`, in order; plain scripts."""
TYPESCRIPT_SCRIPTS: Final = ("vendor/swc.js", "typescript.js")
"""Files that TypeScript needs besides; evaluated at the first `NEEDS_TYPESCRIPT`."""
TYPESCRIPT_WASM: Final = "vendor/swc.wasm"
"""The bytes for `loadTypeScript`: an ArrayBuffer, or a base64 string."""
NEEDS_TYPESCRIPT: Final = "typescript"
"""Intake cannot answer before TypeScript is loaded: load it and ask the same again."""


class Program(Value):
    """A program ready to run."""

    code: str
    """A script whose value is an async function of one parameter, `input`; call it with no `this`."""
    language: Literal["javascript", "typescript"]
    positions: Positions


class _Answer(Value):
    ok: bool
    code: str = ""
    language: Literal["javascript", "typescript"] = "javascript"
    positions: Positions = Positions(prefix=0)
    needs: str = ""
    error: ErrorInfo | None = None


def question(source: str, language: Language) -> str:
    """Return the request that `intake` takes."""
    return json.dumps({"source": source, "language": language})


def answer(response: str, source: str) -> Program | ErrorInfo | Literal["typescript"]:
    """Read the response of `intake` to a question about `source`.

    The error carries the line, column and excerpt of the text as it was given. Raises ValueError (pydantic's) for a
    response that intake.js does not make.
    """
    read = _Answer.model_validate_json(response)
    if read.ok:
        return Program(code=read.code, language=read.language, positions=read.positions)
    if read.needs == NEEDS_TYPESCRIPT:
        return NEEDS_TYPESCRIPT
    if read.error is None or read.error.line is None or read.error.column is None:
        raise ValueError("intake refused a program without saying where")
    spot = place(read.error.line, read.error.column, source)
    return read.error.model_copy(update={"line": spot.line, "column": spot.column, "excerpt": spot.excerpt})
