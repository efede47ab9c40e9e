"""Codes of a pure computation's answers, and the facts of its audit record."""

from paddock.model.outcome import Status

TOOL = "code.sandbox.js.run"
SPAN = "tools.js.run"
SUCCESS = "success"

_CODES = {
    Status.OK: SUCCESS,
    Status.FAILED: "EVAL_ERROR",
    Status.MEMORY_LIMIT: "EVAL_ERROR",
    Status.INVALID: "INVALID_INPUT",
}


def code(status: Status) -> str:
    """Return the code of a status, in capitals."""
    return _CODES.get(status, status.value.upper())
