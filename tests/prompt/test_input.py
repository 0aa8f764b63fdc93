from __future__ import annotations

import base64
from pathlib import Path

import pytest

from treadle.core.errors import ConfigError
from treadle.core.items import InputImage, InputText, Message, encode_item
from treadle.prompt import Image, LocalImage, user_message
from treadle.prompt.input import MAX_INPUT_CHARS

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def test_a_text_becomes_one_part_as_it_is():
    text = "<skill>I typed this</skill>\n# AGENTS.md instructions"
    assert user_message(text) == Message(role="user", content=(InputText(text=text),))


def test_images_are_numbered_across_kinds_and_local_ones_are_framed(tmp_path: Path):
    file = tmp_path / "dot.png"
    file.write_bytes(PNG)
    url = f"data:image/png;base64,{base64.b64encode(PNG).decode()}"
    message = user_message("look", Image(url, detail="low"), LocalImage(file))
    assert message.content == (
        InputText(text="look"),
        InputImage(image_url=url, detail="low"),
        InputText(text=f'<image name=[Image #2] path="{file}">'),
        InputImage(image_url=url, detail="high"),
        InputText(text="</image>"),
    )


@pytest.mark.parametrize(
    ("data", "media_type"),
    [
        (PNG, "image/png"),
        (b"\xff\xd8\xff\xe0rest", "image/jpeg"),
        (b"GIF89arest", "image/gif"),
        (b"RIFF\0\0\0\0WEBPrest", "image/webp"),
    ],
)
def test_the_bytes_decide_the_media_type(tmp_path: Path, data: bytes, media_type: str):
    file = tmp_path / "misnamed.txt"
    file.write_bytes(data)
    image = user_message(LocalImage(file)).content[1]
    assert isinstance(image, InputImage)
    assert image.image_url.startswith(f"data:{media_type};base64,")


def test_a_file_that_is_no_image_becomes_a_sentence(tmp_path: Path):
    file = tmp_path / "notes.txt"
    file.write_text("hello")
    assert user_message(LocalImage(file)).content == (
        InputText(
            text=f"The image at `{file}` could not be read: "
            "it is not a PNG, JPEG, GIF or WebP image"
        ),
    )


def test_a_missing_file_becomes_a_sentence_and_still_counts(tmp_path: Path):
    file = tmp_path / "dot.png"
    file.write_bytes(PNG)
    parts = user_message(LocalImage(tmp_path / "gone.png"), LocalImage(file)).content
    assert parts[0] == InputText(
        text=f"The image at `{tmp_path / 'gone.png'}` could not be read: there is no such file"
    )
    assert parts[1] == InputText(text=f'<image name=[Image #2] path="{file}">')


def test_a_path_cannot_close_its_label(tmp_path: Path):
    file = tmp_path / '"><b>.png'
    file.write_bytes(PNG)
    assert user_message(LocalImage(file)).content[0] == InputText(
        text=f'<image name=[Image #1] path="{tmp_path}/&quot;&gt;&lt;b&gt;.png">'
    )


def test_too_much_text_is_refused_with_a_way_out():
    user_message("x" * MAX_INPUT_CHARS)
    with pytest.raises(ConfigError, match=r"1048577 characters, 1048576 are accepted; put"):
        user_message("x" * MAX_INPUT_CHARS, "y")


@pytest.mark.parametrize("parts", [(), ("",), (" \n", "\t")])
def test_an_empty_input_is_refused(parts: tuple[str, ...]):
    with pytest.raises(ConfigError, match="the input is empty"):
        user_message(*parts)


def test_an_address_that_is_no_image_is_refused():
    with pytest.raises(ConfigError, match="'file:///etc/passwd' is no image address"):
        user_message(Image("file:///etc/passwd"))


def test_halves_of_characters_do_not_reach_the_wire():
    message = user_message("a\udcffb \ud83d\ude00")
    assert message.content == (InputText(text="a\N{REPLACEMENT CHARACTER}b 😀"),)
    assert "😀".encode() in encode_item(message)
