"""Assembling: asks an engine what the model should see, checks the answer and shows it.

Owns the parameters of `assemble`, the checks of its answer, and what the engine adds to the
prompt. Invariant: an answer that cannot be read, breaks pairs, names what is not there or
outgrows the budget changes nothing; one that hands on the items it was given needs no check.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ..context.compose import inbox_draft, input_draft
from ..context.row import Row
from ..core.entries import ProjectionMark
from ..core.errors import EngineFailed, StaleEpoch
from ..core.items import text_of
from ..core.redact import one_line
from ..core.specs import spec_name
from ..log.thread_log import ThreadLog
from ..log.turn_input import TurnInput
from ..prompt.engine_fragments import Guidance
from ..prompt.prompt_context import PromptContext
from ..store.contract import THIS_TURN
from .call_context import CallContext
from .contract import ContextEngine
from .guard import EngineGuard
from .reports import EngineReporter
from .values import AssembleParams, AssembleResult, ContextItem
from .view_change import (
    InvalidEngineOutput,
    ViewChange,
    added_drafts,
    check_live,
    prompt_name,
    publish,
    recipe_for,
    tokens_of,
    view_change,
)

__all__ = ["Assembler", "with_guidance"]


class Assembler:
    """Assembles the view of one thread."""

    def __init__(
        self,
        engine: ContextEngine,
        guard: EngineGuard,
        context: CallContext,
        reporter: EngineReporter,
        seconds: float,
    ) -> None:
        self.engine = engine
        self.guard = guard
        self.context = context
        self.reporter = reporter
        self.seconds = seconds
        self.guidance: str | None = None
        """What the engine adds to the prompt."""
        self._prompts: dict[str, Row] = {}
        """The inputs that the engine was shown last and that are not in the log, by name."""
        self._given: Sequence[ContextItem] | None = None
        """The items that it was shown last."""
        self._replacement: tuple[ContextItem, ...] | None = None
        """What the engine shows instead of the present input."""
        self._must_precheck = False
        """Whether the size before assembling counts against the window."""
        self._tokens_before = 0
        """The size of the view before it was assembled."""
        self._base = 0
        """The base that assembling led to; once it is replaced, the size before says nothing."""
        self._tools: tuple[object, frozenset[str]] = ((), frozenset())
        """The thread's tools when last seen, and their names."""

    @property
    def _log(self) -> ThreadLog:
        return self.context.log

    def begin_turn(self) -> None:
        """Forget what a turn that was not opened would have shown."""
        self._replacement = None

    def occupied_tokens(self, *, checks_itself: bool) -> int | None:
        """Return the tokens to compare with the window; None: the engine checks itself."""
        if checks_itself and not self._must_precheck:
            return None
        counts = self._must_precheck and self._log.view.base == self._base
        return max(self._log.requests.occupied, self._tokens_before if counts else 0)

    async def assemble(self, given: TurnInput) -> TurnInput | None:
        """Return an input with what goes around it; None where the engine failed."""
        assembled = await self._ask_and_rebase(given)
        if assembled is None:
            return None
        result, change = assembled
        if result.covers_current_turn and not change.shows_prompt:
            self._replacement = tuple(result.items)
        return msgspec.structs.replace(
            given,
            before=(*given.before, *added_drafts(change.before)),
            after=(*given.after, *added_drafts(change.after)),
        )

    async def publish_replacement(self) -> None:
        """Show the items that the engine has instead of the input that is now in the log."""
        items, self._replacement = self._replacement, None
        if items is None:
            return
        log, name = self._log, self.guard.info.id
        try:
            await publish(log, items, by=name, epoch=log.view.epoch, upto=log.view.upto)
        except (InvalidEngineOutput, StaleEpoch) as error:
            await self._report(error)
        self._base = log.view.base

    async def assemble_again(self) -> None:
        """Ask the engine in the middle of a turn, and append what it adds."""
        log, before = self._log, self.guidance
        if (assembled := await self._ask_and_rebase(None)) is None:
            return
        _, change = assembled
        await log.add(*added_drafts(change.after, log.turn, log.step))
        if self.guidance != before:
            context = log.setup.settings or PromptContext(cwd="")
            await log.retell(with_guidance(context, self.guidance), Guidance.id)

    async def _ask_and_rebase(
        self, given: TurnInput | None
    ) -> tuple[AssembleResult, ViewChange] | None:
        """Ask what to show, and re-base the view where needed; None where that failed."""
        self._tokens_before = self._log.requests.occupied
        try:
            result = await self._ask(given)
            change = self._change(result, opening=given is not None)
            await self._rebase(change, result)
        except (EngineFailed, InvalidEngineOutput, StaleEpoch) as error:
            await self._report(error)
            return None
        self._must_precheck = result.prompt_authority == "preassembly_may_overflow"
        self._base = self._log.view.base
        self.guidance = (result.system_prompt_addition or "").strip() or None
        self.reporter.report(
            "assemble.applied",
            items=len(result.items),
            tokens=result.estimated_tokens,
            has_addition=self.guidance is not None,
        )
        await self.reporter.clear_failures("assemble")
        return result, change

    async def _report(self, error: Exception) -> None:
        failure = error
        if not isinstance(failure, EngineFailed):
            failure = EngineFailed(self.guard.info.id, "assemble", one_line(str(error)))
            failure.__cause__ = error
        await self.reporter.report_failure(failure, "assemble.failed")

    async def _ask(self, given: TurnInput | None) -> AssembleResult:
        """Ask the engine what to show, with the input that is about to be opened if any."""
        log = self._log
        conversation = self.context.conversation
        self._prompts = {} if given is None else self._prompt_rows(given)
        shown = conversation.fields(self._prompts)
        self._given = shown["items"]
        params = AssembleParams(
            token_budget=self._budget(),
            available_tools=self._tool_names(),
            citations=self.context.citations,
            model=log.setup.model,
            prompt=None if given is None else text_of(given.message.content),
            pre_prompt_count=conversation.count_before(THIS_TURN if self._prompts else log.turn),
            current_tokens=log.requests.occupied or None,
            **shown,
            **self.context.fields(fence=log.view.upto),
        )
        method = self.engine.assemble
        return await self.guard.call("assemble", method, params, AssembleResult, self.seconds)

    def _change(self, result: AssembleResult, *, opening: bool) -> ViewChange:
        """Return what the answer means for the view. Raises `InvalidEngineOutput`."""
        if result.items is self._given and result.items:
            return ViewChange()
        log = self._log
        view, prompts = log.view, self._prompts
        for item in result.items:
            if (prompt := prompts.get(item.id or "")) is not None and item.body != prompt.body:
                raise InvalidEngineOutput("it changed the present input")
        change = view_change(view, result.items, log.registry, prompts=tuple(prompts))
        if not opening and not result.covers_current_turn:
            check_live(view, log.turn, result.items)
        items = [item for item in result.items if item.id not in prompts]
        size, budget = tokens_of(items, view), self._budget()
        if budget is not None and size > max(budget, self.context.conversation.tokens):
            raise InvalidEngineOutput(f"it asked for {size} tokens where {budget} fit")
        return change

    async def _rebase(self, change: ViewChange, result: AssembleResult) -> None:
        """Publish a change as a new epoch, unless the view shows that plan already."""
        log, projection = self._log, self._projection_mark(result)
        view = log.view
        if change.head is None or (projection is not None and view.projection == projection):
            return
        recipe = await recipe_for(log, change)
        await log.epochs.publish(
            recipe, epoch=view.epoch, upto=view.upto, by=self.guard.info.id, projection=projection
        )

    def _projection_mark(self, result: AssembleResult) -> ProjectionMark | None:
        projection = result.projection
        if projection.mode != "per_epoch":
            return None
        if not projection.epoch.strip():
            raise InvalidEngineOutput("it projects by epoch and does not name the epoch")
        return ProjectionMark(self.guard.info.id, projection.epoch, projection.fingerprint)

    def _tool_names(self) -> frozenset[str]:
        tools, names = self._tools
        if tools is not self._log.setup.tools:
            tools = self._log.setup.tools
            names = frozenset(map(spec_name, tools))
            self._tools = tools, names
        return names

    def _budget(self) -> int | None:
        return self.context.budget(sum(row.tokens for row in self._prompts.values()))

    def _prompt_rows(self, given: TurnInput) -> dict[str, Row]:
        """Return the inputs as they will stand in the log, by name."""
        log = self._log
        first = input_draft(
            given.message,
            log.registry,
            turn=THIS_TURN,
            provenance=given.provenance,
            events=given.events,
        )
        rest = (inbox_draft(message, log.registry, THIS_TURN, 0) for message in given.mail[1:])
        drafts = enumerate((first, *rest))
        return {prompt_name(log.id, number): Row.of_draft(draft) for number, draft in drafts}


def with_guidance(context: PromptContext, guidance: str | None) -> PromptContext:
    """Return what fragments see, with what an engine adds."""
    texts = [text for text in (context.guidance, guidance) if text]
    return msgspec.structs.replace(context, guidance="\n\n".join(texts) or None)
