"""Token estimates: what an item costs before a provider has counted it.

Owns the rule of four bytes to a token and its exceptions for images, sound and
encrypted content, whose bytes say little about their cost. Invariant: an
estimate is a pure function of the item; it never fails and never decodes a
whole medium.
"""

from __future__ import annotations

import binascii
from collections.abc import Iterable

from ..core.image import image_size
from ..core.items import (
    AgentMessage,
    Compaction,
    ContextCompaction,
    CustomToolCallOutput,
    EncryptedContent,
    FunctionCallOutput,
    InputAudio,
    InputImage,
    Item,
    Message,
    Part,
    Reasoning,
    encode_item,
)
from ..core.text import BYTES_PER_TOKEN, approx_tokens
from .media import audio_seconds

__all__ = ["audio_tokens", "estimate_bytes", "estimate_item", "estimate_text"]

IMAGE_BYTES = 7373
"""What an image is worth that the model scales down."""
PATCH_SIDE = 32
MOST_PATCHES = 10_000
AUDIO_TOKENS_PER_SECOND = 10
TYPICAL_AUDIO_BYTES = 16_000
"""Bytes per second of a sound whose header says nothing."""
ENCRYPTED_OVERHEAD = 650
"""Bytes of an encrypted blob that are envelope."""

_HEAD_CHARS = 1 << 18
_TAIL_CHARS = 1 << 17


def estimate_item(item: Item, size: int | None = None) -> int:
    """Tokens `item` is worth; `size` is the length of its wire bytes where it is known."""
    return approx_tokens(estimate_bytes(item, size))


def estimate_text(text: str) -> int:
    """Tokens `text` is worth."""
    return approx_tokens(len(text.encode()))


def estimate_bytes(item: Item, size: int | None = None) -> int:
    """Bytes of `item` that a model sees, media and encrypted content at their real worth."""
    if isinstance(item, Reasoning | Compaction | ContextCompaction) and item.encrypted_content:
        return max(len(item.encrypted_content) * 3 // 4 - ENCRYPTED_OVERHEAD, 0)
    if size is None:
        size = len(encode_item(item))
    return max(size + sum(map(_correction, _parts(item))), 0)


def audio_tokens(part: InputAudio) -> int:
    """Tokens a sound is worth; a URL that holds none counts as text."""
    payload = _base64_payload(part.audio_url, "audio/")
    if payload is None:
        return estimate_text(part.audio_url)
    return _audio_payload_tokens(payload)


def _parts(item: Item) -> Iterable[Part]:
    if isinstance(item, Message | AgentMessage):
        return item.content
    if isinstance(item, FunctionCallOutput | CustomToolCallOutput):
        return () if isinstance(item.output, str) else item.output
    return ()


def _correction(part: Part) -> int:
    """What to add to the encoded size so that `part` counts what it is worth."""
    if isinstance(part, InputImage):
        payload = _base64_payload(part.image_url, "image/")
        return 0 if payload is None else _image_bytes(payload, part.detail) - len(payload)
    if isinstance(part, InputAudio):
        payload = _base64_payload(part.audio_url, "audio/")
        if payload is None:
            return 0
        return _audio_payload_tokens(payload) * BYTES_PER_TOKEN - len(payload)
    if isinstance(part, EncryptedContent):
        length = len(part.encrypted_content)
        return -(-length * 9 // 16) - length
    return 0


def _image_bytes(payload: str, detail: str | None) -> int:
    size = image_size(_decode(payload[:_HEAD_CHARS])) if detail == "original" else None
    if size is None:
        return IMAGE_BYTES
    columns, rows = (-(-side // PATCH_SIDE) for side in size)
    return BYTES_PER_TOKEN * min(columns * rows, MOST_PATCHES)


def _audio_payload_tokens(payload: str) -> int:
    total = len(payload) * 3 // 4
    start = max(len(payload) - _TAIL_CHARS, 0) // 4 * 4
    seconds = audio_seconds(_decode(payload[:_HEAD_CHARS]), _decode(payload[start:]), total)
    if seconds is None:
        seconds = total / TYPICAL_AUDIO_BYTES
    return -int(-seconds * AUDIO_TOKENS_PER_SECOND // 1)


def _base64_payload(url: str, media: str) -> str | None:
    """The base64 text of a data URL of that kind of media."""
    if url[:5].lower() != "data:":
        return None
    comma = url.find(",", 5, 512)
    kind, *parameters = url[5:comma].lower().split(";")
    if comma < 0 or not kind.startswith(media) or "base64" not in parameters:
        return None
    return url[comma + 1 :]


def _decode(text: str) -> bytes:
    try:
        return binascii.a2b_base64(text.rstrip("=") + "=" * (-len(text.rstrip("=")) % 4))
    except (ValueError, binascii.Error):
        return b""
