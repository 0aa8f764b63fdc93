"""Completions: asking the thread's own model something outside the conversation.

Owns the request for a summary. Where a provider caches prefixes it rides the
conversation's own head and prefix, so that only the question is new; calls the model
makes instead of answering are not run. Invariant: nothing of it is recorded.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import aclosing

import msgspec

from ..context.compose import item_draft
from ..context.request import RequestEncoder
from ..context.row import Row
from ..engines.linear import Complete
from ..errors import TooLong
from ..events import OutputItemDone
from ..items import Message, text_of
from ..models.contract import ContextOverflow, ModelRequest
from .contract import TurnRun

__all__ = ["completer"]


def completer(run: TurnRun) -> Complete:
    """Asks the model of `run`."""

    async def complete(rows: Sequence[Row], prompt: Message) -> str:
        asked = [*rows, Row.of_draft(item_draft(prompt))]
        try:
            return await _answer(run, _request(run, asked))
        except ContextOverflow as error:
            raise TooLong(str(error)) from error

    return complete


def _request(run: TurnRun, rows: Sequence[Row]) -> ModelRequest:
    view = run.journal.view
    assert view.head is not None
    head = view.head
    if not run.model.capabilities.caches_prefixes:
        head = msgspec.structs.replace(head, tools=())
    request = RequestEncoder(head, view.cache_key).encode(rows, epoch=view.epoch, upto=view.upto)
    return ModelRequest(head=head, body=request.body, thread=run.journal.id, turn=run.journal.turn)


async def _answer(run: TurnRun, request: ModelRequest) -> str:
    text = ""
    async with aclosing(run.model.stream(request)) as answer:
        async for batch in answer:
            for event in batch:
                if isinstance(event, OutputItemDone) and isinstance(item := event.item, Message):
                    text = text_of(item.content)
    return text
