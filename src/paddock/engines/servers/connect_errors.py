"""Explain to the author of a server's entry why the server could not be reached or broke the connection.

The texts of the exceptions are for programmers, and some repeat what was sent.
"""

import os
import socket
import ssl

import httpx2

from paddock.confinement.network.http_transport import iterate_causes

_CLOSED = ("Server disconnected", "peer closed connection")


def describe_cause(error: Exception) -> str:
    """Return why a request failed, without repeating the request or the answer."""
    causes = (_of_system(each) for each in iterate_causes(error))
    return next(filter(None, causes), None) or _of_http(error)


def _of_system(error: BaseException) -> str | None:
    match error:
        case ssl.SSLCertVerificationError():
            why = error.verify_message.rstrip(".")
            return f"its certificate is not trusted: {why}; SSL_CERT_FILE can name a file with its issuer's certificate"
        case ssl.SSLError():
            return "the server does not use TLS"
        case socket.gaierror():
            return "its host name is unknown"
        case OSError() if error.errno is not None:
            return os.strerror(error.errno).lower()
        case _:
            return None


def _of_http(error: Exception) -> str:
    match error:
        case httpx2.TimeoutException():
            return "no answer in time"
        case httpx2.LocalProtocolError():
            return "the request is not valid HTTP"
        case httpx2.ProtocolError():
            return "it closed the connection" if str(error).startswith(_CLOSED) else "its answer is not HTTP"
        case httpx2.InvalidURL():
            return "its address is not valid"
        case _:
            return "the connection broke"
