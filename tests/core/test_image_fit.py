from __future__ import annotations

import base64
import struct
import subprocess
import sys
import zlib
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.pictures import data_url, noise, picture
from treadle.core.image import ImageFacts, image_size, inspect_image
from treadle.core.image_fit import fit_image, fit_url, limits_of, too_large


def size_of(url: str) -> tuple[int, int] | None:
    return image_size(base64.b64decode(url.partition(",")[2]))


def broken_png(width: int, height: int) -> bytes:
    """Return a PNG whose checksums are right and whose pixels are not."""

    def chunk(name: bytes, body: bytes) -> bytes:
        return (
            struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))
        )

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = chunk(b"IHDR", header), chunk(b"IDAT", b"no pixels"), chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


@pytest.mark.parametrize("kind", ["png", "jpeg", "gif", "webp"])
def test_a_whole_image_is_known_by_its_bytes(kind: str):
    assert inspect_image(picture(kind)) == ImageFacts(f"image/{kind}", 12, 8)


@given(st.sampled_from(["png", "jpeg", "gif", "webp"]), st.data())
def test_strange_bytes_end_in_facts_or_a_reason(kind: str, data: st.DataObject):
    image = bytearray(picture(kind))
    at = data.draw(st.integers(0, len(image) - 1))
    image[at] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(image)))
    with suppress(ValueError):
        assert min(inspect_image(bytes(image[:cut])).width, 1) == 1


def test_an_image_that_fits_stays_byte_for_byte():
    assert fit_image(picture("jpeg")) == data_url(picture("jpeg"), "jpeg")
    assert fit_url("https://example.org/a.png") == "https://example.org/a.png"


def test_a_damaged_part_beside_the_pixels_is_left_out_and_one_with_pixels_is_a_reason():
    whole = picture("png")
    header, rest = whole[:33], whole[33:]
    profile = struct.pack(">I", 7) + b"iCCPprofile" + b"none"
    assert fit_image(header + profile + rest) == data_url(whole)
    with pytest.raises(ValueError, match="the checksum of its 'IDAT' part is wrong"):
        fit_image(whole[:-20] + b"x" + whole[-19:])


def test_a_large_image_is_scaled_down():
    assert size_of(fit_image(picture("png", 3000, 30))) == (2000, 20)
    assert size_of(fit_image(picture("webp", 30, 3000))) == (20, 2000)
    assert size_of(fit_image(picture("png", 3000, 30), original=True)) == (3000, 30)


def test_an_image_of_too_many_bytes_is_made_shorter():
    large = noise(1500, 1500)
    assert len(large) > 6_000_000
    fitted = fit_image(large)
    assert fitted.startswith("data:image/jpeg;base64,")
    assert len(fitted) <= 5 << 20
    assert too_large(fitted, limits_of("anthropic")) is None


def test_what_cannot_be_unpacked_is_said():
    with pytest.raises(ValueError, match="it cannot be unpacked"):
        fit_image(broken_png(2100, 20))


def test_without_pillow_images_are_checked_and_stay_as_they_are(tmp_path: Path):
    wide, half = tmp_path / "wide.png", tmp_path / "half.png"
    wide.write_bytes(picture("png", 3000, 30))
    half.write_bytes(picture()[:-5])
    code = (
        "import sys; sys.modules['PIL'] = None\n"
        "from pathlib import Path\n"
        "from treadle.core.image_fit import fit_image\n"
        "print(len(fit_image(Path(sys.argv[1]).read_bytes())))\n"
        "try: fit_image(Path(sys.argv[2]).read_bytes())\n"
        "except ValueError as error: print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, wide, half], check=True, capture_output=True, text=True
    )
    length = len(data_url(wide.read_bytes()))
    assert done.stdout == f"{length}\nit is cut short; its end is missing\n"


@pytest.mark.parametrize(("width", "height"), [(60_000, 60_000), (10_000, 6_401)])
def test_an_image_of_too_many_pixels_is_refused_before_it_is_unpacked(width, height):
    with pytest.raises(ValueError, match=f"{width} by {height} pixels; make it smaller"):
        fit_image(broken_png(width, height))


def test_limits_are_those_of_the_provider():
    wide = data_url(picture("png", 9000, 3))
    assert too_large(wide, limits_of("openai", "responses")) is None
    said = "it is 9000 by 3 pixels, 8,000 are accepted"
    assert too_large(wide, limits_of("anthropic", "messages")) == said
    assert too_large(wide, limits_of("acme", "messages")) == said
    long = "data:image/png;base64," + "A" * (5 << 20) + "AAAA"
    assert "5,242,880 are accepted" in str(too_large(long, limits_of("anthropic")))
    assert too_large(long, limits_of("openai")) is None
    assert too_large("https://example.org/a.png", limits_of("anthropic")) is None
