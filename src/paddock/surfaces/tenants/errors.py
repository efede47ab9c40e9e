"""Why a server does not serve a request. Every text is for the caller, and contains neither token nor hash."""

from paddock.model.errors import PaddockError


class UnknownToken(PaddockError):
    """No token of this server: it was never made, was revoked, or has expired. The text does not say which."""

    def __init__(self) -> None:
        super().__init__(
            "this token is not valid: it is unknown, was revoked or has expired; ask the owner of the server for a "
            "new one"
        )


class RateExceeded(PaddockError):
    """A token has made too many requests. `retry_after_s` is the time until the next one is accepted, in seconds."""

    def __init__(self, rate: int, retry_after_s: float) -> None:
        super().__init__(
            f"this token may make {rate} requests in 60 seconds; retry in {retry_after_s:.1f} seconds"
        )
        self.retry_after_s = retry_after_s


class TenantBusy(PaddockError):
    """No slot became free. Nothing started, and it is safe to retry."""


class NotPermitted(PaddockError):
    """The token lacks a right."""
