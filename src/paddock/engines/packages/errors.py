"""Why there is no environment with the packages of a program."""

from paddock.model.errors import PaddockError
from paddock.model.outcome import Status


class PackagesError(PaddockError):
    """Packages cannot be provided. `status` is that of the program, which did not start; `hint` is the remedy."""

    def __init__(self, message: str, hint: str = "", *, status: Status = Status.UNAVAILABLE) -> None:
        super().__init__(message)
        self.hint = hint
        self.status = status
