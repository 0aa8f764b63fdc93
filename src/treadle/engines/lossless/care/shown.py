"""What logs show: the recipes that count, and the conversation they must account for.

Owns the walk through the logs of a store, each stretch once, however many forks share it.
Invariant: what was rolled back is not in it, and whose thread was deleted neither.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from ....context.visible import hidden_stretches, outside
from ....core.entries import Entry, Epoch, Flags, Node, Range
from ....store.contract import Span, Store, ThreadInfo

__all__ = ["Base", "Shown", "shown_in"]

_PAGE = 1_000
_UNSEEN = Flags.CONTEXTUAL | Flags.VOLATILE


@dataclass(frozen=True, slots=True)
class Base:
    """A recipe, and where it stands."""

    seq: int
    by: str
    parts: tuple[Range | Node, ...]
    """What of it stands for entries, in order."""

    @property
    def nodes(self) -> list[Node]:
        """The summaries that it shows."""
        return [part for part in self.parts if isinstance(part, Node)]


@dataclass(frozen=True, slots=True)
class Shown:
    """A thread as its log shows it."""

    info: ThreadInfo
    lineage: tuple[Span, ...]
    hidden: tuple[tuple[int, int], ...]
    bases: tuple[Base, ...]
    """Every recipe that is visible, oldest first."""
    said: tuple[int, ...]
    """The visible entries that are conversation."""


@dataclass(slots=True)
class _Written:
    """What one thread wrote, as far as it was read."""

    upto: int = 0
    bases: list[Base] = field(default_factory=list)
    said: list[int] = field(default_factory=list)


async def shown_in(store: Store, progress: Callable[[str], None] = lambda _: None) -> list[Shown]:
    """Every thread of a store, as its log shows it."""
    writers: dict[str, _Written] = {}
    found: list[Shown] = []
    for info in await store.threads():
        progress(f"reading {info.id}")
        lineage = await store.lineage(info.id) if info.last else []
        hidden = await hidden_stretches(store, info.id)
        for span in lineage:
            await _read(store, info.id, span, writers.setdefault(span.thread, _Written()))
        found.append(_shown(info, lineage, hidden, writers))
    return found


async def _read(store: Store, thread: str, span: Span, written: _Written) -> None:
    """Read on in what a thread wrote."""
    first = max(span.first, written.upto + 1)
    while first <= span.last:
        last = min(first + _PAGE - 1, span.last)
        for entry in await store.read(thread, first, last):
            _note(entry, written)
        first = last + 1
    written.upto = max(written.upto, span.last)


def _note(entry: Entry, written: _Written) -> None:
    if entry.kind == "item" and not entry.flags & _UNSEEN:
        written.said.append(entry.seq)
    elif entry.kind == "epoch":
        control = entry.control
        if isinstance(control, Epoch) and control.recipe is not None:
            parts = tuple(part for part in control.recipe.parts if isinstance(part, Range | Node))
            written.bases.append(Base(entry.seq, control.by, parts))


def _shown(
    info: ThreadInfo,
    lineage: list[Span],
    hidden: list[tuple[int, int]],
    writers: dict[str, _Written],
) -> Shown:
    bases: list[Base] = []
    said: list[int] = []
    for span in lineage:
        written = writers[span.thread]
        for first, last in outside([(span.first, span.last)], hidden):
            bases += [base for base in written.bases if first <= base.seq <= last]
            said += [seq for seq in written.said if first <= seq <= last]
    return Shown(info, tuple(lineage), tuple(hidden), tuple(bases), tuple(said))
