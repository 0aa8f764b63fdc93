"""Media headers: how long a sound lasts.

Owns the few bytes of each format that say so. Headers come from strangers:
every reader looks at bounded slices only and answers None instead of failing.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator

__all__ = ["audio_seconds"]

_SLOWEST = 100
"""Bytes per second that no codec in use stays below; bounds what a header may claim."""


def audio_seconds(head: bytes, tail: bytes, total: int) -> float | None:
    """Length of a WAV, MP3, Ogg or FLAC sound of `total` bytes from its first and last ones."""
    try:
        seconds = next((read(head, tail, total) for sign, read in _SOUNDS if sign(head)), None)
    except (struct.error, IndexError, ZeroDivisionError):
        return None
    if seconds is None or seconds < 0:
        return None
    return min(seconds, total / _SLOWEST)


def _wav(head: bytes, _tail: bytes, total: int) -> float | None:
    rate = 0
    for name, at, size in _riff_chunks(head):
        if name == b"fmt ":
            rate = struct.unpack_from("<I", head, at + 8)[0]
        elif name == b"data":
            # A streamed file leaves the size at 0 or -1; what is there counts.
            there = max(total - at, 0)
            return (min(size, there) or there) / rate
    return None


def _riff_chunks(head: bytes) -> Iterator[tuple[bytes, int, int]]:
    at = 12
    while at + 8 <= len(head):
        name, size = head[at : at + 4], struct.unpack_from("<I", head, at + 4)[0]
        yield name, at + 8, size
        at += 8 + size + size % 2


def _flac(head: bytes, _tail: bytes, _total: int) -> float | None:
    # STREAMINFO: 20 bits of sample rate, 3 of channels, 5 of depth, 36 of samples.
    bits = int.from_bytes(head[18:26], "big")
    samples = bits & (1 << 36) - 1
    return samples / (bits >> 44) if samples else None


def _ogg(head: bytes, tail: bytes, _total: int) -> float | None:
    last = tail.rfind(b"OggS")
    granule = struct.unpack_from("<q", tail, last + 6)[0] if last >= 0 else -1
    if (at := head.find(b"OpusHead", 0, 512)) >= 0:
        skipped = struct.unpack_from("<H", head, at + 10)[0]
        return float(granule - skipped) / 48_000
    if (at := head.find(b"\x01vorbis", 0, 512)) >= 0:
        return float(granule) / int(struct.unpack_from("<I", head, at + 12)[0])
    return None


_MP3_KBITS = {
    (3, 3): (32, 64, 96, 128, 160, 192, 224, 256, 288, 320, 352, 384, 416, 448),
    (3, 2): (32, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384),
    (3, 1): (32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320),
    (2, 3): (32, 48, 56, 64, 80, 96, 112, 128, 144, 160, 176, 192, 224, 256),
    (2, 2): (8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
    (2, 1): (8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
}
_MP3_RATES = {3: (44_100, 48_000, 32_000), 2: (22_050, 24_000, 16_000), 0: (11_025, 12_000, 8_000)}


def _mp3(head: bytes, _tail: bytes, total: int) -> float | None:
    at = _after_id3(head)
    version, layer = head[at + 1] >> 3 & 3, head[at + 1] >> 1 & 3
    kbits, rate = head[at + 2] >> 4, head[at + 2] >> 2 & 3
    if not _mp3_sync(head[at:]) or version == 1 or not 0 < kbits < 15 or rate == 3:
        return None
    if (frames := _xing_frames(head[at : at + 64])) is not None:
        return frames * (1152 if version == 3 else 576) / _MP3_RATES[version][rate]
    table = _MP3_KBITS.get((3 if version == 3 else 2, layer))
    return (total - at) / (table[kbits - 1] * 125) if table else None


def _after_id3(head: bytes) -> int:
    if not head.startswith(b"ID3"):
        return 0
    size = 0
    for byte in head[6:10]:
        size = size << 7 | byte & 0x7F
    return 10 + size


def _mp3_sync(frame: bytes) -> bool:
    return len(frame) > 3 and frame[0] == 0xFF and frame[1] & 0xE0 == 0xE0 and frame[1] & 6 != 0


def _xing_frames(frame: bytes) -> int | None:
    at = max(frame.find(b"Xing"), frame.find(b"Info"))
    if at < 0 or not frame[at + 7] & 1:
        return None
    return int(struct.unpack_from(">I", frame, at + 8)[0])


_Sign = Callable[[bytes], bool]


def _starts(*signs: bytes) -> _Sign:
    return lambda head: head.startswith(signs)


def _riff(kind: bytes) -> _Sign:
    return lambda head: head[:4] == b"RIFF" and head[8:12] == kind


_SOUNDS: tuple[tuple[_Sign, Callable[[bytes, bytes, int], float | None]], ...] = (
    (_riff(b"WAVE"), _wav),
    (_starts(b"fLaC"), _flac),
    (_starts(b"OggS"), _ogg),
    (_starts(b"ID3"), _mp3),
    (_mp3_sync, _mp3),
)
