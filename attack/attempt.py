"""Attempts: what an attacker tries, under a name.

Owns the list of attempts of each area. Invariant: an attempt has a docstring that says what is
tried and what would prove that it got through, and returns just that proof: evidence, or "".
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias

from attack.ground import Ground

__all__ = ["Area", "Attack", "Attempt"]

Attack: TypeAlias = Callable[[Ground], str | Awaitable[str]]


@dataclass(frozen=True, slots=True)
class Attempt:
    """One thing that is tried."""

    area: str
    name: str
    attack: Attack
    story: str
    """What the attacker tries, and what would prove that it got through."""
    quick: bool = False
    """Whether it is cheap enough for `make test`."""
    proof: bool = False
    """Whether it gets through where the ground is weak, which shows that it is able to."""
    seconds: float = 60.0
    """How long it may take; one that takes longer did not hold."""

    @property
    def key(self) -> str:
        """Return what no other attempt is called."""
        return f"{self.area}: {self.name}"


@dataclass(frozen=True, slots=True)
class Area:
    """Attempts against one part of Treadle."""

    name: str
    title: str
    weakness: str
    """How the ground is weakened to show that attempts can get through."""
    attempts: list[Attempt] = field(default_factory=list)

    def attempt(self, **facts: Any) -> Callable[[Attack], Attack]:
        """Add a function as an attempt, under its own name."""

        def add(attack: Attack) -> Attack:
            self._add(_spoken(attack), attack, attack.__doc__, facts)
            return attack

        return add

    def each(
        self, cases: Mapping[str, Any], *, quick: str = "", **facts: Any
    ) -> Callable[[Callable[[Ground, Any], Any]], Callable[[Ground, Any], Any]]:
        """Add a function as one attempt for each case; the one called `quick` is a quick one."""

        def add(attack: Callable[[Ground, Any], Any]) -> Callable[[Ground, Any], Any]:
            for case, given in cases.items():
                name = f"{_spoken(attack)}: {case}"
                bound = partial(_with_case, attack, given)
                self._add(name, bound, attack.__doc__, {**facts, "quick": case == quick})
            return attack

        return add

    def _add(self, name: str, attack: Attack, story: str | None, facts: dict[str, Any]) -> None:
        assert story, f"{name!r} must say what is tried and what would prove it"
        self.attempts.append(Attempt(self.name, name, attack, " ".join(story.split()), **facts))


def _with_case(attack: Callable[[Ground, Any], Any], given: Any, ground: Ground) -> Any:
    return attack(ground, given)


def _spoken(attack: Callable[..., Any]) -> str:
    return attack.__name__.replace("_", " ")
