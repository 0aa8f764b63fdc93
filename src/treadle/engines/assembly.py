"""Assembly: asking an engine what the model should see, and seeing what that means.

Owns the parameters of `assemble` and the judgement of its answer. Invariant: an answer
that has no shape, breaks pairs, names what is not there or outgrows the budget changes
nothing; one that hands on what it was given needs no judging.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from ..context.compose import input_draft
from ..context.row import Row
from ..core.entries import ProjectionMark
from ..core.items import text_of
from ..core.specs import spec_name
from ..log.thread_log import ThreadLog
from ..log.turn_input import TurnInput
from ..store.contract import THIS_TURN
from .contract import ContextEngine
from .frame import CallContext
from .guard import EngineGuard
from .values import AssembleParams, AssembleResult, ContextItem
from .view_change import (
    InvalidEngineOutput,
    ViewChange,
    check_live,
    prompt_name,
    tokens_of,
    view_change,
)

__all__ = ["Assembler"]


class Assembler(Struct):
    """The assembling of one thread's view."""

    engine: ContextEngine
    guard: EngineGuard
    frame: CallContext
    seconds: float
    _prompt: Row | None = None
    """The input that the engine was shown last."""
    _given: Sequence[ContextItem] | None = None
    """What it was shown last."""
    _tools: tuple[object, frozenset[str]] = ((), frozenset())
    """The thread's tools when last looked at, and their names."""

    @property
    def _log(self) -> ThreadLog:
        return self.frame.log

    async def ask(self, given: TurnInput | None) -> AssembleResult:
        """What the engine wants shown, with the input that is about to be opened if any."""
        log = self._log
        spoken = self.frame.conversation
        self._prompt = prompt = None if given is None else self._said(given)
        shown = spoken.fields(None if prompt is None else (prompt_name(log.id), prompt))
        self._given = shown["items"]
        params = AssembleParams(
            token_budget=self.frame.budget(prompt.tokens if prompt else 0),
            available_tools=self._available(),
            citations=self.frame.citations,
            model=log.setup.model,
            prompt=None if given is None else text_of(given.message.content),
            pre_prompt_count=spoken.count_before(THIS_TURN if prompt else log.turn),
            current_tokens=log.requests.occupied or None,
            **shown,
            **self.frame.fields(fence=log.view.upto),
        )
        method = self.engine.assemble
        return await self.guard.call("assemble", method, params, AssembleResult, self.seconds)

    def change_for(self, result: AssembleResult, *, opening: bool) -> ViewChange:
        """What the answer means for the view. Raises `InvalidEngineOutput`."""
        if result.items is self._given and result.items:
            return ViewChange()
        log = self._log
        view, prompt = log.view, prompt_name(log.id) if opening else None
        said = self._prompt if opening else None
        if said and any(item.id == prompt and item.body != said.body for item in result.items):
            raise InvalidEngineOutput("it changed the present input")
        change = view_change(view, result.items, prompt=prompt)
        if not opening and not result.covers_current_turn:
            check_live(view, log.turn, result.items)
        items = [item for item in result.items if item.id != prompt or prompt is None]
        size, budget = tokens_of(items, view), self.frame.budget(said.tokens if said else 0)
        if budget is not None and size > max(budget, self.frame.conversation.tokens):
            raise InvalidEngineOutput(f"it asked for {size} tokens where {budget} fit")
        return change

    async def rebase(self, change: ViewChange, result: AssembleResult) -> None:
        """Show a change as a new epoch, unless the view shows that plan already."""
        log, projection = self._log, self._projected(result)
        view = log.view
        if change.head is None or (projection is not None and view.projection == projection):
            return
        from .publish import recipe_for

        recipe = await recipe_for(log, change)
        await log.epochs.publish(
            recipe, epoch=view.epoch, upto=view.upto, by=self.guard.info.id, projection=projection
        )

    def _projected(self, result: AssembleResult) -> ProjectionMark | None:
        projection = result.projection
        if projection.mode != "per_epoch":
            return None
        if not projection.epoch.strip():
            raise InvalidEngineOutput("it projects by epoch and does not name the epoch")
        return ProjectionMark(self.guard.info.id, projection.epoch, projection.fingerprint)

    def _available(self) -> frozenset[str]:
        tools, names = self._tools
        if tools is not self._log.setup.tools:
            tools, names = self._log.setup.tools, frozenset(map(spec_name, self._log.setup.tools))
            self._tools = tools, names
        return names

    def _said(self, given: TurnInput) -> Row:
        """The input as it will stand in the log."""
        draft = input_draft(
            given.message,
            self._log.registry,
            turn=THIS_TURN,
            provenance=given.provenance,
            events=given.events,
        )
        return Row.of_draft(draft)
