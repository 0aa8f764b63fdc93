"""Pictures: small images of every kind, made by Pillow."""

from __future__ import annotations

import base64
import io
import random

from PIL import Image

__all__ = ["data_url", "noise", "picture"]


def picture(kind: str = "png", width: int = 12, height: int = 8) -> bytes:
    """Return a picture of one colour."""
    return _saved(Image.new("RGB", (width, height), (200, 30, 30)), kind)


def noise(width: int, height: int, kind: str = "png") -> bytes:
    """Return a picture that no format makes small."""
    data = random.Random(7).randbytes(width * height * 3)
    return _saved(Image.frombytes("RGB", (width, height), data), kind)


def data_url(data: bytes, kind: str = "png") -> str:
    """Return a picture as an address."""
    return f"data:image/{kind};base64,{base64.b64encode(data).decode()}"


def _saved(image: Image.Image, kind: str) -> bytes:
    file = io.BytesIO()
    image.save(file, kind.upper())
    return file.getvalue()
