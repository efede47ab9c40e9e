"""The images of an outcome that an agent sees."""

from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from paddock.model.errors import ArtifactError
from paddock.model.outcome import Outcome

SHOWN_IMAGES = frozenset({"image/png", "image/jpeg", "image/webp", "image/gif"})
"""Media types that models read."""
MAX_IMAGES, MAX_IMAGE_BYTES = 20, 5 * 1024 * 1024
"""Maximum number of images in one answer, and maximum size of each, in bytes."""


class ShownImage(NamedTuple):
    """An image that a program displayed or stored."""

    name: str
    """Its path in the working directory; empty for a displayed value."""
    media_type: str
    """One of `SHOWN_IMAGES`. Its first bytes were compared with it."""
    data: bytes


def collect_images(outcome: Outcome) -> tuple[ShownImage, ...]:
    """Return the displayed images and then the stored ones, at most `MAX_IMAGES`; larger ones are left out."""
    return tuple(islice(_find_images(outcome), MAX_IMAGES))


def _find_images(outcome: Outcome) -> Iterator[ShownImage]:
    for result in outcome.results:
        kind = next((kind for kind in result.data if kind in SHOWN_IMAGES), "")
        data = result.read(kind)
        if data and len(data) <= MAX_IMAGE_BYTES:
            yield ShownImage("", kind, data)
    for file in outcome.files:
        if file.handle is None or file.media_type not in SHOWN_IMAGES or file.size > MAX_IMAGE_BYTES:
            continue
        try:
            yield ShownImage(file.path, file.media_type, file.read())
        except ArtifactError:  # it has just been deleted
            continue
