"""The head of an HTTP/1 request of a job, checked byte by byte before a parser sees it.

Two parsers may read one request in two ways (request smuggling), so that everything that allows it is refused: line
ends without carriage return, folded lines, NUL, two lengths, two hosts, a name followed by a space. RFC 9112 (2.2, 3.2,
5.1, 5.2, 6.3) allows a server to refuse all of these.
"""

import re
from typing import NamedTuple

from paddock.confinement.network.streams import BadHeadError
from paddock.model.host_names import Authority, read_authority
from paddock.model.network import HTTP_PORT
from paddock.model.printable import make_printable

_REQUEST_LINE_PATTERN = re.compile(rb"([A-Z]{1,32}) ([!-~]+) HTTP/1\.([01])")
_FIELD_PATTERN = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([!-~\x80-\xff]?[\t -~\x80-\xff]*)")
_LENGTH_PATTERN = re.compile(rb"[0-9]{1,18}")
_TARGET_PATTERN = re.compile(r"http://([^/?#]*)(/[^#]*|\?[^#]*)?", re.IGNORECASE)
_AUTHORITY_PATTERN = re.compile(r"(?:[a-z][a-z0-9+.-]*://)?([^/?#\\]*)", re.IGNORECASE)
_CONNECTION_OPTIONS = frozenset({b"close", b"keep-alive", b"te", b"proxy-connection"})
_SINGLE_FIELDS = (b"host", b"content-length", b"transfer-encoding", b"connection", b"expect")
HOP_BY_HOP = frozenset(
    {
        *(b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization", b"proxy-connection"),
        *(b"te", b"trailer", b"transfer-encoding", b"upgrade", b"expect"),
    }
)
"""Fields that concern one connection (RFC 9110, 7.6.1); the proxy does not forward them."""
_OVERRIDE_PATTERN = re.compile(
    rb"forwarded|x-forwarded(-.+)?|x-script-name"
    rb"|x-(original|rewrite|override|real|request|proxy|(ms|envoy)-original)-(url|uri|path|host|method|query)"
    rb"|x-(http-)?(url|uri|path|host|method)(-override)?"
)
_SEPARATOR_PATTERN = re.compile(rb"[^0-9a-z]")
_MAX_FIELDS = 200

Fields = list[tuple[bytes, bytes]]


class RequestHead(NamedTuple):
    """A request whose head was checked."""

    method: bytes
    target: str
    fields: Fields
    """Names in lower case, and values."""
    raw: bytes
    """The head as it was received."""

    def find(self, name: bytes) -> bytes | None:
        """Return the value of a field that may occur once."""
        return next((value for key, value in self.fields if key == name), None)


def read_request_head(raw: bytes) -> RequestHead:
    """Return the request of a head that ends with an empty line. Raises BadHeadError."""
    first, *lines = raw[:-4].split(b"\r\n")
    request = _REQUEST_LINE_PATTERN.fullmatch(first)
    if request is None:
        raise BadHeadError("the first line is not a request of HTTP/1.1 or HTTP/1.0")
    if b"#" in request[2]:
        raise BadHeadError('the target has a fragment ("#"); leave it out')
    if len(lines) > _MAX_FIELDS:
        raise BadHeadError(f"there are more than {_MAX_FIELDS} header fields")
    fields: Fields = []
    for line in lines:
        field = _FIELD_PATTERN.fullmatch(line)
        if field is None:
            raise BadHeadError("a header field is invalid")
        fields.append((field[1].lower(), field[2].rstrip(b" \t")))
    head = RequestHead(request[1], request[2].decode("ascii"), fields, raw)
    names = [name for name, _ in fields]
    for name in _SINGLE_FIELDS:
        if names.count(name) > 1:
            raise BadHeadError(f"the header field {name.decode()} occurs twice")
    length, coding = head.find(b"content-length"), head.find(b"transfer-encoding")
    if length is not None and not _LENGTH_PATTERN.fullmatch(length):
        raise BadHeadError("content-length is not a number")
    if coding is not None and (
        length is not None or coding.lower() != b"chunked" or head.raw.find(b" HTTP/1.0\r\n") >= 0
    ):
        raise BadHeadError("transfer-encoding is not chunked, or not the only length of the body")
    if b"upgrade" in names or b"http2-settings" in names:
        raise BadHeadError("the proxy does not upgrade connections; use https or a tunnel (CONNECT)")
    options = (head.find(b"connection") or b"").lower().split(b",")
    if not {option.strip(b" \t") for option in options} <= _CONNECTION_OPTIONS | {b""}:
        raise BadHeadError("the header field connection names a field that the proxy does not know")
    if (head.find(b"expect") or b"100-continue").lower() != b"100-continue":
        raise BadHeadError("the header field expect is not 100-continue")
    return head


def find_authority(
    head: RequestHead, granted: Authority | None, *, default_port: int = HTTP_PORT
) -> tuple[Authority, str]:
    """Return the host and port of a request that is not CONNECT, and its target for the host: path and query.

    In a tunnel, `granted` is where it leads; requests for others are refused. Raises BadHeadError for an invalid
    request, ValueError for an authority that is invalid, or differs from the Host field.
    """
    if head.target.startswith("/") and granted is not None:
        authority, path = granted, head.target
    elif default_port != HTTP_PORT:
        raise BadHeadError("the target does not begin with /")
    else:
        target = _TARGET_PATTERN.fullmatch(head.target)
        if target is None:
            raise BadHeadError("the target is not an address with http://; use CONNECT for https")
        authority, path = read_authority(target[1], default_port=HTTP_PORT), target[2] or "/"
    host = head.find(b"host")
    if host is None:
        raise BadHeadError("the header field host is missing")
    named = read_authority(host.decode("latin-1"), default_port=default_port)
    if named != authority:
        raise ValueError("the header field host names another host than the address")
    if granted is not None and authority != granted:
        raise ValueError(f"a request in the tunnel to {granted} names another host")
    return authority, path if path.startswith("/") else f"/{path}"


def fold_name(name: bytes) -> bytes:
    """Return the name of a header field as a server may read it: in lower case, and every separator is a hyphen.

    CGI and WSGI read `X_Method` like `X-Method` (RFC 3875, 4.1.18).
    """
    return _SEPARATOR_PATTERN.sub(b"-", name.lower())


def is_override(folded: bytes) -> bool:
    """Return whether a field names another method, path or host than the request line, and some servers follow it."""
    return _OVERRIDE_PATTERN.fullmatch(folded) is not None


def name_target(target: str) -> Authority:
    """Return what to record of a target that was refused: its authority, without user name, path and query.

    An invalid authority becomes its printable text and port 0. A target without one becomes an empty host.
    """
    match = _AUTHORITY_PATTERN.match(target)
    text = match[1].rpartition("@")[2] if match else ""
    try:
        return read_authority(text, default_port=HTTP_PORT if "://" in target else None)
    except ValueError:
        return Authority(make_printable(text), 0)


def read_connect_target(head: RequestHead) -> Authority:
    """Return where a CONNECT request leads. Raises BadHeadError, ValueError."""
    if head.find(b"content-length") not in (None, b"0") or head.find(b"transfer-encoding") is not None:
        raise BadHeadError("CONNECT has no body")
    if set(head.target) & set("/?"):
        raise ValueError("the target of CONNECT is not a host and a port")
    authority = read_authority(head.target)
    host = head.find(b"host")
    if host is not None and read_authority(host.decode("latin-1"), default_port=authority.port) != authority:
        raise ValueError("the header field host names another host than the address")
    return authority


def format_authority(authority: Authority, default_port: int) -> str:
    """Return the value of a Host field; the default port of the scheme is left out."""
    text = str(authority)
    return text.removesuffix(f":{default_port}") if authority.port == default_port else text
