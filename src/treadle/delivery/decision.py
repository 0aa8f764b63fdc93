"""What a turn delivers: its replies, some of them, a notice, or nothing; and where to.

Owns the decision, from the facts of an ended turn and from no other source. Invariants: a
turn that should have replied and did not delivers a notice, unless somebody chose its
silence; and a reply that is dropped has a reason.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct, structs

from .channel import NO_REPLY, Reply, ReplyOrigin
from .replies import is_silent, visible_replies, without_repeated_media

__all__ = [
    "CONTINUING",
    "NOT_DELIVERED",
    "NO_VISIBLE_REPLY",
    "STALLED",
    "Decision",
    "Deliver",
    "Destination",
    "DestinationKind",
    "Retry",
    "SentByTool",
    "Suppress",
    "Suppression",
    "TurnFacts",
    "choose_destination",
    "decide",
]

Suppression: TypeAlias = Literal["silent", "send-policy", "aborted", "tool-only"]
DestinationKind: TypeAlias = Literal["origin", "dispatcher", "drop"]

CONTINUING = "Still at work on this; more will follow."
NO_VISIBLE_REPLY = "The turn ended, but did not produce a visible reply."
NOT_DELIVERED = "The answer could not be delivered. It is kept in the thread."
STALLED = "The turn stalled again and was ended. Ask again to go on."


class Deliver(Struct, frozen=True):
    """Deliver these, in order."""

    replies: tuple[Reply, ...]


class Suppress(Struct, frozen=True):
    """Deliver nothing."""

    reason: Suppression


class Retry(Struct, frozen=True):
    """Run the turn once more, for nobody can see its answer."""


Decision: TypeAlias = Deliver | Suppress | Retry


class Destination(Struct, frozen=True):
    """Where one reply goes."""

    kind: DestinationKind
    reason: str = ""


class SentByTool(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A message that a tool of the turn has sent already."""

    text: str = ""
    media: tuple[str, ...] = ()
    to_origin: bool = True
    """Whether it went to where the turn came from."""
    final: bool = True
    """Whether it was the answer, and not a message about the status."""


