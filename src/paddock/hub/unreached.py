"""Why a server could not be reached, or broke off, in words for whoever wrote its entry.

The words of the exceptions are for programmers, and some repeat what was sent.
"""

import os
import socket
import ssl
from collections.abc import Iterator
from typing import cast

import httpx2

_CLOSED = ("Server disconnected", "peer closed connection")


def cause(error: Exception) -> str:
    """Return what became of a request or of its answer, without a word of either."""
    told = (_of_system(each) for each in _chain(error))
    return next(filter(None, told), None) or _of_http(error)


def _of_system(error: BaseException) -> str | None:
    match error:
        case ssl.SSLCertVerificationError():
            why = error.verify_message.rstrip(".")
            return f"its certificate is not trusted: {why}; SSL_CERT_FILE may name who signed it"
        case ssl.SSLError():
            return "no TLS is spoken there"
        case socket.gaierror():
            return "its host name is not known"
        case OSError() if error.errno is not None:
            return os.strerror(error.errno).lower()
        case _:
            return None


def _of_http(error: Exception) -> str:
    match error:
        case httpx2.TimeoutException():
            return "no answer in time"
        case httpx2.LocalProtocolError():
            return "what is to be sent is no HTTP"
        case httpx2.ProtocolError():
            return "it closed the connection" if str(error).startswith(_CLOSED) else "its answer is no HTTP"
        case httpx2.InvalidURL():
            return "its address is none"
        case _:
            return "the connection broke"


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """Give an exception and what caused it; of several causes the first one."""
    while error is not None:
        yield error
        several = (
            cast("BaseExceptionGroup[BaseException]", error) if isinstance(error, ExceptionGroup) else None
        )
        error = several.exceptions[0] if several is not None else error.__cause__ or error.__context__
