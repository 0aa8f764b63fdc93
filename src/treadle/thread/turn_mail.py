"""Turn mail: what a turn is about whose host says nothing.

Owns the wait for what others leave in the inbox. Invariant: a turn that was admitted already is
about what it was admitted with, and takes no other mail.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..core.errors import NothingToSend
from ..core.items import Message, decode_item
from ..core.wire import Json, json_bytes
from .host_input import Input

if TYPE_CHECKING:
    from ..log.thread_log import ThreadLog
    from ..store.contract import Turn
    from ..subagents import Subagents

__all__ = ["is_report", "take_mail"]


async def take_mail(log: ThreadLog, subagents: Subagents, turn_id: str | None) -> Input:
    """Return the input that others left; wait for agents to leave some.

    Raises `NothingToSend` where no agent works either.
    """
    turns = await log.store.turns(log.id) if turn_id else []
    for turn in turns:
        if turn.id == turn_id and await _goes_without_mail(log, turn):
            return Input(message=_message_of(turn.input), turn_id=turn_id)
    while True:
        # Looked at before the mail: who ended meanwhile has left some.
        working = subagents.working
        if mail := await log.inbox():
            break
        if not working:
            raise NothingToSend(f"nothing waits for thread {log.id!r}; say something to it")
        await subagents.wait_for_mail()
    first = mail[0]
    return Input(
        message=_message_of(first.body),
        turn_id=turn_id or "",
        provenance=first.provenance,
        events=first.events,
        mail=mail,
    )


def is_report(given: Input) -> bool:
    """Return whether an input is what an agent has to tell."""
    sent = given.provenance
    return sent is not None and sent.source_role == "subagent"


async def _goes_without_mail(log: ThreadLog, turn: Turn) -> bool:
    """Return whether the input of an admitted turn is in its log, or never was in the inbox."""
    if await log.turns.was_opened(turn):
        return True
    mail = await log.inbox()
    return not mail or json_bytes(mail[0].body) != json_bytes(turn.input)


def _message_of(body: Json) -> Message:
    item = decode_item(body)
    assert isinstance(item, Message), "what is left in an inbox as input is a message"
    return item
