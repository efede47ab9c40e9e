"""One failure in a digest."""

from paddock.model.artifact import CamelCaseModel

MESSAGE_CHARS = 200


class DigestFailure(CamelCaseModel):
    """One failure."""

    name: str | None = None
    """Code of an error, rule of a linter, or name of a test."""
    file: str | None = None
    line: int | None = None
    message: str


def failure(
    message: str, *, name: str | None = None, file: str | None = None, line: str | None = None
) -> DigestFailure:
    """Return a failure with its message cut to 200 characters; `line` must be digits."""
    text = message.strip()
    return DigestFailure(name=name, file=file, line=int(line) if line else None, message=text[:MESSAGE_CHARS])


def count_nouns(number: int, noun: str) -> str:
    """Return a number with its noun: `no errors`, `1 error`, `2 errors`."""
    return f"{number} {noun}" if number == 1 else f"{number or 'no'} {noun}s"
