"""The names that seed 002 gives to what becomes of a pure computation: its codes, and the facts of its audit line."""

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
    """Return the seed's code of a status; those that the seed does not know are spelled like its own."""
    return _CODES.get(status, status.value.upper())
