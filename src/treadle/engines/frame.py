"""The frame: what every call of an engine is told about its surroundings.

Owns thread reference, settings, context and budget. Invariant: within one turn every
call gets the same settings object, and no call before the turn's end gets `complete`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypedDict

from msgspec import Struct

from ..context.visible import hidden_stretches
from ..log.thread_log import ThreadLog
from .conversation import ViewConversation
from .log import Grants, StoredLog
from .values import (
    BootstrapParams,
    CitationsMode,
    Complete,
    Covered,
    Diagnostics,
    Limits,
    ModelFacts,
    PromptCache,
    RuntimeContext,
    RuntimeSettings,
    Selection,
    ThreadRef,
)

__all__ = ["Completes", "Frame", "Surroundings", "reserve_for"]

Completes = Callable[[str], Complete]
"""Makes model access for a purpose."""

_RESERVE = 20_000
_RESERVE_SHARE = 4


def reserve_for(window: int) -> int:
    """Tokens of a window that are kept free for the answer."""
    return min(_RESERVE, window // _RESERVE_SHARE)


class Surroundings(TypedDict):
    """The fields that every call's parameters begin with."""

    thread: ThreadRef
    log: StoredLog
    settings: RuntimeSettings
    context: RuntimeContext


class Frame(Struct):
    """The surroundings of one thread's engine."""

    log: ThreadLog
    engine: str
    harness: str = "treadle"
    citations: CitationsMode = "auto"
    completes: Completes | None = None
    grants: Grants | None = None
    thread: ThreadRef | None = None
    settings: RuntimeSettings | None = None
    _spoken: ViewConversation | None = None

    @property
    def spoken(self) -> ViewConversation:
        """The conversation in the present view. Costs what is new in it."""
        view = self.log.view
        if self._spoken is None or self._spoken.view is not view:
            self._spoken = ViewConversation(view)
        return self._spoken.caught_up()

    async def renew(self, degraded: str | None = None) -> None:
        """Look at the thread again; a new turn begins."""
        log = self.log
        # Who a thread descends from never changes while somebody writes it.
        self.thread = self.thread or await self.of(log.id)
        profile = log.setup.profile
        self.settings = RuntimeSettings(
            mode="normal" if degraded is None else "degraded",
            harness=self.harness,
            model=ModelFacts(
                requested=log.setup.model,
                resolved=log.setup.model,
                provider=profile.provider,
                family=profile.instructions,
            ),
            engine=Selection(id=self.engine, source="configured"),
            limits=Limits(prompt_token_budget=self.budget()),
            diagnostics=Diagnostics(degraded_reason=degraded),
        )

    async def of(self, thread: str) -> ThreadRef:
        """A thread of the same store."""
        info = await self.log.store.info(thread)
        return ThreadRef(id=info.id, root=info.root, parent=info.parent, cut=info.cut, cwd=info.cwd)

    def around(
        self, purpose: str | None = None, *, fence: int | None = None, deferred: bool = False
    ) -> Surroundings:
        """What a call is told; with a `purpose` it may ask the model."""
        log = self.log
        assert self.thread is not None, "a turn renews its frame"
        assert self.settings is not None, "a turn renews its frame"
        complete = self.completes(purpose) if purpose and self.completes else None
        return Surroundings(
            thread=self.thread,
            log=StoredLog(log.id, log.store, log.index, fence, self.grants),
            settings=self.settings,
            context=RuntimeContext(
                cwd=str(log.setup.cwd),
                harness=self.harness,
                token_budget=self.budget(),
                current_tokens=log.requests.occupied or None,
                prompt_cache=self._prompt_cache(),
                complete=complete,
                deferred=deferred,
            ),
        )

    async def past(self) -> BootstrapParams:
        """What catching up with the thread is told: its log, and what of it counts no more."""
        log = self.log
        hidden = await hidden_stretches(log.store, log.id)
        return BootstrapParams(
            hidden=tuple(Covered(first, last) for first, last in hidden),
            **self.around(fence=log.view.upto),
        )

    def budget(self, prompt: int = 0) -> int | None:
        """Tokens for a conversation, beside head, fragments, reserve and `prompt`."""
        window = self.log.setup.profile.effective_window
        if window is None:
            return None
        beside = self.log.view.tokens - self.spoken.tokens
        taken = beside + self.log.requests.head_tokens + prompt
        return max(1, window - reserve_for(window) - taken)

    def _prompt_cache(self) -> PromptCache | None:
        row, usage = self.log.requests.newest, self.log.requests.usage
        if row is None and usage is None:
            return None
        return PromptCache(
            last_usage=usage,
            broke=None if row is None else row.reason is not None,
            reason=None if row is None else row.reason,
        )
