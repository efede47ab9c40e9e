"""URLs as people read them: without the parts that may be secret."""

from urllib.parse import urlsplit, urlunsplit


def strip_credentials(url: str) -> str:
    """Return a URL without user and password, query and fragment. Raises ValueError for one that is not valid."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, _strip_user(parts.netloc), parts.path, "", ""))


def render_origin(url: str) -> str:
    """Return scheme, host and port of a URL, whose path may be secret, too. Raises ValueError as above."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{_strip_user(parts.netloc)}"


def _strip_user(authority: str) -> str:
    return authority.rpartition("@")[2]
