"""Answers of a model as they come in, without known secrets.

Owns the one way from a model's stream to whoever acts on it: what is shown, logged and run is
made of what leaves here. Invariant: a known secret comes through neither in an item nor in
pieces of text, wherever their borders are.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing
from typing import TypeAlias

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from ..core.known_secrets import KnownSecrets, StreamBlanker, text_blanker
from ..core.redact import known_secrets
from ..core.stream import (
    OutputItemDone,
    OutputTextDelta,
    ReasoningSummaryDelta,
    ReasoningTextDelta,
    ToolInputDelta,
)
from ..models.contract import Model, ModelError, ModelEvent, ModelRequest

__all__ = ["read_answer"]

_Delta: TypeAlias = OutputTextDelta | ReasoningSummaryDelta | ReasoningTextDelta | ToolInputDelta
_DELTAS = (OutputTextDelta, ReasoningSummaryDelta, ReasoningTextDelta, ToolInputDelta)
_TEXTS = {
    "message": (OutputTextDelta,),
    "reasoning": (ReasoningSummaryDelta, ReasoningTextDelta),
    "custom_tool_call": (ToolInputDelta,),
    "function_call": (ToolInputDelta,),
}
"""The pieces of text that end with an item of a type."""


async def read_answer(
    model: Model, request: ModelRequest
) -> AsyncGenerator[Sequence[ModelEvent], None]:
    """Send `request` and yield the events of the answer, as `Model.stream` does."""
    texts = _Texts()
    async with aclosing(model.stream(request)) as answer:
        try:
            async for batch in answer:
                if known := known_secrets():
                    batch = list(texts.blank(batch, known))  # noqa: PLW2901 - the same, without
                if batch:
                    yield batch
        except ModelError:
            if rest := list(texts.finish(_DELTAS)):
                yield rest
            raise
    if rest := list(texts.finish(_DELTAS)):
        yield rest


class _Texts:
    """The texts of one answer of which something is held back."""

    def __init__(self) -> None:
        self._growing: dict[type[_Delta], tuple[StreamBlanker[str], _Delta]] = {}

    def blank(self, batch: Sequence[ModelEvent], known: KnownSecrets) -> Iterator[ModelEvent]:
        for event in batch:
            if isinstance(event, _DELTAS):
                # Most pieces have nothing to do with a secret.
                if self._growing or known.text.concerns(event.delta):
                    yield from self._grow(event, known)
                else:
                    yield event
            elif isinstance(event, OutputItemDone):
                if self._growing:
                    yield from self.finish(_TEXTS.get(_type_of(event.body), ()))
                body = bytes(event.body)
                blanked = known.blank_json(body)
                yield event if blanked == body else replace(event, body=Raw(blanked))
            else:
                yield event

    def _grow(self, event: _Delta, known: KnownSecrets) -> Iterator[_Delta]:
        blanker, _ = self._growing.get(type(event)) or (text_blanker(), event)
        self._growing[type(event)] = blanker, event
        text = blanker.feed(event.delta, known)
        if not blanker.held:
            del self._growing[type(event)]
        if text == event.delta:
            yield event
        elif text:
            yield replace(event, delta=text)

    def finish(self, kinds: Sequence[type[_Delta]]) -> Iterator[_Delta]:
        """Yield what was held back of the texts of these kinds: they have ended."""
        for kind in kinds:
            blanker, last = self._growing.pop(kind, (None, None))
            if blanker is not None and (text := blanker.finish(known_secrets())):
                assert last is not None
                yield replace(last, delta=text)


class _Typed(Struct):
    type: str = ""


_typed = msgspec.json.Decoder(_Typed)


def _type_of(body: Raw) -> str:
    try:
        return _typed.decode(body).type
    except msgspec.MsgspecError:
        return ""
