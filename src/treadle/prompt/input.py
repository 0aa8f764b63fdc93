"""Input: a person's text and images as the one user message of a turn.

Owns the shape of that message, the only one of role `user` that is not a
fragment. Invariant: the person's text is passed on unchanged, tags included; the
stored flags say that it is theirs.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct

from ..core.errors import ConfigError
from ..core.files import open_regular
from ..core.items import ImageDetail, InputImage, InputText, Message, Part
from ..core.text import whole_characters
from .machine import OpenFile, printable

__all__ = ["MAX_INPUT_CHARS", "Image", "LocalImage", "UserPart", "past_message", "user_message"]

MAX_INPUT_CHARS = 1 << 20
"""Characters of text that one input may hold."""

_MAX_IMAGE_BYTES = 20 << 20


class Image(Struct, frozen=True):
    """An image given as a data URL, or as an address on the web."""

    url: str
    detail: ImageDetail = "high"


class LocalImage(Struct, frozen=True):
    """An image in a file, read when the message is made."""

    path: Path
    detail: ImageDetail = "high"


UserPart: TypeAlias = str | Image | LocalImage


def user_message(*parts: UserPart, open_file: OpenFile = open_regular) -> Message:
    """Return a person's input as one message. Reads the files of local images.

    `open_file` opens them, where the model may read them. An image that cannot be read
    becomes a sentence that says so. Raises `ConfigError` when there is nothing to say, or
    too much.
    """
    _check(parts)
    content: list[Part] = []
    images = 0
    for part in parts:
        if isinstance(part, str):
            content.append(InputText(text=whole_characters(part)))
            continue
        images += 1
        if isinstance(part, Image):
            content.append(InputImage(image_url=part.url, detail=part.detail))
        else:
            content.extend(_local_image(part, images, open_file))
    return Message(role="user", content=tuple(content))


def past_message(parts: tuple[Part, ...]) -> Message:
    """Return an imported user message."""
    return Message(role="user", content=parts)


def _check(parts: tuple[UserPart, ...]) -> None:
    texts = [part for part in parts if isinstance(part, str)]
    if len(texts) == len(parts) and not any(text.strip() for text in texts):
        raise ConfigError("the input is empty; give it a text or an image")
    chars = sum(map(len, texts))
    if chars > MAX_INPUT_CHARS:
        raise ConfigError(
            f"the input has {chars} characters, {MAX_INPUT_CHARS} are accepted; "
            "put the rest in a file and name the file"
        )
    for part in parts:
        if isinstance(part, Image) and not part.url.startswith(("data:image/", "http")):
            raise ConfigError(
                f"{part.url[:40]!r} is no image address; use a 'data:image/…' or 'https://…' one"
            )


def _local_image(image: LocalImage, number: int, open_file: OpenFile) -> Iterator[Part]:
    shown = printable(image.path)
    try:
        url = _data_url(image.path, open_file)
    except (OSError, ValueError) as error:
        yield InputText(text=f"The image at `{shown}` could not be read: {error}")
        return
    name = shown.replace('"', "&quot;").replace("<", "&lt;").replace(">", "&gt;")
    yield InputText(text=f'<image name=[Image #{number}] path="{name}">')
    yield InputImage(image_url=url, detail=image.detail)
    yield InputText(text="</image>")


def _data_url(path: Path, open_file: OpenFile) -> str:
    if not path.is_file():
        raise ValueError("there is no such file")
    with open_file(path) as file:
        data = file.read(_MAX_IMAGE_BYTES + 1)
    if len(data) > _MAX_IMAGE_BYTES:
        raise ValueError(f"it is larger than {_MAX_IMAGE_BYTES >> 20} MiB")
    return f"data:{_media_type(data)};base64,{base64.b64encode(data).decode()}"


def _media_type(data: bytes) -> str:
    """Return the media type by the first bytes; a file name may be wrong."""
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if data.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if data.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    raise ValueError("it is not a PNG, JPEG, GIF or WebP image")
