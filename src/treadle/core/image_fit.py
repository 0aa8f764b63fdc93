"""Fitting images: what providers take, and images made so that they take them.

Owns the limits of providers and the one place that scales images down; it needs Pillow, the
extra `images`. Invariants: an image that fits is not touched; without Pillow an image is
checked and stays as it is, unless no provider would take it.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from msgspec import Struct

from .image import (
    ImageFacts,
    data_url,
    decode_payload,
    image_payload,
    image_size,
    inspect_image,
    without_broken_extras,
)
from .install import install_command

if TYPE_CHECKING:
    from PIL.Image import Image

__all__ = ["MOST_BYTES", "ImageLimits", "fit_image", "fit_url", "limits_of", "too_large"]

MOST_BYTES = 20 << 20
"""The largest file that is read as an image."""

_SIDE, _ORIGINAL_SIDE = 2_000, 6_000
"""Pixels: models see no more, and with many images Anthropic takes no more."""
_FITTING_CHARS = 5 << 20
"""Characters of base64 that every provider takes."""
_MOST_PIXELS, _MOST_JPEG_PIXELS = 64_000_000, 100_000_000
"""Larger ones are not unpacked: a small file can claim any size, and a pixel takes four bytes.

To scale what may be transparent takes as much again, which no JPEG is.
"""
_QUALITIES = (85, 70, 50)
_HEAD_CHARS = 1 << 18


class ImageLimits(Struct, frozen=True):
    """What a provider refuses."""

    side: int = 0
    """Pixels of the longer side; 0 for no limit."""
    chars: int = (MOST_BYTES * 4) // 3 + 4
    """Characters of base64."""


_LIMITS = {
    "anthropic": ImageLimits(side=8_000, chars=5 << 20),
    "gemini": ImageLimits(chars=20 << 20),
    "google": ImageLimits(chars=20 << 20),
    "xai": ImageLimits(chars=20 << 20),
}


def limits_of(provider: str, api: str = "") -> ImageLimits:
    """Return the limits of a provider; whoever speaks Anthropic's API has Anthropic's."""
    known = _LIMITS["anthropic"] if api == "messages" else None
    return _LIMITS.get(provider) or known or ImageLimits()


def too_large(url: str, limits: ImageLimits) -> str | None:
    """Return why a provider would refuse an image; None where it would not, as far as is known."""
    payload = image_payload(url)
    if payload is None:
        return None
    if len(payload) > limits.chars:
        return f"it has {len(payload):,} characters of base64, {limits.chars:,} are accepted"
    if limits.side:
        head = payload[:_HEAD_CHARS]
        try:
            size = image_size(decode_payload(head[: len(head) // 4 * 4]))
        except ValueError:
            return None  # whoever reads it says what is wrong
        if size is not None and max(size) > limits.side:
            return f"it is {size[0]} by {size[1]} pixels, {limits.side:,} are accepted"
    return None


def fit_url(url: str, *, original: bool = False) -> str:
    """Return an address with an image that fits; one on the web stays as it is.

    Blocks. Raises `ValueError` with a reason for people.
    """
    payload = image_payload(url)
    if payload is None:
        if url[:5].lower() == "data:":
            raise ValueError("its address says neither 'image/' nor 'base64'")
        return url
    return fit_image(decode_payload(payload), original=original)


def fit_image(data: bytes, *, original: bool = False) -> str:
    """Return an image as a data URL that every provider takes. Blocks.

    Raises `ValueError` with a reason for people where it is no image, or damaged.
    """
    data = without_broken_extras(data)
    facts = inspect_image(data)
    side = _ORIGINAL_SIDE if original else _SIDE
    if max(facts.width, facts.height) <= side and len(data) * 4 // 3 + 4 <= _FITTING_CHARS:
        return data_url(facts.media_type, data)
    try:
        from PIL import Image
    except ImportError:
        return _keep_size(facts, data)
    most = _MOST_JPEG_PIXELS if facts.media_type == "image/jpeg" else _MOST_PIXELS
    if facts.width * facts.height > most:
        raise ValueError(f"it is {facts.width} by {facts.height} pixels; make it smaller")
    try:
        with Image.open(io.BytesIO(data)) as opened:
            opened.load()
            return _scale(opened, facts.media_type, side)
    except (OSError, SyntaxError, EOFError) as error:
        raise ValueError(f"it cannot be unpacked ({error})") from error


def _keep_size(facts: ImageFacts, data: bytes) -> str:
    if len(data) > MOST_BYTES:
        raise ValueError(
            f"it is larger than {MOST_BYTES >> 20} MiB; make it smaller, or let images be scaled "
            f"down: {install_command('images')}"
        )
    return data_url(facts.media_type, data)


def _scale(image: Image, media_type: str, side: int) -> str:
    """Return the image in its own format; as JPEG where that is still too long."""
    image.thumbnail((side, side))
    if media_type in ("image/png", "image/gif"):
        data = _save(image if image.mode in ("RGB", "RGBA", "L") else image.convert("RGBA"), "PNG")
        if len(data) * 4 // 3 + 4 <= _FITTING_CHARS:
            return data_url("image/png", data)
    plain = image.convert("RGB")
    while True:
        for quality in _QUALITIES:
            data = _save(plain, "JPEG", quality=quality)
            if len(data) * 4 // 3 + 4 <= _FITTING_CHARS:
                return data_url("image/jpeg", data)
        plain = plain.resize((max(plain.width // 2, 1), max(plain.height // 2, 1)))


def _save(image: Image, kind: str, **options: int) -> bytes:
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()
