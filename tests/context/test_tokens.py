from __future__ import annotations

import base64
import io
import struct
import wave
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.context.media import audio_seconds
from treadle.context.tokens import audio_tokens, estimate_bytes, estimate_item, estimate_text
from treadle.core.image import image_size
from treadle.core.items import (
    AgentMessage,
    Compaction,
    ContextCompaction,
    CustomToolCallOutput,
    EncryptedContent,
    FunctionCallOutput,
    InputAudio,
    InputImage,
    InputText,
    Item,
    Message,
    Reasoning,
    decode_item,
    encode_item,
)
from treadle.core.text import TruncationPolicy, truncate_output


def png(width: int, height: int) -> bytes:
    def chunk(kind: bytes, body: bytes) -> bytes:
        return (
            struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        )

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IEND", b"")


def jpeg(width: int, height: int, before: bytes = b"") -> bytes:
    frame = struct.pack(">HBHHB", 11, 8, height, width, 1) + b"\x01\x11\x00"
    return b"\xff\xd8" + before + b"\xff\xc2" + frame + b"\xff\xd9"


def gif(width: int, height: int) -> bytes:
    return b"GIF89a" + struct.pack("<HH", width, height) + b"\x00\x00\x00;"


def webp(kind: bytes, body: bytes) -> bytes:
    chunk = kind + struct.pack("<I", len(body)) + body
    return b"RIFF" + struct.pack("<I", 4 + len(chunk)) + b"WEBP" + chunk


def webp_lossy(width: int, height: int) -> bytes:
    return webp(b"VP8 ", b"\x00\x00\x00\x9d\x01\x2a" + struct.pack("<HH", width, height))


def webp_lossless(width: int, height: int) -> bytes:
    return webp(b"VP8L", b"\x2f" + struct.pack("<I", (width - 1) | (height - 1) << 14))


def webp_extended(width: int, height: int) -> bytes:
    sides = (side.to_bytes(3, "little") for side in (width - 1, height - 1))
    return webp(b"VP8X", b"\x00\x00\x00\x00" + b"".join(sides))


