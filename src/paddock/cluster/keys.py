"""Keys that all replicas of a cluster share: the file of `cluster.key_file`."""

from pathlib import Path

from paddock.foundation.own_files import read_trusted
from paddock.model.errors import ConfigurationError

MIN_KEY_CHARS = 32
_MAX_KEYS = 16
_MAX_BYTES = 64 * 1024


def read_keys(file: Path) -> tuple[bytes, ...]:
    """Return the keys in a file, one per line: the first one signs, all are accepted. Raises ConfigurationError.

    To replace a key without a pause, add the new one below the old one on every replica, then swap them, then seal the
    rows anew (`reseal`), then remove the old one. Each change needs a restart of the replicas, one after the other.
    """
    try:
        text = read_trusted(file, _MAX_BYTES).decode("ascii")
        others_read = file.stat().st_mode & 0o007
    except (OSError, UnicodeDecodeError) as problem:  # NotOursError is an OSError
        why = getattr(problem, "strerror", None) or problem
        raise ConfigurationError(f"cluster.key_file: cannot read {file}: {why}") from None
    if others_read:
        raise ConfigurationError(f"cluster.key_file: every user can read {file}; run: chmod 600 {file}")
    keys = [line.strip() for line in text.splitlines() if line.strip()]
    if not keys or len(keys) > _MAX_KEYS or any(len(key) < MIN_KEY_CHARS for key in keys):
        raise ConfigurationError(
            f"cluster.key_file: {file} must have 1 to {_MAX_KEYS} keys, one per line, each of at least {MIN_KEY_CHARS} "
            'characters; make one with: python3 -c "import secrets; print(secrets.token_urlsafe(32))"'
        )
    return tuple(key.encode() for key in keys)
