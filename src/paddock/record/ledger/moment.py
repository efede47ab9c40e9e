"""Parse times as people and programs write them: an age, or a date."""

import re
from datetime import UTC, datetime, timedelta

_AGO_PATTERN = re.compile(r"([0-9]{1,4})([smhdw])")
_DAY_PATTERN = re.compile(r"[0-9]{4}-?[0-9]{2}-?[0-9]{2}")
_REST_OF_DAY = timedelta(days=1, milliseconds=-1)
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def parse_moment(text: str) -> datetime:
    """Return the time of an age such as `24h` or `7d`, or of a date in ISO 8601, which is UTC without an offset.

    Raises ValueError.
    """
    if (ago := _AGO_PATTERN.fullmatch(text)) is not None:
        return datetime.now(UTC) - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
    try:
        moment = datetime.fromisoformat(text)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        raise ValueError(
            f"{text[:40]!r} is neither an age like `24h` or `7d` nor a date in ISO 8601"
        ) from None


def parse_end(text: str) -> datetime:
    """Return the last moment of a period as `parse_moment` reads it. A day without a time belongs to it as a whole.

    Raises ValueError.
    """
    moment = parse_moment(text)
    return moment + _REST_OF_DAY if _DAY_PATTERN.fullmatch(text) else moment
