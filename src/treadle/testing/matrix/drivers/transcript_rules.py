"""Drivers of transcript repair: what policy shows of a conversation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import msgspec
from msgspec import Raw

from ....context.row import Row
from ....core.entries import Draft
from ....core.items import InputAudio, InputImage, InputText, Item, Message, Part, decode_item
from ....core.items import encode_item as encoded
from ....core.provenance import InputProvenance
from ....core.wire import Unknown, json_bytes
from ....harness.codex.text_projection import project_text
from ....policy.describing import describe_parts
from ....policy.repair import MARKER, merge_unanswered, repair_rows, repairs_for
from ..fixture import MatrixFixture

__all__ = ["PNG", "merge", "message_of", "policy", "projection", "repair"]

Given: TypeAlias = Mapping[str, Any]

PNG = "data:image/png;base64," + "A" * 4096


async def merge(given: Given, fixture: MatrixFixture | None) -> Given:
    """Merge an unanswered message into a prompt, and then again."""
    del fixture
    parts, prompt = message_of(given["earlier"]).content, str(given["prompt"]).format(marker=MARKER)
    source = given.get("from")
    provenance = InputProvenance(kind=source) if source else None
    told = merge_unanswered(parts, prompt, provenance=provenance)
    again = merge_unanswered(parts, told.prompt, provenance=provenance)
    return {
        "prompt": told.prompt.replace(MARKER, "{marker}"),
        "merged": told.merged,
        "shown": told.shown,
        "described": describe_parts(parts),
        "bytes": "base64" in told.prompt,
        "again": again.merged,
    }


async def policy(given: Given, fixture: MatrixFixture | None) -> Given:
    """Return what is repaired for each of some providers."""
    del fixture
    return {"repairs": {each: repairs_for(*each.split()) for each in given["to"]}}


async def repair(given: Given, fixture: MatrixFixture | None) -> Given:
    """Repair items for a provider; return them, and whether the stored ones changed."""
    del fixture
    rows = _rows([decode_item(Raw(json_bytes(each))) for each in given["items"]])
    before = [bytes(row.body) for row in rows]
    repairs = repairs_for(*given["to"].split())
    once = repair_rows(rows, repairs)
    items = [msgspec.json.decode(row.body) for row in once]
    return {
        "types": [each["type"] for each in items],
        "ids": list(dict.fromkeys(each["call_id"] for each in items if "call_id" in each)),
        "arguments": [each["arguments"] for each in items if "arguments" in each],
        "outputs": [each["output"] for each in items if "output" in each],
        "stable": repair_rows(once, repairs) == once,
        "stored": [bytes(row.body) for row in rows] == before,
    }


async def projection(given: Given, fixture: MatrixFixture | None) -> Given:
    """Return a conversation as the text that Codex is sent before the prompt."""
    del fixture
    said = [message_of(each["parts"], each["role"]) for each in given["items"]]
    rows = _rows(said)
    request = given["prompt"]
    told = project_text(repair_rows(rows, ()), request, request_id=rows[-1].id).prompt
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
