"""Outcomes: whether what an attempt brought is an answer.

Owns the judgement of attempts: accepted, worth another candidate, or final as it is.
Invariant: after anything that cannot be undone, and after anything that was said to
somebody, no other candidate is tried.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

from .auth.cooldowns import Reason
from .failures import Failure

__all__ = [
    "Accepted",
    "Classification",
    "Facts",
    "Fallback",
    "Final",
    "Verdict",
    "classify",
    "kind",
]

Classification: TypeAlias = Literal["ok", "empty", "reasoning-only", "planning-only"]

_CODES: dict[Classification, str] = {
    "empty": "empty_result",
    "reasoning-only": "reasoning_only_result",
    "planning-only": "planning_only_result",
}
_NOT_THE_MODEL: frozenset[Reason] = frozenset(("context_overflow",))
"""Reasons that another model or account would meet as well: the view is too large."""


class Facts(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What an attempt did, as its harness saw it."""

    text: str = ""
    """What it said for people to read; a silent reply counts."""
    reasoned: bool = False
    planned: bool = False
    effects: tuple[str, ...] = ()
    """Calls that may have changed something, by the tools' names."""
    sent: tuple[str, ...] = ()
    """What was sent to others meanwhile: messages, media, orders to agents."""
    aborted: bool = False
    blocked: bool = False
    """A hook did not want it."""
    refused: bool = False
    """What it said is a refusal to answer."""
    failure: Failure | None = None


class Accepted(Struct, frozen=True, tag="accepted"):
    """It is the answer."""


class Fallback(Struct, frozen=True, tag="fallback"):
    """Another candidate may do better."""

    reason: Reason
    code: str
    message: str = ""


class Final(Struct, frozen=True, tag="final"):
    """It ends here, as it is."""

    why: str


Verdict: TypeAlias = Accepted | Fallback | Final


def kind(facts: Facts) -> Classification:
    """What sort of answer it is, for one that ended well."""
    if facts.text.strip():
        return "ok"
    if facts.planned:
        return "planning-only"
    return "reasoning-only" if facts.reasoned else "empty"


def classify(facts: Facts) -> Verdict:
    """What becomes of an attempt."""
    if facts.aborted:
        return Final("the user broke it off")
    if facts.blocked:
        return Final("a hook did not want it")
    if facts.failure is not None:
        return _judge_failure(facts, facts.failure)
    found = kind(facts)
    if found == "ok":
        return Accepted()
    # An empty answer to work that was done is an end, though a poor one.
    if facts.effects or facts.sent:
        return Accepted()
    return Fallback("format", _CODES[found], f"the model's answer is {found}")


def _judge_failure(facts: Facts, failure: Failure) -> Verdict:
    if facts.sent or facts.effects:
        return Final("it had already changed something; trying again could do that twice")
    if facts.text.strip():
        return Final("part of the answer was already heard")
    if failure.reason in _NOT_THE_MODEL:
        return Final("no other model or account would take it either")
    return Fallback(failure.reason, failure.code or "provider_error", failure.message)
