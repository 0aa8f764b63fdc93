"""Making room: compacting a thread's view, with everybody told.

Owns when a view is too large and the ceremony of compacting it: hooks before and after,
events, and one clear line when it cannot be done. Invariant: a compaction that failed
left the view as it was.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from ..core.errors import CannotCompact, EngineFailed, HookFailed, TooLong
from ..engines.compaction import CompactionModel, CompactionOutcome
from ..hooks.payloads import AfterCompaction, BeforeCompaction
from ..models.contract import ModelError
from .contract import Compacts, NativeCompaction, TurnRun
from .events import CompactionFinished, CompactionStarted, NoticeRaised

__all__ = ["compact_natively", "compact_view", "is_full", "make_room", "with_native"]

Trigger: TypeAlias = Literal["auto", "manual", "overflow"]

_NATIVE = "nativeCompaction"
"""Under this name a harness's own compaction is reported beside the engine's."""

_CANNOT = (CannotCompact, TooLong, ModelError, HookFailed)


def is_full(run: TurnRun) -> bool:
    """Whether the view has reached the model's limit for it; an owning engine knows itself."""
    occupied = run.engine.occupied_tokens()
    return occupied is not None and run.log.setup.profile.is_filled_by(occupied)


async def make_room(run: TurnRun, trigger: Trigger, *, live: bool) -> bool:
    """Compact the view; whether that worked. The user is told when it did not.

    An engine that fails when there is no room left is helped out: the turn goes on.
    """
    try:
        await compact_view(run, trigger, live=live)
    except EngineFailed as error:
        run.emit(NoticeRaised(level="warning", text=f"{error}; the runtime compacts the view"))
        try:
            await _compact(run, trigger, live=live, by_engine=False)
        except _CANNOT as reason:
            return _warn(run, reason)
    except _CANNOT as error:
        return _warn(run, error)
    return True


async def compact_view(run: TurnRun, trigger: Trigger, *, live: bool) -> CompactionOutcome:
    """Compact the view.

    Raises `CannotCompact`, `TooLong`, `ModelError`, `HookFailed`, `EngineFailed`.
    An engine is asked when it owns compaction, and otherwise when compaction was asked for by
    hand or by an overflow.
    """
    await _ask_hooks(run, trigger)
    return await _compact(run, trigger, live=live, by_engine=run.engine.compacts(trigger))


async def compact_natively(run: TurnRun, harness: Compacts) -> CompactionOutcome:
    """Let the harness compact its own thread. Raises `CannotCompact` and `HookFailed`.

    The harness tells everybody, as it does where it compacts without being asked.
    """
    await _ask_hooks(run, "manual")
    before = run.log.view.tokens
    native = await harness.compact(run)
    if native.status != "completed":
        raise CannotCompact(f"{native.backend} did not compact: {native.reason}")
    done = CompactionOutcome(before, run.log.view.tokens, by=native.backend)
    return with_native(done, native)


def with_native(done: CompactionOutcome, native: NativeCompaction) -> CompactionOutcome:
    """A compaction with what became of the harness's own, which is told apart from it."""
    told = msgspec.to_builtins(native)
    return msgspec.structs.replace(done, details={**done.details, _NATIVE: told})


async def _compact(
    run: TurnRun, trigger: Trigger, *, live: bool, by_engine: bool
) -> CompactionOutcome:
    """Compact, and tell everybody."""
    from .completion import completer, provider_compaction  # only for a view that is full

    log, model = run.log, CompactionModel(completer(run), provider_compaction(run))
    await log.epochs.follow_model()
    tokens = log.view.tokens
    by = run.engine.name if by_engine else "linear"
    run.emit(CompactionStarted(by=by, tokens=tokens))
    try:
        done = await run.engine.compact(trigger, live=live, model=model, by_engine=by_engine)
    except BaseException as error:
        run.emit(
            CompactionFinished(
                by=by,
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
    await run.hooks.notify(
        AfterCompaction(
            thread=log.id, tokens_before=done.tokens_before, tokens_after=done.tokens_after
        )
    )
    return done


async def _ask_hooks(run: TurnRun, trigger: Trigger) -> None:
    log = run.log
    asked = BeforeCompaction(thread=log.id, tokens=log.view.tokens, trigger=trigger)
    for answer in await run.hooks.ask(asked):
        if answer.block is not None:
            raise CannotCompact(f"a hook does not want thread {log.id!r} compacted: {answer.block}")


def _warn(run: TurnRun, error: Exception) -> bool:
    run.emit(NoticeRaised(level="warning", text=f"could not make room: {error}"))
    return False