class TurnFacts(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is known of a turn when it has ended."""

    replies: tuple[Reply, ...] = ()
    status: Literal["completed", "failed", "aborted"] = "completed"
    failure: str = ""
    """Why it failed, for a person."""
    stalled: bool = False
    """It was stopped because the model sent nothing any more."""
    recovering: bool = False
    """It was itself an attempt to continue after a stall."""
    sends: Literal["allow", "deny"] = "allow"
    visible: Literal["automatic", "tool-only"] = "automatic"
    """Whether the model's text is delivered, or only what it sends by a tool."""
    expected: Literal["required", "optional"] = "required"
    internal: bool = False
    """Its input came from the runtime, not from a person or agent."""
    sent: tuple[SentByTool, ...] = ()
    pending: bool = False
    """It continues later: it yielded, or waits for agents."""
    asked: bool = False
    """It asked somebody a question, or a call is still open: the answer will follow."""
    retried: bool = False
    """It was run once more already, because its answer was not sent."""
    token: str = NO_REPLY


def decide(turn: TurnFacts) -> Decision:
    """Decide what to deliver of a turn."""
    if turn.sends == "deny":
        return Suppress("send-policy")
    if turn.status == "aborted":
        has_stalled = turn.stalled and turn.recovering
        return _notice(STALLED, is_error=True) if has_stalled else Suppress("aborted")
    if turn.internal and not _forced_replies(turn):
        return Suppress("silent")
    if turn.status == "failed":
        return _decide_failed(turn)
    return _decide_tool_only(turn) if turn.visible == "tool-only" else _decide_automatic(turn)


def choose_destination(
    reply: Reply,
    origin: ReplyOrigin | None,
    *,
    dispatcher_available: bool,
    preferred: DestinationKind | None = None,
) -> Destination:
    """Return where `reply` goes: to its origin if that is complete, else to the dispatcher.

    `preferred` is what the owner of the channel prefers; it is followed where possible.
    """
    if is_silent(reply) or reply.is_empty:
        return Destination("drop", "silent")
    if preferred == "drop":
        return Destination("drop", "channel")
    can_return = origin is not None and origin.is_complete
    if can_return and not (preferred == "dispatcher" and dispatcher_available):
        return Destination("origin")
    if dispatcher_available:
        reason = "channel" if preferred == "dispatcher" else "origin-incomplete"
        return Destination("dispatcher", reason)
    return Destination("drop", "no-route")


def _decide_automatic(turn: TurnFacts) -> Decision:
    replies = _unsent_replies(turn)
    if replies:
        return Deliver(replies)
    if turn.pending:
        return _decide_pending(turn)
    return Suppress("silent") if _chose_silence(turn) else _decide_empty(turn)


def _decide_tool_only(turn: TurnFacts) -> Decision:
    """Deliver only replies that are always delivered; tools send the others."""
    if forced := _forced_replies(turn):
        return Deliver(forced)
    if turn.pending:
        return _decide_pending(turn)
    if _chose_silence(turn) or _is_settled(turn):
        return Suppress("silent")
    replies = _unsent_replies(turn)
    if not replies:
        return _decide_empty(turn)
    if all(reply.is_error for reply in replies):
        return Suppress("tool-only")
    return _notice(NOT_DELIVERED, is_error=True) if turn.retried else Retry()


def _decide_failed(turn: TurnFacts) -> Decision:
    if _has_answered(turn) or turn.pending or turn.asked:
        return Suppress("silent")
    replies = _forced_replies(turn) if turn.visible == "tool-only" else _unsent_replies(turn)
    answers = tuple(reply for reply in replies if reply.kind == "final" and not reply.is_error)
    if answers:
        return Deliver(answers)
    failure = Reply(text=turn.failure, is_error=True, kind="status", always=True)
    if is_silent(failure, turn.token):
        return Suppress("silent")
    errors = tuple(reply for reply in replies if reply.is_error)
    return Deliver(errors or (structs.replace(failure, text=turn.failure or NO_VISIBLE_REPLY),))


def _unsent_replies(turn: TurnFacts) -> tuple[Reply, ...]:
    """Return the visible replies that no tool has sent before."""
    replies = tuple(reply for reply in turn.replies if not reply.is_reasoning)
    sent = [each for each in turn.sent if each.to_origin]
    texts = {each.text.strip() for each in sent if each.text.strip()}
    left = (
        structs.replace(reply, text="") if reply.text.strip() in texts else reply
        for reply in visible_replies(replies, turn.token)
    )
    media = (ref for each in sent for ref in each.media)
    return tuple(without_repeated_media(left, media))


def _forced_replies(turn: TurnFacts) -> tuple[Reply, ...]:
    return tuple(reply for reply in _unsent_replies(turn) if reply.always)


def _has_answered(turn: TurnFacts) -> bool:
    return any(each.to_origin and each.final for each in turn.sent)


def _chose_silence(turn: TurnFacts) -> bool:
    return any(is_silent(reply, turn.token) for reply in turn.replies)


def _decide_empty(turn: TurnFacts) -> Decision:
    """Deliver a notice for a turn without a reply, unless it needs none."""
    return Suppress("silent") if _is_settled(turn) else _notice(NO_VISIBLE_REPLY)


def _is_settled(turn: TurnFacts) -> bool:
    return _has_answered(turn) or turn.asked or turn.expected == "optional"


def _decide_pending(turn: TurnFacts) -> Decision:
    """Deliver a notice that the turn continues, unless a tool has sent a message."""
    has_sent = any(each.to_origin for each in turn.sent)
    return Suppress("silent") if has_sent else _notice(CONTINUING)


def _notice(text: str, *, is_error: bool = False) -> Deliver:
    return Deliver((Reply(text=text, kind="status", is_error=is_error, always=True),))
