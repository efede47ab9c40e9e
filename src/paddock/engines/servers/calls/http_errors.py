"""The meaning of an HTTP answer without a result, and its remedy."""

import re
from http import HTTPStatus

from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_REQUEST, PARSE_ERROR

from paddock.engines.servers.calls.call_errors import Trace
from paddock.engines.servers.config import HttpServer
from paddock.model.errors import ServerUnavailable
from paddock.model.urls import render_origin

_STAND_INS = frozenset({"Not Found", "Session terminated", "Server returned an error response"})
"""The library's error texts for a refusal with an empty body."""
_MEDIA_TYPE_PATTERN = re.compile(r"[\w.+-]+/[\w.+-]+", re.ASCII)
_MAX_MEDIA_TYPE_CHARS = 60
_START = "Start it, or correct its `url`"
_RETRYABLE_STATUSES = (429, 502, 503, 504)
_WRONG_URL_STATUSES = (404, 405, 406, 410, 415, 421)


def find_request_error(server: HttpServer, error: MCPError, trace: Trace) -> ServerUnavailable | None:
    """Return the error for a request without an answer of the protocol; None if `error` is the server's own answer."""
    name, status = server.name, trace.status
    if trace.cause:
        retryable = not trace.sent
        if trace.sent:
            text = f"Server {name} at {render_origin(server.url)} sent no answer: {trace.cause}."
        else:
            where = f"{name} at {render_origin(server.url)}"
            text = f"no connection to server {where}: {trace.cause}. {trace.remedy or _START}."
        return ServerUnavailable(text, retryable=retryable, sent=trace.sent)
    if trace.fault:
        return ServerUnavailable(f"Server {name} sent no complete answer: {trace.fault}.", sent=True)
    if status is None or (why := _explain_status(error, trace, status)) is None:
        return None
    sent = status < HTTPStatus.MULTIPLE_CHOICES or status >= HTTPStatus.INTERNAL_SERVER_ERROR
    return ServerUnavailable(f"Server {name} {why}", retryable=status in _RETRYABLE_STATUSES, sent=sent)


def _explain_status(error: MCPError, trace: Trace, status: int) -> str | None:
    if HTTPStatus.MULTIPLE_CHOICES <= status < HTTPStatus.BAD_REQUEST:
        leads = f" and leads to {trace.place}" if trace.place else ""
        return f"answers HTTP {status}{leads}; correct its `url`."
    if status >= HTTPStatus.BAD_REQUEST:
        return f"answers HTTP {status}{_suggest_remedy(status)}." if error.message in _STAND_INS else None
    if error.code == PARSE_ERROR and error.message.startswith("Failed to parse"):
        return "answers with something other than a message of the protocol."
    if error.code == INVALID_REQUEST and error.message.startswith("Unexpected content type"):
        return f"answers with {_render_content_type(trace.kind)}, which is not MCP; correct its `url`."
    if status == HTTPStatus.ACCEPTED and error.code == INVALID_REQUEST:
        return "accepts the request, but sends no answer (HTTP 202)."
    return None


def _render_content_type(kind: str) -> str:
    """Return a content type for an error text; a server may write anything there."""
    return (
        kind
        if _MEDIA_TYPE_PATTERN.fullmatch(kind) and len(kind) <= _MAX_MEDIA_TYPE_CHARS
        else "something else"
    )


def _suggest_remedy(status: int) -> str:
    if status in _WRONG_URL_STATUSES:
        return "; correct its `url`"
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        return ": too many requests; wait before the next call"
    if status in _RETRYABLE_STATUSES:
        return ": it cannot answer now; try again later"
    return "; see its own log"
