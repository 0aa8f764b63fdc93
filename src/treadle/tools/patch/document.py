"""A text file taken apart into lines that can be put together again.

Owns line endings, the byte order mark and bytes that are no UTF-8. Invariant: a
line that nobody touches comes back byte for byte.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from ...core.patterns import regex

__all__ = ["BOM", "Document", "decode", "encode", "shown"]

BOM = "\ufeff"
_ENDING = regex("(\r\n|\n|\r)")


class Document(Struct, frozen=True):
    """Lines, each with the ending it has; the last one may have none."""

    texts: tuple[str, ...]
    endings: tuple[str, ...]
    bom: str = ""

    @staticmethod
    def read(text: str) -> Document:
        """The lines of `text`."""
        bom = BOM if text.startswith(BOM) else ""
        parts = _ENDING.split(text.removeprefix(BOM))
        texts, endings = parts[::2], [*parts[1::2], ""]
        if not texts[-1]:
            texts.pop()
            endings.pop()
        return Document(tuple(texts), tuple(endings), bom)

    @property
    def preferred(self) -> str:
        """How a new line ends: like the first one of the file."""
        return self.endings[0] or "\n" if self.endings else "\n"

    def rebuilt(self, lines: Iterable[int | str]) -> str:
        """The text of kept lines (their number) and new ones, every one of them ended."""
        ending = self.preferred
        made = (
            line + ending
            if isinstance(line, str)
            else self.texts[line] + (self.endings[line] or ending)
            for line in lines
        )
        return self.bom + "".join(made)


def decode(data: bytes) -> str:
    """Bytes as text; what is no UTF-8 stays as lone surrogates."""
    return data.decode(errors="surrogateescape")


def encode(text: str) -> bytes:
    """The bytes `decode` read. Raises `UnicodeEncodeError` for other surrogates."""
    return text.encode(errors="surrogateescape")


def shown(text: str) -> str:
    """`text` for people and models: bytes that are no UTF-8 as replacement characters."""
    return text.encode(errors="surrogateescape").decode(errors="replace")
