"""Input: a person's text and images as the one user message of a turn.

Owns the shape of that message, the only one of role `user` that is not a
fragment. Invariant: the person's text is passed on unchanged, tags included; the
stored flags say that it is theirs.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct

from ..core.errors import ConfigError, InvalidOption
from ..core.files import open_regular
from ..core.image_fit import MOST_BYTES, fit_image, fit_url
from ..core.items import ImageDetail, InputImage, InputText, Message, Part
from ..core.text import whole_characters
from .image_notes import unreadable_image
from .machine import OpenFile, printable
from .mentioned_files import mentioned_file, shown_path, unreadable_file

__all__ = [
    "MAX_INPUT_CHARS",
    "MOST_FILE_BYTES",
    "Image",
    "LocalFile",
    "LocalImage",
    "UserPart",
    "past_message",
    "user_message",
]

MAX_INPUT_CHARS = 1 << 20
"""Characters of text that one input may hold."""


MOST_FILE_BYTES = 1 << 20
"""The largest text file that is read for a message."""


class Image(Struct, frozen=True):
    """An image given as a data URL, or as an address on the web."""

    url: str
    detail: ImageDetail = "high"


class LocalImage(Struct, frozen=True):
    """An image in a file, read when the message is made."""

    path: Path
    detail: ImageDetail = "high"


class LocalFile(Struct, frozen=True):
    """A text file whose contents the model reads, read when the message is made."""

    path: Path


UserPart: TypeAlias = str | Image | LocalImage | LocalFile


def user_message(
    *parts: UserPart, open_file: OpenFile = open_regular, refuse: bool = False
) -> Message:
    """Return a person's input as one message. Reads the files of local parts.

    `open_file` opens them, where the model may read them. An image that cannot be read
    becomes a sentence that says so; with `refuse`, it raises `InvalidOption`. Raises
    `ConfigError` when there is nothing to say, or too much.
    """
    _check(parts)
    content: list[Part] = []
    images = 0
    for part in parts:
        if isinstance(part, str):
            content.append(InputText(text=whole_characters(part)))
            continue
        if isinstance(part, LocalFile):
            content.append(_local_file(part, open_file))
            continue
        images += 1
        if isinstance(part, Image):
            content.append(_given_image(part, images, refuse=refuse))
        else:
            content.extend(_local_image(part, images, open_file, refuse=refuse))
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


def _given_image(image: Image, number: int, *, refuse: bool) -> Part:
    try:
        url = fit_url(image.url, original=image.detail == "original")
    except ValueError as error:
        if refuse:
            raise _no_image(f"image {number} of the input", error) from error
        return unreadable_image(f"Image #{number}", str(error))
    return InputImage(image_url=url, detail=image.detail)


def _local_image(
    image: LocalImage, number: int, open_file: OpenFile, *, refuse: bool
) -> Iterator[Part]:
    shown = printable(image.path)
    try:
        data = _read_image(image.path, open_file)
        url = fit_image(data, original=image.detail == "original")
    except (OSError, ValueError) as error:
        if refuse:
            raise _no_image(repr(str(image.path)), error) from error
        yield unreadable_image(f"The image at `{shown_path(shown)}`", str(error))
        return
    yield InputText(text=f'<image name=[Image #{number}] path="{shown_path(shown)}">')
    yield InputImage(image_url=url, detail=image.detail)
    yield InputText(text="</image>")


def _no_image(what: str, error: Exception) -> InvalidOption:
    why = getattr(error, "strerror", None) or str(error)
    return InvalidOption(f"{what} cannot be sent as an image: {why}; name a whole image file")


def _local_file(file: LocalFile, open_file: OpenFile) -> InputText:
    shown = printable(file.path)
    try:
        with open_file(file.path) as opened:
            data = opened.read(MOST_FILE_BYTES + 1)
    except OSError as error:
        return unreadable_file(shown, error.strerror or str(error))
    if len(data) > MOST_FILE_BYTES:
        return unreadable_file(shown, f"it is larger than {MOST_FILE_BYTES >> 20} MiB")
    if b"\0" in data:
        return unreadable_file(shown, "it is not text")
    return mentioned_file(shown, data.decode(errors="replace"))


def _read_image(path: Path, open_file: OpenFile) -> bytes:
    if not path.is_file():
        raise ValueError("there is no such file")
    with open_file(path) as file:
        data = file.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise ValueError(f"it is larger than {MOST_BYTES >> 20} MiB")
    return data
