"""Images: what their bytes say, before anybody is sent them.

Owns the formats that models read, by their first bytes, and whether a file is whole. The bytes
come from strangers: every reader looks at bounded slices. Invariant: what `inspect_image`
accepts has a known format and a size, is not cut short, and no checksum in it is wrong.
"""

from __future__ import annotations

import base64
import binascii
import struct
import zlib
from collections.abc import Callable, Iterator

from msgspec import Struct

__all__ = [
    "ImageFacts",
    "data_url",
    "image_payload",
    "image_size",
    "inspect_image",
    "without_broken_extras",
]

_PNG = b"\x89PNG\r\n\x1a\n"
_JPEG_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_JPEG_BARE = frozenset({0x01, *range(0xD0, 0xD9)})
_UNKNOWN = "it is not a PNG, JPEG, GIF or WebP image"
_CUT = "it is cut short; its end is missing"


class ImageFacts(Struct, frozen=True):
    """What the bytes of an image say."""

    media_type: str
    width: int
    height: int


def inspect_image(data: bytes) -> ImageFacts:
    """Return the facts about a whole image. Raises `ValueError` with a reason for people."""
    kind = next((kind for kind in _KINDS if kind.sign(data)), None)
    if kind is None:
        raise ValueError(_UNKNOWN)
    size = image_size(data)
    if size is None:
        raise ValueError(f"{_UNKNOWN}; its header cannot be read")
    if (problem := kind.problem(data)) is not None:
        raise ValueError(problem)
    return ImageFacts(kind.media_type, *size)


def image_size(head: bytes) -> tuple[int, int] | None:
    """Width and height of a PNG, JPEG, GIF or WebP from its first bytes."""
    try:
        size = next((kind.size(head) for kind in _KINDS if kind.sign(head)), None)
    except (struct.error, IndexError):
        return None
    return size if size and min(size) > 0 else None


def image_payload(url: str) -> str | None:
    """Return the base64 text of a data URL that has an image; None for any other address."""
    if url[:5].lower() != "data:":
        return None
    comma = url.find(",", 5, 512)
    kind, *parameters = url[5:comma].lower().split(";")
    if comma < 0 or not kind.startswith("image/") or "base64" not in parameters:
        return None
    return url[comma + 1 :]


def data_url(media_type: str, data: bytes) -> str:
    """Return an image as an address that holds it."""
    return f"data:{media_type};base64,{base64.b64encode(data).decode()}"


def decode_payload(text: str) -> bytes:
    """Return the bytes of a payload. Raises `ValueError` with a reason for people."""
    try:
        return binascii.a2b_base64(text, strict_mode=True)
    except (ValueError, binascii.Error):
        raise ValueError("its data is not base64") from None


def _png_size(head: bytes) -> tuple[int, int]:
    return _pair(struct.unpack_from(">II", head, 16))


def without_broken_extras(data: bytes) -> bytes:
    """Return an image without damaged parts that say nothing of its pixels, such as a profile.

    Most programs pass over these; a provider may refuse the image for them.
    """
    if not data.startswith(_PNG):
        return data
    if all(part.right for part in _png_parts(data)):
        return data
    kept = bytearray(_PNG)
    for part in _png_parts(data):
        if part.right or not part.extra:
            kept += memoryview(data)[part.start : part.end]
    return bytes(kept)


class _PngPart(Struct, frozen=True):
    name: bytes
    start: int
    end: int
    right: bool
    """Whether its checksum is."""

    @property
    def extra(self) -> bool:
        """Return whether the pixels can be read without it: its name begins with a small letter."""
        return bool(self.name[0] & 0x20)


def _png_parts(data: bytes) -> Iterator[_PngPart]:
    """Yield the parts up to the last, or to the first that is not whole."""
    at, name = len(_PNG), b""
    while name != b"IEND" and at + 12 <= len(data):
        length, name = struct.unpack_from(">I4s", data, at)
        end = at + 12 + length
        if end > len(data):
            return
        told = struct.unpack_from(">I", data, end - 4)[0]
        right = zlib.crc32(memoryview(data)[at + 4 : end - 4]) == told
        yield _PngPart(name, at, end, right)
        at = end


def _png_problem(data: bytes) -> str | None:
    name = b""
    for part in _png_parts(data):
        name = part.name
        if not part.right:
            return f"it is damaged; the checksum of its {name.decode('latin-1')!r} part is wrong"
    return None if name == b"IEND" else _CUT


def _gif_size(head: bytes) -> tuple[int, int]:
    return _pair(struct.unpack_from("<HH", head, 6))


def _gif_problem(data: bytes) -> str | None:
    try:
        at = 13 + _gif_table(data[10])
        while data[at] != 0x3B:
            if data[at] == 0x2C:
                at += 11 + _gif_table(data[at + 9])
            elif data[at] == 0x21:
                at += 2
            else:
                return "it is damaged; one of its blocks is of no known kind"
            while data[at]:
                at += data[at] + 1
            at += 1
    except IndexError:
        return _CUT
    return None


def _gif_table(flags: int) -> int:
    """Return how many bytes a table of colours has."""
    return 3 << (flags & 7) + 1 if flags & 0x80 else 0


def _jpeg_size(head: bytes) -> tuple[int, int] | None:
    at = 2
    while at + 9 <= len(head):
        if head[at] != 0xFF:
            return None
        marker = head[at + 1]
        if marker in _JPEG_FRAMES:
            height, width = struct.unpack_from(">HH", head, at + 5)
            return width, height
        # Fill bytes and bare markers carry no length.
        at += 1 if marker == 0xFF else 2
        if marker != 0xFF and marker not in _JPEG_BARE:
            at += max(struct.unpack_from(">H", head, at)[0], 2)
    return None


def _jpeg_problem(data: bytes) -> str | None:
    # Cameras write behind the end; what was cut short has no end after its last scan.
    return None if data.rfind(b"\xff\xd9") > data.rfind(b"\xff\xda") > 0 else _CUT


def _webp_size(head: bytes) -> tuple[int, int] | None:
    kind = head[12:16]
    if kind == b"VP8X":
        return _uint24(head, 24) + 1, _uint24(head, 27) + 1
    if kind == b"VP8L":
        bits = struct.unpack_from("<I", head, 21)[0]
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if kind == b"VP8 ":
        width, height = struct.unpack_from("<HH", head, 26)
        return width & 0x3FFF, height & 0x3FFF
    return None


def _webp_problem(data: bytes) -> str | None:
    return _CUT if struct.unpack_from("<I", data, 4)[0] + 8 > len(data) else None


def _uint24(data: bytes, at: int) -> int:
    return data[at] | data[at + 1] << 8 | data[at + 2] << 16


def _pair(values: tuple[int, ...]) -> tuple[int, int]:
    return values[0], values[1]


def _is_webp(head: bytes) -> bool:
    return head[:4] == b"RIFF" and head[8:12] == b"WEBP"


class _Kind(Struct, frozen=True):
    """How one format is read."""

    media_type: str
    sign: Callable[[bytes], bool]
    size: Callable[[bytes], tuple[int, int] | None]
    problem: Callable[[bytes], str | None]


_KINDS = (
    _Kind("image/png", lambda head: head.startswith(_PNG), _png_size, _png_problem),
    _Kind("image/jpeg", lambda head: head.startswith(b"\xff\xd8"), _jpeg_size, _jpeg_problem),
    _Kind(
        "image/gif", lambda head: head.startswith((b"GIF87a", b"GIF89a")), _gif_size, _gif_problem
    ),
    _Kind("image/webp", _is_webp, _webp_size, _webp_problem),
)
