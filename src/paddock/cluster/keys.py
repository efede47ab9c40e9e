"""Keys that the machines of a cluster have in common, from files such as a mounted secret; never in the database."""

from pathlib import Path

from paddock.model.errors import ConfigurationError
from paddock.own_files import read_trusted

MIN_KEY_CHARS = 32
_MAX_FILE_BYTES = 64 * 1024


def read_keys(file: Path | None, setting: str) -> tuple[bytes, ...]:
    """Return the keys in a file, one per line; none without a file. `setting` names it in errors.

    Raises ConfigurationError, whose text has no key in it.
    """
    if file is None:
        return ()
    try:
        text = read_trusted(file, _MAX_FILE_BYTES).decode("ascii")
    except UnicodeDecodeError:
        raise ConfigurationError(f"{file}: a key is not ASCII ({setting})") from None
    except OSError as error:  # NotOursError is one
        raise ConfigurationError(f"{file}: cannot be read: {error.strerror} ({setting})") from None
    keys = [line.strip() for line in text.splitlines() if line.strip()]
    if not keys:
        raise ConfigurationError(
            f"{file}: has no key; make one: openssl rand -base64 32 > {file} ({setting})"
        )
    if any(len(key) < MIN_KEY_CHARS for key in keys):
        raise ConfigurationError(
            f"{file}: a key has less than {MIN_KEY_CHARS} characters; make one: openssl rand -base64 32 ({setting})"
        )
    return tuple(key.encode() for key in keys)
