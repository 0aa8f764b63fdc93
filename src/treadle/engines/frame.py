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
from .log import ReadGrants, StoredConversationLog
from .values import (
    BootstrapParams,
    CitationsMode,
    Complete,
    Diagnostics,
    EngineSelection,
    EntryRange,
    ModelFacts,
    PromptCacheFacts,
    RuntimeContext,
    RuntimeSettings,
    ThreadRef,
    TokenLimits,
)

__all__ = ["CallContext", "CallFields", "CompleteFactory", "answer_reserve"]

CompleteFactory = Callable[[str], Complete]
"""Makes model access for a purpose."""

_RESERVE = 20_000
_RESERVE_SHARE = 4


def answer_reserve(window: int) -> int:
    """Tokens of a window that are kept free for the answer."""
    return min(_RESERVE, window // _RESERVE_SHARE)


class CallFields(TypedDict):
    """The fields that every call's parameters begin with."""

    thread: ThreadRef
    log: StoredConversationLog
    settings: RuntimeSettings
    context: RuntimeContext


class CallContext(Struct):
    """The surroundings of one thread's engine."""

    log: ThreadLog
    engine: str
    harness: str = "treadle"
    citations: CitationsMode = "auto"
    completes: CompleteFactory | None = None
    grants: ReadGrants | None = None
    thread: ThreadRef | None = None
    settings: RuntimeSettings | None = None
    _spoken: ViewConversation | None = None

    @property
    def conversation(self) -> ViewConversation:
        """The conversation in the present view. Costs what is new in it."""
        view = self.log.view
        if self._spoken is None or self._spoken.view is not view:
            self._spoken = ViewConversation(view)
        return self._spoken.catch_up()

    async def renew(self, degraded: str | None = None) -> None:
        """Look at the thread again; a new turn begins."""
        log = self.log
        # Who a thread descends from never changes while somebody writes it.
        self.thread = self.thread or await self.thread_ref(log.id)
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
            engine=EngineSelection(id=self.engine, source="configured"),
            limits=TokenLimits(prompt_token_budget=self.budget()),
            diagnostics=Diagnostics(degraded_reason=degraded),
        )

    async def thread_ref(self, thread: str) -> ThreadRef:
        """A thread of the same store."""
        info = await self.log.store.info(thread)
        return ThreadRef(id=info.id, root=info.root, parent=info.parent, cut=info.cut, cwd=info.cwd)

    def fields(
        self, purpose: str | None = None, *, fence: int | None = None, deferred: bool = False
    ) -> CallFields:
        """What a call is told; with a `purpose` it may ask the model."""
        log = self.log
        assert self.thread is not None, "a turn renews its frame"
        assert self.settings is not None, "a turn renews its frame"
        complete = self.completes(purpose) if purpose and self.completes else None
        return CallFields(
            thread=self.thread,
            log=StoredConversationLog(log.id, log.store, log.index, fence, self.grants),
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

    async def bootstrap_params(self) -> BootstrapParams:
        """What catching up with the thread is told: its log, and what of it counts no more."""
        log = self.log
        hidden = await hidden_stretches(log.store, log.id)
        return BootstrapParams(
            hidden=tuple(EntryRange(first, last) for first, last in hidden),
            **self.fields(fence=log.view.upto),
        )

    def budget(self, prompt: int = 0) -> int | None:
        """Tokens for a conversation, beside head, fragments, reserve and `prompt`."""
        window = self.log.setup.profile.effective_window
        if window is None:
            return None
        beside = self.log.view.tokens - self.conversation.tokens
        taken = beside + self.log.requests.head_tokens + prompt
        return max(1, window - answer_reserve(window) - taken)

    def _prompt_cache(self) -> PromptCacheFacts | None:
        row, usage = self.log.requests.newest, self.log.requests.usage
        if row is None and usage is None:
            return None
        return PromptCacheFacts(
            last_usage=usage,
            broke=None if row is None else row.reason is not None,
            reason=None if row is None else row.reason,
        )