def wav(seconds: float, rate: int = 8_000) -> bytes:
    file = io.BytesIO()
    with wave.open(file, "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(2)
        sound.setframerate(rate)
        sound.writeframes(bytes(2 * int(seconds * rate)))
    return file.getvalue()


def mp3(frames: int) -> bytes:
    # MPEG 1 layer III, 128 kbit/s, 44.1 kHz: 417 bytes and 1152 samples a frame.
    return (b"\xff\xfb\x90\x00" + bytes(413)) * frames


def ogg_page(granule: int, body: bytes) -> bytes:
    return b"OggS\x00\x00" + struct.pack("<q", granule) + bytes(12) + b"\x01" + b"\xff" + body


def opus(seconds: float) -> bytes:
    head = b"OpusHead\x01\x01" + struct.pack("<HIh", 312, 48_000, 0) + b"\x00"
    return ogg_page(0, head) + ogg_page(312 + int(seconds * 48_000), bytes(int(seconds * 4_000)))


def vorbis(seconds: float) -> bytes:
    head = b"\x01vorbis" + struct.pack("<IBI", 0, 1, 22_050)
    return ogg_page(0, head) + ogg_page(int(seconds * 22_050), bytes(int(seconds * 4_000)))


def flac(seconds: float) -> bytes:
    bits = 44_100 << 44 | 1 << 41 | 15 << 36 | int(seconds * 44_100)
    head = struct.pack(">I", 34) + bytes(10) + bits.to_bytes(8, "big") + bytes(16)
    return b"fLaC" + head + bytes(int(seconds * 4_000))


def data_url(media: str, data: bytes) -> str:
    return f"data:{media};base64,{base64.b64encode(data).decode()}"


def image(data: bytes, detail: str | None = None) -> Item:
    url = data_url("image/png", data)
    return Message(role="user", content=(InputImage(url, detail),))  # type: ignore[arg-type]


def bytes_without_payload(item: Item, payload: int) -> int:
    return len(encode_item(item)) - payload


PLAIN: list[Item] = [
    Message(role="user", content=(InputText("héllo"),)),
    Message(role="user", content=(InputImage("https://example.org/a.png"),)),
    Reasoning(),
    ContextCompaction(),
    FunctionCallOutput(call_id="c", output="x" * 999),
    decode_item(b'{"type":"brand_new","data":[1,2,3]}'),
]


@pytest.mark.parametrize("item", PLAIN, ids=lambda item: type(item).__name__)
def test_an_item_costs_a_quarter_of_its_wire_bytes_rounded_up(item):
    size = len(encode_item(item))
    assert estimate_item(item) == -(-size // 4)


def test_a_known_size_replaces_encoding_the_item_again():
    item = Message(role="user", content=(InputText("hello"),))
    assert estimate_item(item, 4_001) == 1_001


def test_text_is_counted_in_utf8_bytes():
    assert [estimate_text(text) for text in ("", "a", "abcd", "abcde", "😀😀")] == [0, 1, 1, 2, 2]


@pytest.mark.parametrize(
    ("length", "expected"), [(0, None), (4, 0), (866, 0), (868, 1), (4_000, 2_350)]
)
@pytest.mark.parametrize("kind", [Reasoning, Compaction, ContextCompaction])
def test_encrypted_content_counts_as_what_it_decrypts_to(kind, length, expected):
    item = kind(encrypted_content="e" * length)
    assert estimate_bytes(item) == (len(encode_item(item)) if expected is None else expected)


def test_an_inline_image_counts_as_one_scaled_down_image_whatever_its_size():
    small, large = png(10, 10), png(10, 10) + bytes(300_000)
    payloads = [len(base64.b64encode(data)) for data in (small, large)]
    sizes = [
        bytes_without_payload(image(d), p) for d, p in zip((small, large), payloads, strict=True)
    ]
    assert [estimate_bytes(image(small)), estimate_bytes(image(large))] == [s + 7373 for s in sizes]


@pytest.mark.parametrize(
    ("width", "height", "expected"),
    [(1, 1, 4), (32, 32, 4), (33, 32, 8), (1024, 768, 4 * 32 * 24), (9_000, 9_000, 40_000)],
)
def test_an_image_in_original_detail_counts_its_patches(width, height, expected):
    data = png(width, height)
    item = image(data, "original")
    assert (
        estimate_bytes(item) - bytes_without_payload(item, len(base64.b64encode(data))) == expected
    )


def test_an_unreadable_image_in_original_detail_counts_as_a_scaled_one():
    item = Message(role="user", content=(InputImage("data:image/png;base64,%%%", "original"),))
    assert estimate_bytes(item) == len(encode_item(item)) - 3 + 7373


def test_an_image_inside_a_tool_output_counts_the_same():
    part = InputImage(data_url("image/png", png(8, 8) + bytes(9_000)))
    payload = len(part.image_url.partition(",")[2])
    for item in (
        FunctionCallOutput(call_id="c", output=(part,)),
        CustomToolCallOutput(call_id="c", output=(part,)),
    ):
        assert estimate_bytes(item) == bytes_without_payload(item, payload) + 7373


@pytest.mark.parametrize(
    "url", ["data:image/png,raw", "data:text/plain;base64,QUJD", "data:", "data:image/png;base64"]
)
def test_a_url_without_a_base64_image_counts_as_text(url):
    item = Message(role="user", content=(InputImage(url),))
    assert estimate_bytes(item) == len(encode_item(item))


def test_encrypted_tool_output_counts_nine_sixteenths_rounded_up():
    part = EncryptedContent("e" * 1_001)
    for item in (
        FunctionCallOutput(call_id="c", output=(part,)),
        AgentMessage(author="a", recipient="b", content=(part,)),
    ):
        assert estimate_bytes(item) == bytes_without_payload(item, 1_001) + 564


@pytest.mark.parametrize("seconds", [0.5, 1.0, 7.2])
def test_sound_costs_ten_tokens_a_second(seconds):
    part = InputAudio(data_url("audio/wav", wav(seconds)))
    item = Message(role="user", content=(part,))
    payload = len(part.audio_url.partition(",")[2])
    assert audio_tokens(part) == int(seconds * 10)
    assert estimate_bytes(item) == bytes_without_payload(item, payload) + 4 * int(seconds * 10)


def test_sound_with_an_unknown_header_is_guessed_from_its_size():
    assert audio_tokens(InputAudio(data_url("audio/weird", bytes(32_001)))) == 21


def test_sound_behind_a_remote_url_counts_as_text():
    assert audio_tokens(InputAudio("https://example.org/sound")) == 7


def test_truncation_takes_the_cost_of_sound_from_here():
    part = InputAudio(data_url("audio/wav", wav(2.0)))
    assert truncate_output((part,), TruncationPolicy("tokens", 20), audio_tokens) == (part,)
    assert truncate_output((part,), TruncationPolicy("tokens", 19), audio_tokens) == (
        InputText("[omitted 1 audio items ...]"),
    )


@pytest.mark.parametrize("make", [png, jpeg, gif, webp_lossy, webp_lossless, webp_extended])
@pytest.mark.parametrize("size", [(1, 1), (640, 481), (16_383, 2)])
def test_the_size_of_an_image_is_read_from_its_header(make, size):
    assert image_size(make(*size)) == size


def test_a_jpeg_frame_is_found_behind_other_segments_and_fill_bytes():
    exif = b"\xff\xe1" + struct.pack(">H", 5_002) + bytes(5_000)
    assert image_size(jpeg(300, 200, exif + b"\xff\xd0" + b"\xff\xff")) == (300, 200)


@pytest.mark.parametrize("data", [b"", b"plain text", png(0, 5), jpeg(5, 0), png(1, 1)[:20]])
def test_an_image_without_a_sound_header_has_no_size(data):
    assert image_size(data) is None


@pytest.mark.parametrize(
    ("data", "seconds"),
    [
        (wav(1.5), 1.5),
        (mp3(100), 100 * 417 / 16_000),
        (b"ID3\x04\x00\x00\x00\x00\x00\x0a" + bytes(10) + mp3(100), 100 * 417 / 16_000),
        (opus(3.0), 3.0),
        (vorbis(2.0), 2.0),
        (flac(4.0), 4.0),
    ],
    ids=["wav", "mp3", "mp3 with a tag", "opus", "vorbis", "flac"],
)
def test_the_length_of_a_sound_is_read_from_its_header(data, seconds):
    assert audio_seconds(data, data[-70_000:], len(data)) == pytest.approx(seconds)


def test_an_mp3_that_counts_its_frames_is_believed():
    first = b"\xff\xfb\x90\x00" + bytes(32) + b"Xing" + struct.pack(">II", 1, 50) + bytes(400)
    data = first + bytes(20_000)
    assert audio_seconds(data, data, len(data)) == pytest.approx(50 * 1152 / 44_100)


def test_a_header_cannot_claim_more_time_than_its_bytes_can_hold():
    lie = ogg_page(0, b"OpusHead" + bytes(12)) + ogg_page(2**62, b"")
    assert audio_seconds(lie, lie, len(lie)) == len(lie) / 100


def test_a_wav_that_lies_about_its_size_counts_what_is_there():
    honest = wav(1.0)
    lie = honest[:40] + b"\xff\xff\xff\xff" + honest[44:]
    assert audio_seconds(lie, lie, len(lie)) == 1.0


SIGNS = (
    b"\x89PNG\r\n\x1a\n",
    b"\xff\xd8\xff",
    b"GIF89a",
    b"RIFF\0\0\0\0WEBPVP8X",
    b"RIFF\0\0\0\0WEBPVP8L",
    b"RIFF\0\0\0\0WEBPVP8 ",
    b"RIFF\0\0\0\0WAVEfmt ",
    b"RIFF\0\0\0\0WAVEdata",
    b"ID3",
    b"\xff\xfb",
    b"OggSOpusHead",
    b"OggS\x01vorbis",
    b"fLaC",
    b"",
)


@given(st.sampled_from(SIGNS), st.binary(max_size=200))
def test_hostile_media_never_raise_and_never_cost_more_than_they_hold(sign, rest):
    data = sign + rest
    size = image_size(data)
    seconds = audio_seconds(data, data, len(data))
    assert size is None or min(size) > 0
    assert seconds is None or 0 <= seconds <= len(data) / 100


@given(st.text(max_size=80), st.sampled_from(["image/png", "audio/mpeg", "text/plain", ""]))
def test_any_url_can_be_estimated(text, media):
    url = f"data:{media};base64,{text}"
    content = (InputImage(url, "original"), InputAudio(url))
    assert estimate_item(Message(role="user", content=content)) > 0
