"""Pastes: large texts and images that stand in the input line as a few words.

Invariant: what is sent has the pasted text in its place, unchanged; the line shows how much
there is.
"""

from __future__ import annotations

import base64
import re
import shlex
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote, urlsplit

from ...prompt.input import Image, LocalImage

__all__ = ["IMAGE_SUFFIXES", "Pastes"]

IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg", ".gif", ".webp")

_MOST_LINES = 8
_MOST_CHARACTERS = 1_000
"""What is longer is shown in few words."""
_LONGEST_PATH = 4_096


@dataclass(slots=True)
class Pastes:
    """What was pasted in this session, by what stands for it."""

    texts: dict[str, str] = field(init=False, default_factory=dict)
    images: dict[str, Image | LocalImage] = field(init=False, default_factory=dict)

    def take(self, pasted: str) -> str:
        """Take what was pasted; return what to insert into the line."""
        text = pasted.replace("\r\n", "\n").replace("\r", "\n")
        if (image := _image_path(text)) is not None:
            return self._take_image(image.name, LocalImage(image))
        lines = text.count("\n") + 1
        if lines <= _MOST_LINES and len(text) <= _MOST_CHARACTERS:
            return text
        size = f"{lines} lines" if lines > 1 else f"{len(text):,} characters"
        mark = f"[pasted text #{len(self.texts) + 1}: {size}]"
        self.texts[mark] = text
        return mark

    def take_image(self, png: bytes) -> str:
        """Take an image of the clipboard; return what to insert into the line."""
        url = f"data:image/png;base64,{base64.b64encode(png).decode()}"
        return self._take_image(f"pasted, {max(len(png) >> 10, 1):,} KB", Image(url))

    def _take_image(self, name: str, image: Image | LocalImage) -> str:
        mark = f"[image #{len(self.images) + 1}: {name}]"
        self.images[mark] = image
        return mark

    def expand(self, line: str) -> str:
        """Return the line with the pasted texts in their places."""
        if not self.texts:
            return line
        marks = "|".join(map(re.escape, self.texts))
        return re.sub(marks, lambda found: self.texts[found[0]], line)

    def images_in(self, line: str) -> list[Image | LocalImage]:
        """Return the images of the line, in their order."""
        at = {line.find(mark): image for mark, image in self.images.items()}
        return [at[position] for position in sorted(at) if position >= 0]


def _image_path(text: str) -> Path | None:
    """Return the path of an image that was dragged into the terminal."""
    line = text.strip()
    if "\n" in line or not line or len(line) > _LONGEST_PATH:
        return None
    if line.startswith("file://"):
        words = [unquote(urlsplit(line).path)]
    else:
        try:
            words = shlex.split(line)
        except ValueError:
            return None
    paths = [Path(word).expanduser() for word in (line, *words[:1]) if len(words) == 1]
    return next(filter(_is_image, paths), None)


def _is_image(path: Path) -> bool:
    try:
        return path.is_absolute() and path.suffix.lower() in IMAGE_SUFFIXES and path.is_file()
    except (OSError, ValueError):
        return False
