"""A step: one request, what it brings back, and the calls it causes.

Owns the order of things inside a step: the request is noted while it goes out, and before
anything of its answer counts; a call is logged before it runs, results are durable when
their tools end, and whatever breaks off leaves a legal log behind.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import aclosing

from msgspec import Raw, field

from ..context.request import Request
from ..core.aio import finish_uncancelled, start_uncancelled, wait_uncancelled
from ..core.entries import Entry
from ..core.items import CustomToolCall, FunctionCall, Item, LocalShellCall
from ..core.service import Service, later
from ..core.stream import (
    Completed,
    OutputItemDone,
    OutputTextDelta,
    RateLimits,
    ReasoningSummaryDelta,
    ReasoningTextDelta,
)
from ..core.usage import TokenUsage
from ..log.requests import ResponseStatus
from ..models.contract import ModelError, ModelEvent
from ..store.contract import TurnEnd
from ..tools.contract import CallItem
from ..tools.dispatch import Dispatch, Finished, call_of
from .asking import addressed
from .contract import CALL, TurnRun
from .events import (
    ItemCompleted,
    RateLimitsReported,
    ReasoningDelta,
    TextDelta,
    ToolStarted,
    UsageReported,
)
from .sequence import Sequencer
from .telling import call_finished, step_started
from .witness import Witness

__all__ = ["Step"]


class Step(Service):
    """One request of a turn. Run it once, then look at how it went."""

    run: TurnRun
    witness: Witness
    calls: int = 0
    usage: TokenUsage = field(default_factory=TokenUsage)
    error: ModelError | None = None
    stop: bool = False
    """The user wants the turn to end here."""
    ended: bool = False
    """The turn's end is in the log."""
    refused: bool = False
    """The turn could end here, but not with this answer."""
    _items: list[Item] = field(default_factory=list)
    """What was heard and is not in the log yet."""
    _calls: list[CallItem] = field(default_factory=list)
    """The calls among it. One that comes with the end of the answer is logged with it."""
    _told: dict[str, Item] = field(default_factory=dict)
    """The items of the answer that have names."""
    _completed: Completed | None = None
    _counted: TokenUsage | None = None
    """What the provider says that the answer cost."""
    _asked: bool = False
    """The log says that the request went out, and not yet what came of it."""
    _noting: asyncio.Future[None] | None = None
    """The note that the request went out, while it is written and after."""
    _collecting: asyncio.Task[None] | None = None
    """Takes results while the answer still streams."""
    _sequencer: Sequencer = later()
    _dispatch: Dispatch = later()

    def __post_init__(self) -> None:
        log = self.run.log
        self._sequencer = Sequencer(log)
        self._dispatch = Dispatch(
            self.witness.tools, self.run.context(log.step + 1), self.run.hooks
        )

    async def execute(self, usage_before: TokenUsage) -> None:
        """Send the request and see it through; a failure of the model is left in `error`."""
        try:
            await self._ask()
            await finish_uncancelled(self._end(usage_before))
            if self._collecting is None:
                await self._collect()
            else:
                await asyncio.shield(self._collecting)
        except BaseException:
            await finish_uncancelled(self._break_off())
            raise

    async def _ask(self) -> None:
        request = self.run.log.requests.render()
        self._noting = start_uncancelled(self._sent(request))
        if self._noting.done():
            self._noting.result()
        try:
            async with aclosing(self.run.model.stream(addressed(self.run, request))) as answer:
                async for batch in answer:
                    await wait_uncancelled(self._noting)
                    await self._take(batch)
        except ModelError as error:
            self.error = error
        await wait_uncancelled(self._noting)

    async def _sent(self, request: Request) -> None:
        log = self.run.log
        row = await log.requests.record(request)
        self._asked = True
        self.run.emit(step_started(log.step, row))

    async def _take(self, batch: Iterable[ModelEvent]) -> None:
        for event in batch:
            match event:
                case OutputTextDelta(delta=delta):
                    self.run.emit(TextDelta(delta))
                case ReasoningSummaryDelta(delta=delta) | ReasoningTextDelta(delta=delta):
                    self.run.emit(ReasoningDelta(delta))
                case OutputItemDone(item=item):
                    self._hear(item)
                case RateLimits(snapshot=snapshot):
                    self.run.emit(RateLimitsReported(snapshot))
                case Completed():
                    self._completed, self._counted = event, event.usage
        if self._calls and self._completed is None:
            await finish_uncancelled(self._act())

    def _hear(self, item: Item) -> None:
        if self._told_before(item):
            return
        self._items.append(item)
        self.witness.item(item)
        if isinstance(item, FunctionCall | CustomToolCall | LocalShellCall):
            self._calls.append(item)
            self.calls += 1

    def _told_before(self, item: Item) -> bool:
        """Whether the answer held this very item already: a provider that repeats itself."""
        name = getattr(item, "id", None)
        first = item if name is None else self._told.setdefault(name, item)
        return first is not item and first == item

    async def _act(self) -> None:
        """Log the calls that were heard, then start them while the answer still streams."""
        log = self.run.log
        self._show(await log.append(*self._items, origin=log.origin))
        self._items.clear()
        self._start()
        self._collect_beside()

    def _start(self) -> None:
        for item in self._calls:
            call = call_of(item)
            self.run.emit(
                ToolStarted(call_id=call.call_id, name=call.name, arguments=call.arguments)
            )
            self.witness.called(call.name, call.namespace)
            CALL.set(call)
            self._dispatch.submit(item)
        self._calls.clear()

    async def _end(self, usage_before: TokenUsage) -> None:
        """Log the rest of the answer; with nothing left to do, the turn ends in the same breath."""
        completed, log = self._completed, self.run.log
        self.usage = self._counted or TokenUsage()
        wants_more = completed is not None and completed.response.end_turn is False
        end = None
        if not (self.error or self.calls or wants_more or await log.inbox()):
            usage = usage_before + self.usage
            self.refused = not self.run.accepts(self.witness.facts())
            if not self.refused:
                end = TurnEnd(number=log.turn, state="completed", usage=usage)
        await self._receive("failed" if self.error else "completed", end)
        self._show(await self._sequencer.response_ended())
        self._start()
        self._dispatch.finish()

    async def _receive(self, status: ResponseStatus, end: TurnEnd | None = None) -> None:
        log, completed = self.run.log, self._completed
        entries = await log.requests.record_answer(
            self._items,
            status=status,
            usage=self._counted,
            response_id=completed.response.id if completed else None,
            error=str(self.error) if self.error else None,
            end=end,
        )
        self._items.clear()
        self._asked, self.ended = False, end is not None
        self._show(entries)
        if self._counted is not None:
            self.run.emit(
                UsageReported(
                    usage=self._counted,
                    occupied=log.requests.occupied,
                    window=log.setup.profile.effective_window,
                )
            )

    def _collect_beside(self) -> asyncio.Task[None]:
        self._collecting = self._collecting or asyncio.create_task(self._collect())
        return self._collecting

    async def _collect(self) -> None:
        async for finished in self._dispatch.results():
            await finish_uncancelled(self._returned(finished))

    async def _returned(self, finished: Finished) -> None:
        self.witness.returned(finished.result)
        entries = await self._sequencer.add(finished)
        self.stop |= finished.result.stop
        self.run.emit(call_finished(finished))
        self._show(entries)

    async def _break_off(self) -> None:
        """Give every open call its result and leave a legal log."""
        results = self._collect_beside()
        try:
            await self._give_up()
            self._show(await self._sequencer.response_ended())
        finally:
            # Where the log cannot be written, that is the error; results only repeat it.
            self._dispatch.finish()
            await asyncio.wait([results])
            if not results.cancelled():
                results.exception()

    async def _give_up(self) -> None:
        """Log what was heard, and answer its calls; none that the log does not have."""
        try:
            if self._noting is not None:
                await asyncio.wait([self._noting])
                self._noting.exception()  # whoever broke off has heard of it, or of worse
            if self._asked:
                await self._receive("interrupted")
            self._start()
        finally:
            await self._dispatch.abort()

    def _show(self, entries: Iterable[Entry]) -> None:
        for entry in entries:
            if entry.kind == "item":
                self.run.emit(ItemCompleted(seq=entry.seq, item=Raw(entry.body)))
