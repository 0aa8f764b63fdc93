"""The call context: what every call of an engine is told besides the conversation.

Owns thread reference, settings, runtime context and token budget. Invariant: within one turn
every call gets the same settings object, another one once another candidate answers, and no
call before the turn's end gets `complete`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypedDict

import msgspec

from ..context.visible import hidden_stretches
from ..log.thread_log import ThreadLog
from .conversation import ReadGrants, StoredLogReader, ViewConversation
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
    """Return how many tokens of a window are kept free for the answer."""
    return min(_RESERVE, window // _RESERVE_SHARE)


class CallFields(TypedDict):
    """The fields that every call's parameters have."""

    thread: ThreadRef
    log: StoredLogReader
    settings: RuntimeSettings
    context: RuntimeContext


class CallContext:
    """What the engine of one thread is told in every call."""

    def __init__(
        self,
        log: ThreadLog,
        engine: str,
        *,
        harness: str = "treadle",
        citations: CitationsMode = "auto",
        completes: CompleteFactory | None = None,
        grants: ReadGrants | None = None,
    ) -> None:
        self.log = log
        self.engine = engine
        self.harness = harness
        self.citations: CitationsMode = citations
        self.completes = completes
        self.grants = grants
        self._thread: ThreadRef | None = None
        self._settings: RuntimeSettings | None = None
        self._conversation: ViewConversation | None = None

    @property
    def thread(self) -> ThreadRef:
        """The thread, as `begin_turn` found it."""
        assert self._thread is not None, "a turn begins before an engine is called"
        return self._thread

    @property
    def conversation(self) -> ViewConversation:
        """The conversation in the present view. Costs what is new in it."""
        view = self.log.view
        if self._conversation is None or self._conversation.view is not view:
            self._conversation = ViewConversation(view)
        return self._conversation.catch_up()

    async def begin_turn(self, degraded: str | None = None) -> None:
        """Make the settings of a new turn."""
        setup = self.log.setup
        # Who a thread descends from never changes while somebody writes it.
        self._thread = self._thread or await self.thread_ref(self.log.id)
        self._settings = RuntimeSettings(
            mode="normal" if degraded is None else "degraded",
            harness=self.harness,
            model=self._model_facts(setup.model),
            engine=EngineSelection(id=self.engine, source="configured"),
            limits=self._limits(),
            diagnostics=Diagnostics(degraded_reason=degraded),
        )

    def fall_back(self, reason: str) -> None:
        """Tell from now on who answers instead of the model that was asked for, and why."""
        settings = self._settings
        if settings is None:
            return
        self._settings = msgspec.structs.replace(
            settings,
            mode="fallback" if settings.mode == "normal" else settings.mode,
            harness=self.harness,
            model=self._model_facts(settings.model.requested),
            limits=self._limits(),
            diagnostics=msgspec.structs.replace(settings.diagnostics, fallback_reason=reason),
        )

    def _model_facts(self, requested: str | None) -> ModelFacts:
        setup = self.log.setup
        return ModelFacts(
            requested=requested,
            resolved=setup.model,
            provider=setup.profile.provider,
            family=setup.family or setup.profile.family,
        )

    def _limits(self) -> TokenLimits:
        head, window = self.log.view.head, self.log.setup.profile.effective_window
        reserve = None if window is None else answer_reserve(window)
        most = head.max_output_tokens if head is not None else None
        return TokenLimits(prompt_token_budget=self.budget(), max_output_tokens=most or reserve)

    async def thread_ref(self, thread: str) -> ThreadRef:
        """Return the reference of a thread in the same store."""
        info = await self.log.store.info(thread)
        return ThreadRef(id=info.id, root=info.root, parent=info.parent, cut=info.cut, cwd=info.cwd)

    def fields(
        self, purpose: str | None = None, *, fence: int | None = None, deferred: bool = False
    ) -> CallFields:
        """Return what a call is told; with a `purpose` it may ask the model."""
        log = self.log
        assert self._settings is not None, "a turn begins before an engine is called"
        complete = self.completes(purpose) if purpose and self.completes else None
        return CallFields(
            thread=self.thread,
            log=StoredLogReader(log.id, log.store, log.index, fence, self.grants),
            settings=self._settings,
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
        """Return what `bootstrap` is told: the log, and which of it is hidden."""
        log = self.log
        hidden = await hidden_stretches(log.store, log.id)
        return BootstrapParams(
            hidden=tuple(EntryRange(first, last) for first, last in hidden),
            **self.fields(fence=log.view.upto),
        )

    def budget(self, prompt: int = 0) -> int | None:
        """Return the tokens for a conversation, beside head, fragments, reserve and `prompt`."""
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
