"""The lossless engine: nothing is forgotten, and the view stays small.

Owns when summaries are made and shown, and the keys of ``[engines.lossless]``.
Invariants: the log is the only copy of what was said; a view changes in one step from
high to low water; within an epoch the earlier view is an exact prefix of the next one,
and a step that changes nothing costs what is new.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import msgspec

from ...core.errors import ConfigError
from ...core.typed import convert
from ...tools.contract import Tool
from ..contract import EngineInfo, TranscriptPromise
from ..loading import EngineContext
from ..project_memory import index_project
from ..values import (
    AssembleParams,
    AssembleResult,
    BootstrapParams,
    BootstrapResult,
    CommitParams,
    CommitResult,
    CompactParams,
    CompactResult,
    ContextItem,
    ConversationParams,
    IngestParams,
    IngestResult,
    MaintainParams,
    MaintainResult,
    Projection,
    Rebase,
    ResetParams,
)
from .call_limits import CallLimiter
from .chunks import Thresholds, token_count
from .library import Library, RecentThreads
from .reducer import Reducer
from .thread_memory import ThreadMemory
from .view_state import (
    ConversationStats,
    KnownSummaries,
    ViewState,
    conversation_stats,
    newest_turn,
)

__all__ = ["FILE", "INFO", "MODEL_KEY", "LosslessEngine", "create_engine", "thresholds_from"]

MODEL_KEY = "model"
"""The key that names who writes summaries in place of the thread's model; the runtime reads it."""
FILE = "lossless.db"
"""The library's file in the engine's home."""

INFO = EngineInfo(
    id="lossless",
    name="Lossless",
    version="1",
    owns_compaction=True,
    turn_maintenance_mode="background",
    transcript=TranscriptPromise(
        current_turn_fence="before-current-turn-entry-v1",
        turn_advancement="atomic-idempotent-v1",
    ),
)

_DEFAULT_BUDGET = 100_000
"""Tokens for a conversation where the model's window is unknown."""


def create_engine(context: EngineContext) -> LosslessEngine:
    """Return the engine; without a home its summaries end with it. Raises `ConfigError`."""
    path = None if context.home is None else context.home / FILE
    return LosslessEngine(Library(path), thresholds_from(context.config))


def thresholds_from(config: dict[str, object]) -> Thresholds:
    """Return the thresholds that a configuration asks for. Raises `ConfigError`."""
    config = {key: value for key, value in config.items() if key != MODEL_KEY}
    known = (*Thresholds.__struct_fields__, MODEL_KEY)
    if unknown := sorted(set(config) - set(known)):
        raise ConfigError(
            f"[engines.lossless] has no key {unknown[0]!r}; the known keys are {', '.join(known)}"
        )
    try:
        found = convert(config, Thresholds)
    except msgspec.ValidationError as error:
        raise ConfigError(
            f"[engines.lossless] cannot be used: {error}; correct the value"
        ) from error
    if not 0 < found.prepare <= found.high <= found.hard <= 1:
        raise ConfigError(
            "[engines.lossless] needs 0 < prepare <= high <= hard <= 1; "
            f"they are {found.prepare}, {found.high} and {found.hard}"
        )
    if not 0 < found.low < found.high:
        raise ConfigError(
            f"[engines.lossless] needs low below high; they are {found.low} and {found.high}"
        )
    return found


