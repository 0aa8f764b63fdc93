"""Drivers of transcript repair: what policy shows of a conversation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from msgspec import Raw

from ....context.row import Row
from ....core.entries import Draft
from ....core.items import InputAudio, InputImage, InputText, Item, Message, Part
from ....core.items import encode_item as encoded
from ....core.wire import Unknown, json_bytes
from ....harness.codex.text_projection import project_text
from ....policy.repair import repairs_for
from ..fixture import MatrixFixture

__all__ = ["PNG", "message_of", "policy", "projection"]

Given: TypeAlias = Mapping[str, Any]

PNG = "data:image/png;base64," + "A" * 4096


async def policy(given: Given, fixture: MatrixFixture | None) -> Given:
    """Return what is repaired for each of some providers."""
    del fixture
    return {"repairs": {each: repairs_for(*each.split()) for each in given["to"]}}


async def projection(given: Given, fixture: MatrixFixture | None) -> Given:
    """Return a conversation as the text that Codex is sent before the prompt."""
    del fixture
    said = [message_of(each["parts"], each["role"]) for each in given["items"]]
    request = given["prompt"]
    told = project_text(_rows(said), request).prompt
    return {
        "holds": [words for words in given["look_for"] if words in told],
        "counted": told.count(request),
        "ends": told.endswith(request),
        "bytes": "base64" in told,
    }


def message_of(parts: Sequence[Given], role: str = "user") -> Message:
    """Return a message with the parts that a row gives."""
    return Message(role=role, content=tuple(map(_part, parts)))


def _part(given: Given) -> Part:
    match given:
        case {"text": text}:
            return InputText(str(text).format(png=PNG))
        case {"image": url}:
            return InputImage(str(url).format(png=PNG))
        case {"audio": url}:
            return InputAudio(str(url).format(png=PNG))
        case _:
            return Unknown(Raw(json_bytes(given)))


def _rows(items: Sequence[Item]) -> list[Row]:
    drafts = (
        Draft(body=encoded(item), turn=1, id=f"itm_{place}") for place, item in enumerate(items, 1)
    )
    return [Row.of_draft(draft, place) for place, draft in enumerate(drafts, 1)]
