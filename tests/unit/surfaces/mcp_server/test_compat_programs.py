"""The words of `sdl.runtime.execute` for the ends of programs."""

import pytest

from paddock.model.outcome import ErrorInfo, Outcome, Status
from paddock.model.request import RuntimeRun
from paddock.surfaces.mcp_server.compat.programs import build_compat_response

WORDS = {
    Status.OK: "success",
    Status.FAILED: "failure",
    Status.MEMORY_LIMIT: "failure",
    Status.OUTPUT_LIMIT: "failure",
    Status.PROCESS_LIMIT: "failure",
    Status.UNAVAILABLE: "failure",
    Status.LOST: "failure",
    Status.INVALID: "invalid",
    Status.ERROR: "error",
    Status.TIMEOUT: "timeout",
    Status.CANCELLED: "cancelled",
    Status.DENIED: "denied",
}


@pytest.mark.parametrize("status", Status)
def test_s18_s19_s21_s23_s26_words(status: Status) -> None:
    outcome = Outcome(id="r", status=status, error=ErrorInfo(name="Error", message="why"))
    response = build_compat_response(outcome, RuntimeRun(runtime="node", code="1"))
    assert response["status"] == WORDS[status]
    assert response["exitCode"] == (1 if status is Status.UNAVAILABLE else None)
