"""Mail: messages from one thread to another.

Owns who is named as the sender of what. Invariant: a message is left once, whatever
happens to whoever leaves it; its key says so.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Raw

from ..core.entries import Entry, ResponseMark
from ..core.ids import new_id
from ..core.items import Message, decode_item, encode_item, text_of
from ..core.provenance import InputProvenance, InternalEvent
from ..prompt.input import user_message
from ..store.contract import InboxDraft, InboxMessage, Store, Turn
from ..tools.agents import AgentStatus
from .values import Order

__all__ = [
    "SEND_TOOL",
    "announcement",
    "instructed",
    "instruction",
    "outcome",
    "post_message",
    "status_of",
]

SEND_TOOL = "sessions_send"
_ANNOUNCE_TOOL = "subagent_announce"
_PAGE = 64

Outcome: TypeAlias = tuple[AgentStatus, str, str]
"""How an agent's work ended, its last message, and what it took."""

_STATUS: dict[str, AgentStatus] = {
    "completed": "completed",
    "failed": "failed",
    "aborted": "interrupted",
}

_ANNOUNCED: dict[AgentStatus, Literal["ok", "error"]] = {
    "completed": "ok",
    "failed": "error",
    "interrupted": "error",
}
_LABELS = {
    "completed": "completed successfully",
    "failed": "failed",
    "interrupted": "was interrupted before it was done",
    "unknown": "ended in an unknown way",
}


async def post_message(
    store: Store,
    thread: str,
    text: str | Message,
    *,
    source: str | None = None,
    channel: str | None = None,
    tool: str = SEND_TOOL,
    key: str | None = None,
) -> InboxMessage:
    """Leave a message in the inbox of `thread`; a turn of it reads it at its next step.

    `source` is the thread that speaks; without one a person does. The same `key` is
    left once. Raises `NotFound` when there is no such thread.
    """
    message = user_message(text) if isinstance(text, str) else text
    provenance = InputProvenance(
        kind="external_user" if source is None else "inter_session",
        origin_thread=source,
        source_thread=source,
        source_channel=channel,
        source_tool=tool if source else None,
    )
    post = InboxDraft(
        key=key or new_id("post"),
        kind="input",
        body=Raw(encode_item(message)),
        provenance=provenance,
    )
    return await store.post(thread, post)


def instructed(parent: str, tool: str) -> InputProvenance:
    """Who speaks when a thread tells its agent what to do: the agent's own principal."""
    return InputProvenance(
        kind="internal_system", origin_thread=parent, source_thread=parent, source_tool=tool
    )


def instruction(parent: str, text: str) -> InboxDraft:
    """What a thread tells an agent that is at work."""
    return InboxDraft(
        key=new_id("post"),
        kind="input",
        body=Raw(encode_item(user_message(text))),
        provenance=instructed(parent, "send_input"),
    )


def status_of(turn: Turn) -> AgentStatus:
    """How an agent is whose newest turn is `turn`, while nobody runs it."""
    return _STATUS.get(turn.state, "unknown")


async def outcome(store: Store, order: Order, failure: str) -> Outcome:
    """What became of `order`, as the log of the agent tells it; `failure` where it is silent."""
    turns = await store.turns(order.child)
    first = next((turn.number for turn in turns if turn.id == order.turn), None)
    if first is None:
        return "failed" if failure else "interrupted", failure, ""
    status = status_of(turns[-1])
    said, error = await _last_words(store, order.child, first)
    told = said if status == "completed" else "\n\n".join(filter(None, (failure or error, said)))
    return status, told, _stats([turn for turn in turns if turn.number >= first])


async def _last_words(store: Store, child: str, first: int) -> tuple[str, str]:
    """The newest message of a model from turn `first` on, and why it said no more."""
    before, error = (await store.info(child)).last, ""
    while before > 0:
        page = await store.read(child, 1, before, reverse=True, limit=_PAGE)
        for entry in page:
            if 0 < entry.turn < first:
                return "", error
            if said := _said(entry):
                return said, error
            error = error or _error(entry)
        before = page[-1].seq - 1
    return "", error


def _said(entry: Entry) -> str:
    item = decode_item(entry.body) if entry.kind == "item" else None
    return text_of(item.content) if isinstance(item, Message) and item.role == "assistant" else ""


def _error(entry: Entry) -> str:
    control = entry.control if entry.kind == "response" else None
    return control.error or "" if isinstance(control, ResponseMark) else ""


def _stats(turns: list[Turn]) -> str:
    """What the work took, in a line; only what is recorded counts."""
    used = [turn.usage for turn in turns if turn.usage is not None]
    spent = sum(turn.ended - turn.admitted for turn in turns if turn.ended is not None)
    tokens_in, tokens_out = (
        sum(usage.input_tokens for usage in used),
        sum(usage.output_tokens for usage in used),
    )
    return f"{spent / 1000:.1f} s, {tokens_in:,} tokens in, {tokens_out:,} out"


def announcement(parent: str, order: Order, ended: Outcome) -> InboxDraft:
    """What the parent is told of an order that was carried out; once, by its key."""
    status, result, stats = ended
    event = InternalEvent(
        source="subagent",
        child_thread=order.child,
        task=order.nickname,
        status=_ANNOUNCED.get(status, "unknown"),
        status_label=_LABELS[status],
        announce_type="subagent task",
        result=result,
        no_visible_result=not result,
        stats=stats,
        reply_instruction="Go on with what you were asked for, with this in mind.",
    )
    body = user_message(f"Agent {order.nickname} ({order.child}) {_LABELS[status]}.")
    return InboxDraft(
        key=f"agent:{order.child}:{order.turn}",
        kind="input",
        body=Raw(encode_item(body)),
        provenance=InputProvenance(
            kind="inter_session",
            origin_thread=parent,
            source_thread=order.child,
            source_tool=_ANNOUNCE_TOOL,
            source_role="subagent",
        ),
        events=(event,),
    )
