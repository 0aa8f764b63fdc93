"""Limits: how far a turn may go, in money, requests, time and tokens.

Owns what a host may allow, what a turn has spent of it, and the judgement. Invariant: the
same limits and figures always give the same judgement.
"""

from __future__ import annotations

import math
from typing import Literal, TypeAlias

from msgspec import Raw, Struct

from ..core.errors import InvalidOption
from ..core.typed import decode_json
from ..core.wire import Json, json_bytes

__all__ = ["LimitKind", "LimitReached", "Limits", "Spent", "find_reached", "limit_of", "outcome_of"]

LimitKind: TypeAlias = Literal["cost", "steps", "time", "tokens"]


class Limits(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a turn may use, its agents included; None is no limit.

    A turn that reaches one ends before its next request, or at once where its time is over.
    """

    cost: float | None = None
    """Money, in the currency of the model's price."""
    steps: int | None = None
    """Requests that a model has answered."""
    seconds: float | None = None
    """Time; while the user is asked something, it stands still."""
    tokens: int | None = None
    """Tokens in and out, as the providers count them; what came from a cache counts."""

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if value is not None and not (0 < value < math.inf):
                raise InvalidOption(
                    f"{value!r} is no limit for {name!r}; give a number above 0, or None for none"
                )


class Spent(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a turn has used so far."""

    cost: float = 0.0
    steps: int = 0
    seconds: float = 0.0
    tokens: int = 0

    def __add__(self, other: Spent) -> Spent:
        """Return the sum."""
        return Spent(
            cost=self.cost + other.cost,
            steps=self.steps + other.steps,
            seconds=self.seconds + other.seconds,
            tokens=self.tokens + other.tokens,
        )


class LimitReached(Struct, frozen=True, kw_only=True, tag="limit.reached", omit_defaults=True):
    """The turn has reached one of its limits, and ends here; what it did is kept."""

    limit: LimitKind
    most: float
    """What was allowed: money, requests, seconds or tokens."""
    spent: float
    """What was used; the last answer may have gone beyond the limit."""
    currency: str = ""

    @property
    def text(self) -> str:
        """Say which limit it is, for people."""
        match self.limit:
            case "cost":
                money = f" {self.currency}".rstrip()
                return f"the limit of {self.most:g}{money} is reached: {self.spent:.4g}{money}"
            case "time":
                return f"the limit of {self.most:g} seconds is reached"
            case "steps":
                steps = "step" if self.most == 1 else "steps"
                return f"the limit of {self.most:g} {steps} is reached"
            case "tokens":
                return f"the limit of {self.most:,.0f} tokens is reached: {self.spent:,.0f}"


def find_reached(limits: Limits, spent: Spent, currency: str = "") -> LimitReached | None:
    """Return the first limit that is reached, or None while the turn may go on."""
    allowed: tuple[tuple[LimitKind, float | None, float], ...] = (
        ("cost", limits.cost, spent.cost),
        ("tokens", limits.tokens, spent.tokens),
        ("steps", limits.steps, spent.steps),
        ("time", limits.seconds, spent.seconds),
    )
    for limit, most, used in allowed:
        if most is not None and used >= most:
            money = currency if limit == "cost" else ""
            return LimitReached(limit=limit, most=most, spent=used, currency=money)
    return None


def outcome_of(reached: LimitReached) -> Json:
    """Return what the log says of a turn that ended at a limit."""
    return Raw(json_bytes(_Told(reached)))


def limit_of(outcome: Json | None) -> LimitReached | None:
    """Return the limit that ended a turn, from what the log says of its end."""
    return None if outcome is None else decode_json(outcome, _Told).limit


class _Told(Struct, frozen=True, omit_defaults=True):
    """The outcome of a turn, in the log."""

    limit: LimitReached | None = None
