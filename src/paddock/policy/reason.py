"""What a decision says of itself: the rule that decided, and words for people."""

from paddock.model.request import ExecutionRequest, GuestRun, RuntimeRun, SdkCall, ServerCall, ToolRun

Reason = tuple[str, str]
"""Name of the rule that decided, and the reason for people."""


def label_request(request: ExecutionRequest) -> str:
    """Return what a reason calls a request."""
    match request.work:
        case ServerCall(server=server, tool=tool):
            return f"{server}/{tool}"
        case GuestRun():
            return "running a program"
        case SdkCall(method=method):
            return f"paddock.{method}"
        case RuntimeRun(runtime=runtime):
            return f"running a {runtime} program"
        case ToolRun(tool=tool):
            return f"tool {tool}"
