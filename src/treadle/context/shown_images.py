"""Shown images: which images of a view a request has, and what stands for the others.

Owns the rule that an image is left out where its provider has refused it or is known to refuse
it. Invariant: a pure function of the item and the head, so the same log gives the same bytes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator

import msgspec

from ..core.entries import Head
from ..core.image_fit import limits_of, too_large
from ..core.items import (
    CustomToolCallOutput,
    FunctionCallOutput,
    InputImage,
    Item,
    Message,
    Part,
    encode_item,
)
from ..prompt.image_notes import oversized_image, refused_image
from .row import Row

__all__ = ["IMAGE", "newest_images", "shown_row"]

IMAGE = b'"input_image"'
"""What a row with an image contains."""


def shown_row(row: Row, head: Head) -> Row:
    """Return `row` with a sentence for each image that is left out; itself if there is none."""
    if not head.images or IMAGE not in row.body:
        return row
    item = row.item
    parts = _parts(item)
    shown = tuple(_show_part(part, head) for part in parts)
    if all(now is before for now, before in zip(shown, parts, strict=True)):
        return row
    if isinstance(item, Message):
        item = msgspec.structs.replace(item, content=shown)
    elif isinstance(item, FunctionCallOutput | CustomToolCallOutput):
        item = msgspec.structs.replace(item, output=shown)
    return msgspec.structs.replace(row, body=encode_item(item))


def newest_images(rows: Iterable[Row], refused: Iterable[str]) -> tuple[str, ...]:
    """Return the digests of the images that a provider may have refused, without those known.

    These are the images since the newest answer, for what came before was accepted then; all
    images if there is none since.
    """
    known = set(refused)
    everything: dict[str, None] = {}
    newest: dict[str, None] = {}
    for row in rows:
        if row.origin is not None:
            newest.clear()
        for digest in _digests(row):
            if digest not in known:
                everything[digest] = newest[digest] = None
    return tuple(newest or everything)


def _digests(row: Row) -> Iterator[str]:
    if IMAGE in row.body:
        for part in _parts(row.item):
            if isinstance(part, InputImage):
                yield _digest(part.image_url)


def _show_part(part: Part, head: Head) -> Part:
    if not isinstance(part, InputImage):
        return part
    if head.refused_images and _digest(part.image_url) in head.refused_images:
        return refused_image()
    reason = too_large(part.image_url, limits_of(head.provider, head.api))
    return part if reason is None else oversized_image(reason)


def _digest(url: str) -> str:
    return hashlib.blake2b(url.encode(), digest_size=16).hexdigest()


def _parts(item: Item) -> tuple[Part, ...]:
    if isinstance(item, Message):
        return item.content
    if isinstance(item, FunctionCallOutput | CustomToolCallOutput):
        return () if isinstance(item.output, str) else item.output
    return ()
