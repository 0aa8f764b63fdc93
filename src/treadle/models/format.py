"""Wire formats: how a head and a list of items become a request body.

Owns the seam between what the model sees and how one provider spells it. Every
format is prefix-monotone: what `opening` and `put` have written is never changed by
what follows, so that the bytes of one request start the next.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, Protocol, Self, TypeAlias

from ..core.entries import Head

__all__ = ["HeadPart", "ItemWriter", "WireFormat"]

HeadPart: TypeAlias = Literal["params", "tools", "instructions"]


class WireFormat(Protocol):
    """Writes bodies for one kind of API."""

    @property
    def name(self) -> str:
        """``responses``, ``chat`` or ``messages``; the `api` of heads and origins."""
        ...

    def head_parts(self, head: Head, cache_key: str) -> Iterator[tuple[HeadPart, bytes]]:
        """The body up to the first item: always the three parts, in this order."""
        ...

    def writer(self, head: Head) -> ItemWriter:
        """A writer for the items that follow."""
        ...

    def with_cache_marks(self, body: bytes, ends: tuple[int, ...]) -> bytes:
        """`body` with a cache mark behind the blocks that end at these offsets.

        Formats without such marks return it as it is. Marks are not part of the prefix.
        """
        ...


class ItemWriter(Protocol):
    """Writes the items of one body, in order."""

    def write(self, item: bytes) -> bytes:
        """The bytes that an encoded item adds; empty when the format cannot say it."""
        ...

    def closing(self) -> bytes:
        """What would end the body now. Does not change the writer."""
        ...

    def copy(self) -> Self:
        """A writer that goes on on its own from here."""
        ...
