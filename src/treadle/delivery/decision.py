"""What a turn tells: all it has to say, some of it, a notice, or nothing.

Owns the decision, from the facts of a turn that has ended. Invariant: a turn that was
expected to say something and did not is told of, unless somebody chose its silence.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct, structs

from .payload import Reply, each_once, is_silent, prepared
from .silent import NO_REPLY

__all__ = [
    "CONTINUING",
    "NOT_DELIVERED",
    "NO_VISIBLE_REPLY",
    "STALLED",
    "Decision",
    "Deliver",
    "Retry",
    "Sent",
    "Suppress",
    "Suppression",
    "TurnFacts",
    "decide",
]

Suppression: TypeAlias = Literal["silent", "send-policy", "aborted", "tool-only"]

CONTINUING = "Still at work on this; more will follow."
NO_VISIBLE_REPLY = "The turn ended, but did not produce a visible reply."
NOT_DELIVERED = "The answer could not be delivered. It is kept in the thread."
STALLED = "The turn stalled again and was ended. Ask again to go on."


class Deliver(Struct, frozen=True):
    """Tell these, in order."""

    replies: tuple[Reply, ...]


class Suppress(Struct, frozen=True):
    """Tell nothing."""

    reason: Suppression


class Retry(Struct, frozen=True):
    """Run the turn once more, for its answer was left where nobody sees it."""


Decision: TypeAlias = Deliver | Suppress | Retry


class Sent(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something that a tool of the turn has sent already."""

    text: str = ""
    media: tuple[str, ...] = ()
    to_origin: bool = True
    """Whether it went to where the turn came from."""
    final: bool = True
    """Whether it was the answer, and no word on how things stand."""


class TurnFacts(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is known of a turn when it has ended."""

    replies: tuple[Reply, ...] = ()
    status: Literal["completed", "failed", "aborted"] = "completed"
    failure: str = ""
    """Why it failed, in words for a person."""
    stalled: bool = False
    """It was broken off because nothing came any more."""
    recovering: bool = False
    """It was itself an attempt to go on after a stall."""
    sends: Literal["allow", "deny"] = "allow"
    visible: Literal["automatic", "tool-only"] = "automatic"
    """Whether what the model says is told, or only what it sends by a tool."""
    expected: Literal["required", "optional"] = "required"
    internal: bool = False
    """Its input came from the runtime, not from anybody."""
    sent: tuple[Sent, ...] = ()
    pending: bool = False
    """It goes on later: it yielded, or waits for agents."""
    asked: bool = False
    """Somebody was asked something, or a call is still open: the answer will follow."""
    retried: bool = False
    """It was run once more already, because its answer was not sent."""
    token: str = NO_REPLY


def decide(turn: TurnFacts) -> Decision:
    """What to tell of a turn."""
    if turn.sends == "deny":
        return Suppress("send-policy")
    if turn.status == "aborted":
        stalls = turn.stalled and turn.recovering
        return _notice(STALLED, is_error=True) if stalls else Suppress("aborted")
    if turn.internal and not _marked(turn):
        return Suppress("silent")
    if turn.status == "failed":
        return _failed(turn)
    return _private(turn) if turn.visible == "tool-only" else _automatic(turn)


def _automatic(turn: TurnFacts) -> Decision:
    heard = _heard(turn)
    if heard:
        return Deliver(heard)
    if turn.pending:
        return _continuing(turn)
    return Suppress("silent") if _chose_silence(turn) else _unheard(turn)


def _private(turn: TurnFacts) -> Decision:
    """Only what was sent, or marked as to be told, leaves the turn."""
    if marked := _marked(turn):
        return Deliver(marked)
    if turn.pending:
        return _continuing(turn)
    if _chose_silence(turn) or _is_settled(turn):
        return Suppress("silent")
    heard = _heard(turn)
    if not heard:
        return _unheard(turn)
    if all(reply.is_error for reply in heard):
        return Suppress("tool-only")
    return _notice(NOT_DELIVERED, is_error=True) if turn.retried else Retry()


def _failed(turn: TurnFacts) -> Decision:
    if _answered(turn) or turn.pending or turn.asked:
        return Suppress("silent")
    heard = _marked(turn) if turn.visible == "tool-only" else _heard(turn)
    answers = tuple(reply for reply in heard if reply.kind == "final" and not reply.is_error)
    if answers:
        return Deliver(answers)
    failure = Reply(text=turn.failure, is_error=True, kind="status", always=True)
    if is_silent(failure, turn.token):
        return Suppress("silent")
    errors = tuple(reply for reply in heard if reply.is_error)
    return Deliver(errors or (structs.replace(failure, text=turn.failure or NO_VISIBLE_REPLY),))


def _heard(turn: TurnFacts) -> tuple[Reply, ...]:
    """What is to be told and was not sent before."""
    spoken = tuple(reply for reply in turn.replies if not reply.is_reasoning)
    sent = [each for each in turn.sent if each.to_origin]
    texts = {each.text.strip() for each in sent if each.text.strip()}
    left = (
        structs.replace(reply, text="") if reply.text.strip() in texts else reply
        for reply in prepared(spoken, turn.token)
    )
    return tuple(each_once(left, (ref for each in sent for ref in each.media)))


def _marked(turn: TurnFacts) -> tuple[Reply, ...]:
    return tuple(reply for reply in _heard(turn) if reply.always)


def _answered(turn: TurnFacts) -> bool:
    return any(each.to_origin and each.final for each in turn.sent)


def _chose_silence(turn: TurnFacts) -> bool:
    return any(is_silent(reply, turn.token) for reply in turn.replies)


def _unheard(turn: TurnFacts) -> Decision:
    """Nothing was said at all: that is told, unless it is as it should be."""
    return Suppress("silent") if _is_settled(turn) else _notice(NO_VISIBLE_REPLY)


def _is_settled(turn: TurnFacts) -> bool:
    return _answered(turn) or turn.asked or turn.expected == "optional"


def _continuing(turn: TurnFacts) -> Decision:
    """Who heard of progress needs no word that there is some."""
    told = any(each.to_origin for each in turn.sent)
    return Suppress("silent") if told else _notice(CONTINUING)


def _notice(text: str, *, is_error: bool = False) -> Deliver:
    return Deliver((Reply(text=text, kind="status", is_error=is_error, always=True),))
