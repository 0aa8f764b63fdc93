"""Making room: folding a thread's view, with everybody told.

Owns when a view is too large and the ceremony of folding it: hooks before and after,
events, and one clear line when it cannot be done. Invariant: a compaction that failed
left the view as it was.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from ..engines.linear import Compacted, LinearCompaction
from ..errors import CannotCompact, HookFailed, TooLong
from ..hooks.payloads import AfterCompaction, BeforeCompaction
from ..models.contract import ModelError
from .completion import completer, provider_fold
from .contract import TurnRun
from .events import CompactionFinished, CompactionStarted, NoticeRaised

__all__ = ["fold", "is_full", "make_room"]

Trigger: TypeAlias = Literal["auto", "manual", "overflow"]


def is_full(run: TurnRun) -> bool:
    """Whether the view has reached the model's limit for it."""
    profile, occupied = run.journal.profile, run.journal.occupied
    limits = (profile.auto_compact_limit, profile.effective_window)
    return any(limit is not None and occupied >= limit for limit in limits)


async def make_room(run: TurnRun, trigger: Trigger, *, live: bool) -> bool:
    """Fold the view; whether that worked. The user is told when it did not."""
    try:
        await fold(run, trigger, live=live)
    except (CannotCompact, TooLong, ModelError, HookFailed) as error:
        run.emit(NoticeRaised(level="warning", text=f"could not make room: {error}"))
        return False
    return True


async def fold(run: TurnRun, trigger: Trigger, *, live: bool) -> Compacted:
    """Fold the view. Raises `CannotCompact`, `TooLong`, `ModelError` or `HookFailed`."""
    journal = run.journal
    tokens = journal.view.tokens
    asked = BeforeCompaction(thread=journal.id, tokens=tokens, trigger=trigger)
    for answer in await run.hooks.ask(asked):
        if answer.block is not None:
            raise CannotCompact(
                f"a hook does not want thread {journal.id!r} folded: {answer.block}"
            )
    run.emit(CompactionStarted(by="linear", tokens=tokens))
    try:
        engine = LinearCompaction(completer(run), provider_fold(run))
        done = await engine.compact(journal, live=live)
    except BaseException as error:
        run.emit(
            CompactionFinished(
                by="linear",
                tokens_before=tokens,
                tokens_after=tokens,
                error=str(error) or "interrupted",
            )
        )
        raise
    run.emit(
        CompactionFinished(
            by=done.by, tokens_before=done.tokens_before, tokens_after=done.tokens_after
        )
    )
    await run.hooks.tell(
        AfterCompaction(
            thread=journal.id, tokens_before=done.tokens_before, tokens_after=done.tokens_after
        )
    )
    return done
