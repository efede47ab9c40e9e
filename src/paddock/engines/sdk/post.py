"""One POST over https to an address that may be untrusted; the address is checked first.

Each address of the host must be public and of another machine, or in a granted network (`send_checked`).
"""

from collections.abc import Mapping, Sequence

import httpx2

from paddock.confinement.network.dial import DialRefusedError, find_refused
from paddock.confinement.network.http_transport import describe_cause, read_url_authority, send_checked
from paddock.model.addresses import MAX_PORT, Address, is_port
from paddock.model.errors import SdkError

URL_CHARS = 2_000
ANSWER_BYTES = 64 * 1024
"""Maximum number of bytes that are read of an answer; its content does not matter."""
_TIMEOUT_S = 10.0


class NotSentError(Exception):
    """The POST did not arrive; the text says why and contains no secret."""

    def __init__(self, message: str, *, retryable: bool) -> None:
        super().__init__(message)
        self.retryable = retryable


def check_url(text: str) -> httpx2.URL:
    """Return the address in a text. Raises SdkError unless it is https with a host and without a user."""
    try:
        url = httpx2.URL(text) if len(text) <= URL_CHARS else None
    except httpx2.InvalidURL:
        url = None
    if url is None or url.scheme != "https" or not url.host or url.userinfo:
        raise SdkError(f"the url must be https://host/path without a user, of at most {URL_CHARS} characters")
    if not is_port(url.port):
        raise SdkError(f"the url names port {url.port}, but a port is 1 to {MAX_PORT}")
    try:
        read_url_authority(url)
    except httpx2.InvalidURL as error:
        raise SdkError(f"the url is not valid: {error}") from None
    return url.copy_with(fragment=None)


async def send_post(url: httpx2.URL, body: bytes, headers: Mapping[str, str], networks: Sequence[str]) -> int:
    """Send `body` and return the status of the answer, a 2xx. Takes at most 10 seconds. Raises NotSentError."""

    async def check(addresses: Sequence[Address]) -> None:
        if (refused := find_refused(addresses, [networks])) is not None:
            text = f"{url.host} leads to {refused[0]}, which is {refused[1]}"
            remedy = "name its network in `webhook_networks` under [sdk] to allow it"
            raise NotSentError(f"{text}; {remedy}", retryable=False)

    request = httpx2.Request("POST", url, content=body, headers=headers)
    try:
        answer = await send_checked(request, check, timeout_s=_TIMEOUT_S, max_bytes=ANSWER_BYTES)
    except TimeoutError:
        raise NotSentError(f"{url.host} did not answer within {_TIMEOUT_S:.0f} s", retryable=True) from None
    except DialRefusedError as error:
        raise NotSentError(str(error), retryable=True) from None
    except httpx2.HTTPError as error:
        raise NotSentError(f"{url.host}: {describe_cause(error)}", retryable=True) from None
    status = answer.status_code
    if not answer.is_success:
        raise NotSentError(f"{url.host} answered {status}", retryable=status == 429 or status >= 500)
    return status
