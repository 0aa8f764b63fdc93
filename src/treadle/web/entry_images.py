"""Images of entries, as a browser may show them.

Owns which images are given out: those that stand in the log itself and are whole. Invariant: an
image is called what its bytes say it is, and nothing is fetched from anywhere.
"""

from __future__ import annotations

from starlette.responses import Response

from ..core.entries import Entry
from ..core.errors import NotFound
from ..core.image import decode_payload, image_payload, inspect_image
from .entry_views import entry_images

__all__ = ["image_of"]


def image_of(entry: Entry, number: int) -> Response:
    """Answer with an image of an entry. Raises `NotFound` for what cannot be shown."""
    images = entry_images(entry)
    if number >= len(images):
        raise NotFound("image", number, f"the entry has {len(images)}")
    payload = image_payload(images[number])
    if payload is None:
        raise NotFound("image", number, "it does not stand in the log; nothing is fetched")
    try:
        data = decode_payload(payload)
        facts = inspect_image(data)
    except ValueError as error:
        raise NotFound("image", number, f"it cannot be shown: {error}") from None
    return Response(data, media_type=facts.media_type)
