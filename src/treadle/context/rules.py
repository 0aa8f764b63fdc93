"""Rules: what makes a list of items one that a provider accepts.

Owns the pairing of calls and outputs, media that a model cannot take, and where
a list may be cut. Invariant: normalising twice equals normalising once, and in
the result every call is followed by exactly one output.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct, field

from ..core.entries import Flags
from ..core.ids import derived_id, item_prefix
from ..core.items import (
    CustomToolCallOutput,
    FunctionCallOutput,
    ImageGenerationCall,
    InputAudio,
    InputImage,
    InputText,
    Item,
    Message,
    Part,
    ToolSearchOutput,
    encode_item,
)
from ..core.text import approx_tokens
from .row import Row, Shape, shape_of

__all__ = [
    "ABORTED",
    "OUTCOME_UNKNOWN",
    "Pairing",
    "aborted_answer",
    "closed_length",
    "legal_cuts",
    "nearest_legal_cut",
    "normalise",
    "synthetic_output",
    "without_media",
]

ABORTED = "aborted"
"""Stands for the output of a call that never got one."""

OUTCOME_UNKNOWN = "Outcome unknown: the run ended before this call reported. It may have run."
"""Is appended for a call that lost its output to a crash."""

Family: TypeAlias = Literal["function", "custom", "search"]
Key: TypeAlias = tuple[Family, str]

_CALLS: dict[str, Family] = {
    "function_call": "function",
    "local_shell_call": "function",
    "custom_tool_call": "custom",
    "tool_search_call": "search",
}
_OUTPUTS: dict[str, Family] = {
    "function_call_output": "function",
    "custom_tool_call_output": "custom",
    "tool_search_output": "search",
}
_PAIRED = frozenset(_CALLS) | frozenset(_OUTPUTS)
_NO_IMAGE = InputText("image content omitted because you do not support image input")
_NO_AUDIO = InputText("audio content omitted because you do not support audio input")


def _call_key(shape: Shape) -> Key | None:
    """What an output must name to answer this call; None for what is no call."""
    family = _CALLS.get(shape.type)
    if family is None or (family == "search" and shape.execution == "server"):
        return None
    # Old shell calls were answered by their item id.
    return family, shape.call_id or shape.id or ""


def _output_key(shape: Shape) -> Key | None:
    """Which call an output answers; None for what is no output, or stands alone."""
    family = _OUTPUTS.get(shape.type)
    if family is None or shape.call_id is None:
        return None
    if family == "search" and shape.execution == "server":
        return None
    return family, shape.call_id


class Pairing(Struct):
    """Matches calls with outputs as items arrive, in one pass.

    A call id may be used again once it was answered, as small servers do.
    """

    open: dict[Key, int] = field(default_factory=dict)
    """Unanswered calls and the position each was given."""
    pairs: list[tuple[int, int]] = field(default_factory=list)
    """The positions of answered calls and their outputs."""

    def admits(self, shape: Shape, position: int) -> bool:
        """Whether the item belongs in the list: no orphan, no duplicate."""
        if shape.type not in _PAIRED:
            return True
        if (call := _call_key(shape)) is not None:
            if call in self.open or not call[1]:
                return False
            self.open[call] = position
        elif (output := _output_key(shape)) is not None:
            if (answered_call := self.open.pop(output, None)) is None:
                return False
            self.pairs.append((answered_call, position))
        return True

    def copy(self) -> Pairing:
        """A pairing that can go on on its own."""
        return Pairing(dict(self.open), list(self.pairs))


def normalise(rows: Sequence[Row]) -> list[Row]:
    """`rows` without orphans and duplicates, unanswered calls answered as aborted."""
    pairing = Pairing()
    kept = [(at, row) for at, row in enumerate(rows) if pairing.admits(row.shape, at)]
    unanswered = set(pairing.open.values())
    result: list[Row] = []
    for position, row in kept:
        result.append(row)
        if position in unanswered:
            result.append(aborted_answer(row))
    return result


def closed_length(rows: Sequence[Row]) -> int:
    """How many rows from the start can be taken without an unanswered call among them."""
    pairing = Pairing()
    closed = 0
    for position, row in enumerate(rows):
        pairing.admits(row.shape, position)
        if not pairing.open:
            closed = position + 1
    return closed


def synthetic_output(call: Row, text: str = ABORTED) -> Item:
    """An output that answers `call` in its own family."""
    call_id = call.shape.call_id or call.shape.id or ""
    match _CALLS[call.shape.type]:
        case "custom":
            return CustomToolCallOutput(call_id=call_id, output=text)
        case "search":
            return ToolSearchOutput(
                call_id=call_id, status="completed", execution="client", tools=()
            )
        case "function":
            return FunctionCallOutput(call_id=call_id, output=text)


def aborted_answer(call: Row) -> Row:
    """The row that answers `call` as aborted, the same every time."""
    body = encode_item(synthetic_output(call))
    shape = shape_of(body)
    return Row(
        body=body,
        shape=shape,
        id=derived_id(item_prefix(shape.type), call.id) if call.id else None,
        turn=call.turn,
        step=call.step,
        tokens=approx_tokens(len(body)),
        flags=call.flags & Flags.VOLATILE,
    )


def legal_cuts(rows: Sequence[Row]) -> list[int]:
    """Every index before which the list may be cut, in order.

    A cut never parts a call from its output, which may be yet to come, what a step
    made, a turn's opening, or reasoning from what it led to.
    """
    pairing = Pairing()
    for position, row in enumerate(rows):
        pairing.admits(row.shape, position)
    waiting = [0] * (len(rows) + 1)
    for call, output in pairing.pairs:
        waiting[call + 1] += 1
        waiting[output + 1] -= 1
    for call in pairing.open.values():
        waiting[call + 1] += 1
    cuts, depth = [], 0
    for index in range(len(rows) + 1):
        depth += waiting[index]
        if depth == 0 and not _belong_together(rows, index):
            cuts.append(index)
    return cuts


def nearest_legal_cut(rows: Sequence[Row], index: int) -> int:
    """The last legal cut at or before `index`."""
    cuts = legal_cuts(rows)
    return cuts[bisect_right(cuts, max(index, 0)) - 1]


def _belong_together(rows: Sequence[Row], index: int) -> bool:
    """Whether the items on both sides of `index` belong together."""
    if index in (0, len(rows)):
        return False
    left, right = rows[index - 1], rows[index]
    if left.turn and (left.turn, left.step) == (right.turn, right.step):
        return True
    return left.shape.type == "reasoning"


def without_media(item: Item, *, images: bool, audio: bool) -> Item:
    """`item` with what the model cannot take replaced by a sentence."""
    if isinstance(item, ImageGenerationCall) and not images:
        return msgspec.structs.replace(item, result="")
    if isinstance(item, Message):
        content = _without_media(item.content, images=images, audio=audio)
        return msgspec.structs.replace(item, content=content)
    if isinstance(item, FunctionCallOutput | CustomToolCallOutput) and isinstance(
        item.output, tuple
    ):
        output = _without_media(item.output, images=images, audio=audio)
        return msgspec.structs.replace(item, output=output)
    return item


def _without_media(parts: tuple[Part, ...], *, images: bool, audio: bool) -> tuple[Part, ...]:
    def without(part: Part) -> Part:
        if isinstance(part, InputImage) and not images:
            return _NO_IMAGE
        if isinstance(part, InputAudio) and not audio:
            return _NO_AUDIO
        return part

    return tuple(map(without, parts))
