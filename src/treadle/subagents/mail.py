"""Mail: messages from one thread to another.

Owns the sender that each message names. Invariant: a message is posted once, whatever
happens to its sender; its key says so.
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
from .records import AgentTask

__all__ = [
    "SEND_TOOL",
    "TaskOutcome",
    "announcement",
    "instruction",
    "parent_provenance",
    "post_message",
    "status_of",
    "task_outcome",
]

SEND_TOOL = "sessions_send"
_ANNOUNCE_TOOL = "subagent_announce"
_PAGE = 64

TaskOutcome: TypeAlias = tuple[AgentStatus, str, str]
"""How a task ended, the agent's last message, and the cost."""

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
    """Post a message to the inbox of `thread`; a turn of it reads it at its next step.

    `source` is the thread that sends it; without one a person does. The same `key` is
    posted once. Raises `NotFound` when there is no such thread.
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


def parent_provenance(parent: str, tool: str) -> InputProvenance:
    """Return the provenance of a task: the parent speaks as the agent's own principal."""
    return InputProvenance(
        kind="internal_system", origin_thread=parent, source_thread=parent, source_tool=tool
    )


def instruction(parent: str, text: str) -> InboxDraft:
    """Return a message of a thread to its running agent."""
    return InboxDraft(
        key=new_id("post"),
        kind="input",
        body=Raw(encode_item(user_message(text))),
        provenance=parent_provenance(parent, "send_input"),
    )


def status_of(turn: Turn) -> AgentStatus:
    """Return the status of an agent that does not run and whose newest turn is `turn`."""
    return _STATUS.get(turn.state, "unknown")


async def task_outcome(store: Store, task: AgentTask, failure: str) -> TaskOutcome:
    """Return how `task` ended, from the log of the agent, or from `failure`."""
    turns = await store.turns(task.child)
    first = next((turn.number for turn in turns if turn.id == task.turn), None)
    if first is None:
        return "failed" if failure else "interrupted", failure, ""
    status = status_of(turns[-1])
    text, error = await _last_message(store, task.child, first)
    result = text if status == "completed" else "\n\n".join(filter(None, (failure or error, text)))
    return status, result, _stats([turn for turn in turns if turn.number >= first])


async def _last_message(store: Store, child: str, first: int) -> tuple[str, str]:
    """Return the newest message of the model from turn `first` on, and a later error."""
    before, error = (await store.info(child)).last, ""
    while before > 0:
        page = await store.read(child, 1, before, reverse=True, limit=_PAGE)
        for entry in page:
            if 0 < entry.turn < first:
                return "", error
            if text := _message_text(entry):
                return text, error
            error = error or _error_of(entry)
        before = page[-1].seq - 1
    return "", error


def _message_text(entry: Entry) -> str:
    item = decode_item(entry.body) if entry.kind == "item" else None
    return text_of(item.content) if isinstance(item, Message) and item.role == "assistant" else ""


def _error_of(entry: Entry) -> str:
    control = entry.control if entry.kind == "response" else None
    return control.error or "" if isinstance(control, ResponseMark) else ""


def _stats(turns: list[Turn]) -> str:
    """Return the time and tokens of turns in a line, as far as they are recorded."""
    used = [turn.usage for turn in turns if turn.usage is not None]
    spent = sum(turn.ended - turn.admitted for turn in turns if turn.ended is not None)
    tokens_in, tokens_out = (
        sum(usage.input_tokens for usage in used),
        sum(usage.output_tokens for usage in used),
    )
    return f"{spent / 1000:.1f} s, {tokens_in:,} tokens in, {tokens_out:,} out"


def announcement(parent: str, task: AgentTask, ended: TaskOutcome) -> InboxDraft:
    """Return the message that announces the end of a task; its key makes it unique."""
    status, result, stats = ended
    event = InternalEvent(
        source="subagent",
        child_thread=task.child,
        task=task.nickname,
        status=_ANNOUNCED.get(status, "unknown"),
        status_label=_LABELS[status],
        announce_type="subagent task",
        result=result,
        no_visible_result=not result,
        stats=stats,
        reply_instruction="Go on with what you were asked for, with this in mind.",
    )
    body = user_message(f"Agent {task.nickname} ({task.child}) {_LABELS[status]}.")
    return InboxDraft(
        key=f"agent:{task.child}:{task.turn}",
        kind="input",
        body=Raw(encode_item(body)),
        provenance=InputProvenance(
            kind="inter_session",
            origin_thread=parent,
            source_thread=task.child,
            source_tool=_ANNOUNCE_TOOL,
            source_role="subagent",
        ),
        events=(event,),
    )
