"""Rewinding a thread: its conversation, its files, or both.

Owns the plan that people are shown and what is done with it. Invariants: files come first, so
that a kill in between leaves a conversation that still says what happened; nothing that was not
in the plan is touched; a rewind can be undone by a plan of the same kind.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING

from msgspec import Struct

from ..context.cuts import step_boundary, turn_start
from ..context.visible import visible_backwards
from ..core.entries import Entry, own_parts
from ..core.errors import IllegalCut, NotFound, StoreCorrupt
from ..core.items import Message, text_of
from ..workspace.rewind import FileRewinds
from ..workspace.rewind_plan import FileChange, FilePlan

if TYPE_CHECKING:
    from ..engines.session import EngineSession
    from ..log.thread_log import ThreadLog
    from ..workspace.rewind import PastRewind
    from .policy import ThreadPolicy

__all__ = ["RewindPlan", "Rewinding", "Rewound", "RewoundTurn"]

_UNLIMITED = 1 << 61
_LONGEST_TEXT = 200


class RewoundTurn(Struct, frozen=True):
    """A turn that a rewind hides."""

    number: int
    text: str
    """How its input begins."""


class RewindPlan(Struct, frozen=True, kw_only=True):
    """What a rewind would do; nothing is done yet."""

    thread: str
    cut: int
    """The first entry to be hidden."""
    turns: tuple[RewoundTurn, ...] = ()
    """What would be hidden, oldest first."""
    files: FilePlan = FilePlan()
    asked: int | None = None
    """How many turns were asked for; None for a plan up to an entry."""
    upto: int = 0
    """The newest entry when the plan was made."""
    undoes: int | None = None
    """The rewind that this one undoes."""
    hides: bool = True
    """Whether there is something to do to the conversation."""


class Rewound(Struct, frozen=True, kw_only=True):
    """What a rewind did."""

    entry: int | None = None
    """The entry that hides the conversation; None where it was left."""
    cut: int = 0
    restored: tuple[str, ...] = ()
    """Paths that are as they were."""
    left: tuple[str, ...] = ()
    """Paths that changed meanwhile, or that the system refused, with the reason."""
    kept: tuple[FileChange, ...] = ()
    """What was not overwritten because somebody else changed it, too."""


class Rewinding:
    """Plans and does the rewinds of one thread, while no turn runs."""

    def __init__(self, log: ThreadLog, policy: ThreadPolicy, engine: EngineSession) -> None:
        self._log, self._policy, self._engine = log, policy, engine

    async def plan(self, turns: int, to: int | None) -> RewindPlan:
        """Plan the way back to before the last `turns`, or to entry `to`."""
        log = self._log
        if to is None:
            cut = await turn_start(log.store, log.id, turns)
        else:
            cut = await step_boundary(log.store, log.id, log.registry, to) + 1
        hidden = await self._turns_since(cut)
        files = FilePlan()
        if (rewinds := self._files()) is not None:
            spans = await self._spans(cut)
            files = await asyncio.to_thread(rewinds.plan, spans)
        hides = cut <= log.view.upto
        return RewindPlan(
            thread=log.id,
            cut=cut,
            turns=hidden,
            files=files,
            asked=turns if to is None else None,
            upto=log.view.upto,
            hides=hides,
        )

    async def plan_undo(self) -> RewindPlan:
        """Plan the way back to before the newest rewind."""
        log, rewinds = self._log, self._files()
        past = await asyncio.to_thread(rewinds.newest) if rewinds is not None else None
        if rewinds is None or past is None:
            raise NotFound(
                "rewind", log.id, "this thread was not rewound; there is nothing to undo"
            )
        files = await asyncio.to_thread(rewinds.plan_undo, past)
        # An engine that has forgotten the turns would not show them again.
        shows = not self._engine.assembles and await self._can_show(past)
        return RewindPlan(
            thread=log.id,
            cut=past.rollback or 0,
            files=files,
            upto=log.view.upto,
            undoes=past.number,
            hides=shows,
        )

    async def apply(
        self, plan: RewindPlan, *, conversation: bool, files: bool, overwrite: bool
    ) -> Rewound:
        """Do what was planned."""
        if plan.upto != self._log.view.upto:
            raise IllegalCut(
                f"thread {plan.thread!r} went on after this rewind was planned; plan it again"
            )
        rewinds, number = self._files(), None
        restored: tuple[str, ...] = ()
        left: tuple[str, ...] = ()
        wanted = plan.files.actions if files else ()
        chosen = [each for each in wanted if overwrite or not each.risky]
        if rewinds is not None and chosen:
            number, done = await asyncio.to_thread(rewinds.restore, chosen, self._log.view.upto)
            restored, left = done.done, done.left
        entry = await self._hide(plan) if conversation and plan.hides else None
        if rewinds is not None:
            await asyncio.to_thread(self._note, rewinds, plan, number, entry)
        kept = () if overwrite else tuple(each for each in wanted if each.risky)
        return Rewound(entry=entry, cut=plan.cut, restored=restored, left=left, kept=kept)

    def _note(
        self, rewinds: FileRewinds, plan: RewindPlan, number: int | None, entry: int | None
    ) -> None:
        """Record what the next undo needs."""
        if plan.undoes is not None:
            # A rewind that undoes one is not undone in its turn: the next undo goes further back.
            rewinds.mark_undone(plan.undoes, *([number] if number is not None else []))
        elif entry is not None:
            rewinds.note_conversation(number, entry, self._log.turn)

    async def _hide(self, plan: RewindPlan) -> int:
        """Hide everything from the cut on; a rollback that is hidden hides nothing any more."""
        log = self._log
        if plan.asked is not None:
            await log.epochs.rollback(plan.asked)
        else:
            await log.epochs.revert(plan.cut - 1)
        return (await log.store.info(log.id)).last

    async def _can_show(self, past: PastRewind) -> bool:
        """Whether the conversation that a rewind hid can come back: nothing was said since."""
        log = self._log
        if past.rollback is None or past.turns != log.turn:
            return False
        rollbacks = await log.store.rollbacks(log.id)
        return bool(rollbacks) and rollbacks[-1][0] == past.rollback

    async def _spans(self, cut: int) -> list[tuple[str, int, int]]:
        """Return who wrote the entries from the cut on, and up to which one."""
        log = self._log
        lineage = await log.store.lineage(log.id)
        spans = [(span.thread, cut, span.last) for span in lineage if span.last >= cut]
        return [*(each for each in spans if each[0] != log.id), (log.id, cut, _UNLIMITED)]

    async def _turns_since(self, cut: int) -> tuple[RewoundTurn, ...]:
        found: dict[int, str] = {}
        async with aclosing(visible_backwards(self._log.store, self._log.id)) as entries:
            async for entry in entries:
                if entry.seq < cut:
                    break
                if words := _input_words(entry):
                    found[entry.turn] = words
        return tuple(RewoundTurn(*each) for each in sorted(found.items()))

    def _files(self) -> FileRewinds | None:
        home = self._log.setup.home
        if home is None:
            return None
        return FileRewinds(home, self._log.id, policy=self._policy.sandbox)


def _input_words(entry: Entry) -> str:
    """Return how an input begins, if the entry is one that people are shown."""
    if entry.kind != "item" or not entry.turn or entry.flags or entry.step:
        return ""
    try:
        item = entry.item
    except StoreCorrupt:
        return ""
    if not isinstance(item, Message) or item.role != "user":
        return ""
    return " ".join(text_of(own_parts(item.content, entry.fragments)).split())[:_LONGEST_TEXT]
