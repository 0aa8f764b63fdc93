"""Scenes: a conversation as the engine looks at it, and what it keeps in mind of one.

Owns what a view comes to beside the measures: its size, where the live turn begins, what
of it may be summarised. Invariant: a scene never changes, and is planned once.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from ..values import ContextItem, Conversation, LogReader
from .plan import Measures, Stretch, stretches
from .reading import Reading

__all__ = ["Full", "Scene", "Shown", "newest_turn", "volatile_of"]


class Scene(Struct, frozen=True, kw_only=True):
    """A conversation as the engine looks at it."""

    thread: str
    said: Conversation
    seen: Reading
    live: int
    """Where the current turn begins."""
    budget: int
    measures: Measures
    model: str = ""
    log: LogReader
    _planned: dict[bool, list[Stretch]] = field(default_factory=dict)

    @property
    def items(self) -> tuple[ContextItem, ...]:
        """What is shown."""
        return tuple(self.said.items)

    @property
    def volatile(self) -> frozenset[str]:
        """The items that are for the model alone."""
        return volatile_of(self.said)

    @property
    def size(self) -> int:
        """Its tokens."""
        return self.seen.tokens

    @property
    def is_filling(self) -> bool:
        """Whether summaries should be made ready."""
        return self.size > self.measures.prepare * self.budget

    def stretches(self, *, unfinished: bool = False) -> list[Stretch]:
        """What leaves may be made of, oldest first."""
        if unfinished not in self._planned:
            self._planned[unfinished] = stretches(
                self.items, self.live, self.measures, unfinished=unfinished
            )
        return self._planned[unfinished]

    def eager(self) -> Scene:
        """The same with nothing but the newest step counted as fresh."""
        return replace(self, measures=replace(self.measures, tail_tokens=0), _planned={})

    def beside(self, live: int) -> Scene:
        """The same with a turn under way that begins at `live`."""
        return self if live == self.live else replace(self, live=live, _planned={})


class Shown(Struct, frozen=True):
    """Summaries in a view that are known to be in the library."""

    names: tuple[str, ...] = ()
    weak: bool = False
    """Whether some of them were only extracted."""


class Full(Struct, frozen=True):
    """A view that could not be made smaller, however large it is."""

    live: int
    force: bool
    size: int
    worth_more: int
    """By how much it must grow before something may have come up that can be folded."""

    @classmethod
    def at(cls, scene: Scene, *, force: bool) -> Full:
        """What would be remembered of a scene."""
        return cls(scene.live, force, scene.size, scene.measures.leaf_tokens // 4)

    def covers(self, later: Full) -> bool:
        """Whether looking again would find what was found before."""
        same = (self.live, self.force) == (later.live, later.force)
        return same and self.size <= later.size < self.size + self.worth_more


def newest_turn(items: Sequence[ContextItem]) -> int:
    """Where the newest turn begins."""
    return next(at for at, item in enumerate(items) if item.turn == items[-1].turn)


def volatile_of(given: Conversation) -> frozenset[str]:
    """The items of a conversation that are for the model alone."""
    pairs = zip(given.items, given.persist, strict=True)
    return frozenset(item.id for item, persist in pairs if not persist and item.id is not None)
