"""Making room: folding a thread's view, with everybody told.

Owns when a view is too large and the ceremony of folding it: hooks before and after,
events, and one clear line when it cannot be done. Invariant: a compaction that failed
left the view as it was.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Literal, TypeAlias

import msgspec

from ..core.errors import CannotCompact, EngineFailed, HookFailed, TooLong
from ..hooks.payloads import AfterCompaction, BeforeCompaction
from ..models.contract import ModelError
from .contract import Compacts, NativeCompaction, TurnRun
from .events import CompactionFinished, CompactionStarted, NoticeRaised

if TYPE_CHECKING:
    from ..engines.linear import CompactionOutcome

__all__ = ["compact_natively", "compact_view", "is_full", "make_room", "with_native"]

Trigger: TypeAlias = Literal["auto", "manual", "overflow"]

_NATIVE = "codexNativeCompaction"
"""Under this name a harness's own compaction is reported beside the engine's."""

_CANNOT = (CannotCompact, TooLong, ModelError, HookFailed)


def is_full(run: TurnRun) -> bool:
    """Whether the view has reached the model's limit for it; an owning engine knows itself."""
    profile, occupied = run.log.setup.profile, run.engine.occupied_tokens()
    limits = (profile.auto_compact_limit, profile.effective_window)
    return occupied is not None and any(limit is not None and occupied >= limit for limit in limits)


async def make_room(run: TurnRun, trigger: Trigger, *, live: bool) -> bool:
    """Fold the view; whether that worked. The user is told when it did not.

    An engine that fails when there is no room left is helped out: the turn goes on.
    """
    try:
        await compact_view(run, trigger, live=live)
    except EngineFailed as error:
        run.emit(NoticeRaised(level="warning", text=f"{error}; the runtime folds the view"))
        try:
            await _compact(run, trigger, live=live, asks_engine=False)
        except _CANNOT as reason:
            return _warn(run, reason)
    except _CANNOT as error:
        return _warn(run, error)
    return True


async def compact_view(run: TurnRun, trigger: Trigger, *, live: bool) -> CompactionOutcome:
    """Fold the view. Raises `CannotCompact`, `TooLong`, `ModelError`, `HookFailed`, `EngineFailed`.

    An engine is asked when it owns compaction, and otherwise when a fold was asked for by
    hand or by an overflow.
    """
    await _ask_hooks(run, trigger)
    engine = run.engine
    asks_engine = engine.serving and (engine.owns_compaction or trigger != "auto")
    return await _compact(run, trigger, live=live, asks_engine=asks_engine)


async def compact_natively(run: TurnRun, harness: Compacts) -> CompactionOutcome:
    """Let the harness fold its own thread. Raises `CannotCompact` and `HookFailed`.

    The harness tells everybody, as it does where it folds without being asked.
    """
    from ..engines.linear import CompactionOutcome

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
    run: TurnRun, trigger: Trigger, *, live: bool, asks_engine: bool
) -> CompactionOutcome:
    """Fold, and tell everybody."""
    log = run.log
    tokens = log.view.tokens
    by = run.engine.choice.name if asks_engine else "linear"
    run.emit(CompactionStarted(by=by, tokens=tokens))
    runtime = partial(_by_runtime, run, trigger, live=live)
    try:
        if asks_engine:
            done = await run.engine.compact(trigger, live=live, delegate=runtime)
        else:
            done = await runtime()
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
            raise CannotCompact(f"a hook does not want thread {log.id!r} folded: {answer.block}")


async def _by_runtime(run: TurnRun, trigger: Trigger, *, live: bool) -> CompactionOutcome:
    """The linear fold, with the words of an engine that wants to find them itself."""
    from ..engines.linear import LinearCompaction
    from .completion import completer, provider_fold

    linear = LinearCompaction(
        completer(run),
        provider_fold(run),
        lambda rows: run.engine.intercept(rows, trigger),
    )
    return await linear.compact(run.log, live=live)


def _warn(run: TurnRun, error: Exception) -> bool:
    run.emit(NoticeRaised(level="warning", text=f"could not make room: {error}"))
    return False
