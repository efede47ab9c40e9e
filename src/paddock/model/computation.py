"""Codes in answers of pure computations, and the facts of their audit records."""

from paddock.model.outcome import Status

COMPUTE_TOOL = "code.sandbox.js.run"
COMPUTE_SPAN = "tools.js.run"
SUCCESS_CODE = "success"

_CODES_BY_STATUS = {
    Status.OK: SUCCESS_CODE,
    Status.FAILED: "EVAL_ERROR",
    Status.MEMORY_LIMIT: "EVAL_ERROR",
    Status.INVALID: "INVALID_INPUT",
}


def code(status: Status) -> str:
    """Return the code of a status, in capitals."""
    return _CODES_BY_STATUS.get(status, status.value.upper())
