"""What a turn delivers: its replies, some of them, a notice, or nothing; and where to.

Owns the decision, from the facts of an ended turn and from no other source. Invariants: a
turn that should have replied and did not delivers a notice, unless somebody chose its
silence; and a reply that is dropped has a reason.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct, structs

from .channel import Reply, ReplyOrigin, ReplyPolicy
from .replies import is_silent, visible_replies, without_repeated_media

__all__ = [
    "CONTINUING",
    "NOT_DELIVERED",
    "NO_VISIBLE_REPLY",
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

Suppression: TypeAlias = Literal["silent", "send-policy", "aborted"]
DestinationKind: TypeAlias = Literal["origin", "dispatcher", "drop"]

CONTINUING = "Still at work on this; more will follow."
NO_VISIBLE_REPLY = "The turn ended, but did not produce a visible reply."
NOT_DELIVERED = "The answer could not be delivered. It is kept in the thread."


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
    """Whether it went to where the reply of the turn goes."""
    final: bool = True
    """Whether it was the answer, and not a message about the status."""


class TurnFacts(ReplyPolicy, frozen=True, kw_only=True, omit_defaults=True):
    """What is known of a turn when it has ended."""

    replies: tuple[Reply, ...] = ()
    """What its log says, and the media of its tools."""
    status: Literal["completed", "failed", "aborted"] = "completed"
    failure: str = ""
    """Why it failed, for a person."""
    internal: bool = False
    """Its input came from the runtime, not from a person or agent."""
    sent: tuple[SentByTool, ...] = ()
    media: tuple[str, ...] = ()
    """What its tools have made for the reply."""
    as_voice: bool = False
    """Some of these media are spoken."""
    pending: bool = False
    """It continues later: agents that it started are at work."""
    asked: bool = False
    """Somebody was asked, and has not answered; no more needs to be said."""
    retried: bool = False
    """Its answer was not sent, and somebody has asked to try once more."""


def decide(turn: TurnFacts) -> Decision:
    """Decide what to deliver of a turn."""
    if turn.sends == "deny":
        return Suppress("send-policy")
    if turn.status == "aborted":
        return Suppress("aborted")
    if turn.internal:
        return Suppress("silent")
    if turn.status == "failed":
        return _decide_failed(turn)
    return _decide_tool_only(turn) if turn.visible == "tool-only" else _decide_automatic(turn)


def choose_destination(
    reply: Reply,
    origin: ReplyOrigin | None,
    *,
    dispatcher_available: bool,
) -> Destination:
    """Return where `reply` goes: to its origin if that is complete, else to the dispatcher."""
    if is_silent(reply) or reply.is_empty:
        return Destination("drop", "silent")
    if origin is not None and origin.is_complete:
        return Destination("origin")
    if dispatcher_available:
        return Destination("dispatcher", "origin-incomplete")
    return Destination("drop", "no-route")


def _decide_automatic(turn: TurnFacts) -> Decision:
    replies = _unsent_replies(turn)
    if replies:
        return Deliver(replies)
    return _decide_wordless(turn)


def _decide_tool_only(turn: TurnFacts) -> Decision:
    """Deliver only what is always delivered; tools send the rest."""
    if forced := _forced_replies(turn):
        return Deliver(forced)
    if turn.pending or _is_settled(turn) or not _unsent_replies(turn):
        return _decide_wordless(turn)
    return _notice(NOT_DELIVERED, is_error=True) if turn.retried else Retry()


def _decide_wordless(turn: TurnFacts) -> Decision:
    """Deliver a notice for a turn without words of its own, unless it needs none."""
    if turn.asked:
        return Suppress("silent")
    if turn.pending:
        return _decide_pending(turn)
    if _chose_silence(turn) or _is_settled(turn) or _was_sent(turn):
        return Suppress("silent")
    return _notice(NO_VISIBLE_REPLY)


def _decide_failed(turn: TurnFacts) -> Decision:
    if _has_answered(turn) or turn.pending or turn.asked:
        return Suppress("silent")
    return _notice(turn.failure or NO_VISIBLE_REPLY, is_error=True)


def _unsent_replies(turn: TurnFacts) -> tuple[Reply, ...]:
    """Return the visible replies that no tool has sent before."""
    sent = [each for each in turn.sent if each.to_origin]
    texts = {_plain(each.text) for each in sent} - {""}
    left = (
        structs.replace(reply, text="") if _plain(reply.text) in texts else reply
        for reply in visible_replies(turn.replies, turn.token)
    )
    media = (ref for each in sent for ref in each.media)
    return tuple(without_repeated_media(left, media))


def _plain(text: str) -> str:
    """Return what two spellings of one message have in common."""
    return " ".join(text.split()).casefold()


def _forced_replies(turn: TurnFacts) -> tuple[Reply, ...]:
    return tuple(reply for reply in _unsent_replies(turn) if reply.always)


def _has_answered(turn: TurnFacts) -> bool:
    return any(each.to_origin and each.final for each in turn.sent)


def _chose_silence(turn: TurnFacts) -> bool:
    return any(is_silent(reply, turn.token) for reply in turn.replies)


def _was_sent(turn: TurnFacts) -> bool:
    """Return whether it has words, and tools have sent them all."""
    return bool(visible_replies(turn.replies, turn.token)) and not _unsent_replies(turn)


def _is_settled(turn: TurnFacts) -> bool:
    return _has_answered(turn) or turn.asked or turn.expected == "optional"


def _decide_pending(turn: TurnFacts) -> Decision:
    """Deliver a notice that the turn continues, unless a tool has sent a message."""
    has_sent = any(each.to_origin for each in turn.sent)
    return Suppress("silent") if has_sent else _notice(CONTINUING)


def _notice(text: str, *, is_error: bool = False) -> Deliver:
    return Deliver((Reply(text=text, kind="status", is_error=is_error, always=True),))