class LosslessEngine:
    """Keeps the view small with summaries that can be opened again."""

    def __init__(
        self,
        library: Library,
        thresholds: Thresholds | None = None,
        limiter: CallLimiter | None = None,
        info: EngineInfo = INFO,
    ) -> None:
        self.library = library
        self.thresholds = thresholds or Thresholds()
        self.limiter = limiter or CallLimiter()
        self.info = info
        self.memory = ThreadMemory(library)
        self._reducer = Reducer(library, self.limiter)
        self._stats: dict[str, ConversationStats] = RecentThreads()
        """The conversations of threads, as far as they were counted."""
        self._known: dict[str, KnownSummaries] = RecentThreads()

    async def bootstrap(self, given: BootstrapParams, /) -> BootstrapResult:
        """Forget what was cached of the thread; its log needs no import."""
        self.library.open_in_background()
        self.memory.forget(given.thread.id)
        self._known.pop(given.thread.id, None)
        return BootstrapResult(bootstrapped=True, reason="the log has it all")

    async def ingest(self, given: IngestParams, /) -> IngestResult:
        """Do nothing: the log has the items."""
        del given
        return IngestResult(ingested=False)

    async def commit_turn(self, given: CommitParams, /) -> CommitResult:
        """Record how far the thread has come."""
        new = await self.library.commit_turn(
            given.key, given.thread.id, given.number, given.first, given.last
        )
        await self.memory.commit_recall(given.thread.id)
        return CommitResult("committed" if new else "duplicate")

    async def assemble(self, given: AssembleParams, /) -> AssembleResult:
        """Return the view, reduced in one step where it is too large, and what is recalled."""
        live = len(given.items) if given.pre_prompt_count is None else given.pre_prompt_count
        state = self._view_state(given, live, given.token_budget, has_input=bool(given.prompt))
        await self._restore_nodes(state)
        items = await self._reduced_items(state)
        stats = state.stats if items is given.items else conversation_stats(items)
        self.memory.remember_view(given.thread.id, given.log, stats)
        recalled = await self.memory.recall(given, stats, state.budget - stats.tokens)
        if recalled:
            at = len(items) - (len(given.items) - live)
            items = (*items[:at], *recalled, *items[at:])
        return AssembleResult(
            items=items,
            estimated_tokens=stats.tokens + token_count(recalled),
            system_prompt_addition=await self.memory.guidance(given.thread.id, stats, given.log),
            projection=_projection(stats.summaries),
        )

    async def maintain(self, given: MaintainParams, /) -> MaintainResult:
        """Write what will be needed; ask for a smaller view when all of it is ready."""
        if given.reason == "bootstrap":
            # No model can be asked before a turn; what needs none, `assemble` does.
            return MaintainResult(reason="the turn that begins does it")
        budget = given.context.token_budget if given.context else None
        complete = given.context.complete if given.context else None
        state = self._view_state(given, len(given.items), budget)
        self.memory.remember_view(given.thread.id, given.log, state.stats)
        await self._restore_nodes(state)
        has_extracts = self._known[state.thread].has_extracts
        if not (state.should_prepare or has_extracts or not self.library.is_idle(state.thread)):
            await index_project(given.log)
            return MaintainResult(changed=False, reason="0 summaries made")
        state = state.with_live(await self._parallel_turn_start(given))
        made, reducer = 0, self._reducer
        if state.should_prepare:
            made += await reducer.prepare(state, complete, given.cancelled)
        if complete is not None and has_extracts:
            made += await reducer.rewrite_extracts(state, given.log, complete, given.cancelled)
        await reducer.drop_needless_jobs(state)
        reduced = await reducer.reduce(state, force=False)
        rebase = None
        if reduced is not None:
            rebase = Rebase(items=await reducer.with_best_nodes(reduced.items))
        await index_project(given.log)
        return MaintainResult(changed=made > 0, reason=f"{made} summaries made", rebase=rebase)

    async def compact(self, given: CompactParams, /) -> CompactResult:
        """Compact what is not fresh, now; the model is asked as long as somebody waits."""
        live = newest_turn(given.items) if given.live and given.items else len(given.items)
        state = self._view_state(given, live, given.token_budget)
        await self._restore_nodes(state)
        manual = given.trigger == "manual"
        reduced = await self._reducer.compact(
            state,
            target=0 if manual else int(state.thresholds.low * state.budget),
            complete=given.context.complete if given.context else None,
            cancelled=given.cancelled,
            manual=manual,
        )
        if not reduced.replaced:
            return CompactResult(ok=False, reason="everything that is left is fresh")
        items = await self._reducer.with_best_nodes(reduced.items)
        if token_count(items) >= state.size:
            items = reduced.items  # better summaries would take all the room that was won
        return CompactResult(
            compacted=True,
            rebase=Rebase(items=items),
            tokens_before=state.size,
            tokens_after=token_count(items),
        )

    async def thread_reset(self, given: ResetParams, /) -> None:
        """Drop jobs about what was hidden; nodes stay for views that still show it.

        Of a deleted thread nothing stays but nodes that a fork shares; its turns write
        extracts among them anew.
        """
        if given.reason == "delete" and given.first <= given.thread.cut + 1:
            await self.library.forget_thread(given.thread.id)
        else:
            kept = 0 if given.reason == "delete" else given.first
            await self.library.drop_jobs(given.thread.id, kept)
            await self.library.forget_recalled(given.thread.id)

    def tools(self) -> Sequence[Tool]:
        """Return the tools with which the past is opened again."""
        return self.memory.tools

    async def dispose(self) -> None:
        """Close the library."""
        await self.library.close()

    def _view_state(
        self,
        given: ConversationParams,
        live: int,
        budget: int | None,
        *,
        has_input: bool = False,
    ) -> ViewState:
        """Return the state of a view; with `has_input` it ends with input without an entry."""
        tokens = budget or _DEFAULT_BUDGET
        thread, items = given.thread.id, given.items
        stats = conversation_stats(items[:live] if has_input else items, self._stats.get(thread))
        self._stats[thread] = stats
        return ViewState(
            thread=thread,
            conversation=given,
            stats=conversation_stats(items, stats) if has_input else stats,
            live=live,
            budget=tokens,
            thresholds=self.thresholds.for_budget(tokens),
            model=(given.settings.model.resolved or "") if given.settings else "",
            log=given.log,
        )

    async def _restore_nodes(self, state: ViewState) -> None:
        """Check, once for each set of summaries in view, that the library has them."""
        known = self._known.get(state.thread)
        if known is None or known.names != state.stats.summaries:
            self._known[state.thread] = await self._reducer.restore_nodes(state)

    async def _reduced_items(self, state: ViewState) -> Sequence[ContextItem]:
        """Return the conversation, smaller if it must be and can be."""
        if self.memory.take_fresh_start(state.thread, state.stats):
            return await self._reducer.compact_earlier_turns(state)
        force = state.size > state.thresholds.hard * state.budget
        reduced = await self._reducer.reduce(state, force=force)
        if reduced is None:
            return state.conversation.items
        return await self._reducer.with_best_nodes(reduced.items)

    async def _parallel_turn_start(self, given: MaintainParams) -> int:
        """Return where a turn begins that may run during maintenance; the end if there is none."""
        committed = await self.library.last_committed_entry(given.thread.id)
        items = given.items
        if not items or items[-1].seq is None or items[-1].seq <= committed:
            return len(items)
        return newest_turn(items)


def _projection(summaries: Sequence[str]) -> Projection:
    """Return the projection: as long as its summaries are the same, a view only grows."""
    epoch = hashlib.sha256("\n".join(summaries).encode()).hexdigest()[:32]
    return Projection(mode="per_epoch", epoch=epoch)
