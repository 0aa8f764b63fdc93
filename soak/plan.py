"""The plan: which blow falls when, and on whom.

Owns nothing but chances. Invariant: the same seed, roles and seconds give the same plan.
What a blow meets when it falls is up to the machine: the seed fixes the faults, not how
the processes interleave.
"""

from __future__ import annotations

import random
from collections.abc import Iterable

from msgspec import Struct

from soak.roles import Blow, Role

__all__ = ["Stroke", "plan_strikes"]

_LASTS = (0.5, 2.5)
_JUMPS = (-86_400 * 400, -3_600, -7, 5, 3_600, 86_400 * 30, 86_400 * 4_000)


class Stroke(Struct, frozen=True):
    """A blow at a moment."""

    at: float
    role: str
    blow: Blow
    lasts: float = 0.0
    jump: int = 0
    pick: int = 0
    """Chooses among what there is when it falls."""


def plan_strikes(seed: str, roles: Iterable[Role], seconds: float) -> list[Stroke]:
    """All strokes, in order; none in the last moments, so that there is something to strike."""
    strokes = [
        stroke
        for role in roles
        for blow, pause in role.blows.items()
        for stroke in _series(seed, role.name, blow, pause, seconds)
    ]
    return sorted(strokes, key=lambda stroke: (stroke.at, stroke.role, stroke.blow))


def _series(seed: str, role: str, blow: Blow, pause: float, seconds: float) -> list[Stroke]:
    chance = random.Random(f"{seed} {role} {blow}")
    strokes = []
    at = pause * chance.uniform(0.4, 1.0)
    while at < seconds:
        strokes.append(
            Stroke(
                round(at, 3),
                role,
                blow,
                round(chance.uniform(*_LASTS), 3),
                chance.choice(_JUMPS),
                chance.randrange(1_000),
            )
        )
        at += pause * chance.uniform(0.5, 1.5)
    return strokes
