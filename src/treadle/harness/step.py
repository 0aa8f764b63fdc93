"""A step: one request, what it brings back, and the calls it causes.

Owns the order of things inside a step: a request is noted before its first byte leaves, and
compared with the one before while it is under way; a call is logged before it runs, results
are durable when their tools end, and whatever breaks off leaves a legal log behind.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import aclosing
from functools import partial

from msgspec import Raw

from ..context.request import Request
from ..core.aio import finish_uncancelled, start_uncancelled, wait_uncancelled
from ..core.entries import Entry
from ..core.items import (
    CustomToolCall,
    FunctionCall,
    Item,
    LocalShellCall,
    Message,
    OutputText,
    Refusal,
    text_of,
)
from ..core.stream import (
    OutputItemDone,
    OutputTextDelta,
    ResponseCompleted,
    ResponseIncomplete,
)
from ..core.usage import TokenUsage
from ..log.requests import ResponseStatus
from ..models.contract import ModelError, ModelEvent
from ..prompt.announcements import UnreadableCall
from ..store.contract import TurnEnd
from ..tools.contract import CallItem
from ..tools.dispatch import Dispatch, FinishedCall, call_of
from .answers import read_answer
from .attempt_facts import UPDATE_PLAN, AttemptFacts
from .contract import CALL, TurnRun
from .event_stream import call_finished, step_started
from .events import (
    ItemCompleted,
    NoticeRaised,
    TextDelta,
    ToolStarted,
    UsageReported,
)
from .hosted_calls import hosted_call_events
from .live_events import LiveEvents
from .model_request import model_request
from .sequence import Sequencer

__all__ = ["Step"]


class Step:
    """One request of a turn. Run it once, then look at how it went."""

    def __init__(self, run: TurnRun, facts: AttemptFacts) -> None:
        self.run = run
        self.facts = facts
        self.calls = 0
        self.usage = TokenUsage()
        self.error: ModelError | None = None
        self.stop = False
        """The user wants the turn to end here."""
        self.ended = False
        """The turn's end is in the log."""
        self.refused = False
        """The turn could end here, but not with this answer."""
        self.unreadable: UnreadableCall | None = None
        """What the answer would be is a call that could not be read."""
        self._items: list[Item] = []
        """What has arrived and is not in the log yet."""
        self._said: list[Message] = []
        """The messages of the answer."""
        self._calls: list[CallItem] = []
        """The calls among it. One that comes with the end of the answer is logged with it."""
        self._named: dict[str, Item] = {}
        """The items of the answer that have ids."""
        self._spoken: list[str] = []
        """The pieces of the message that is being said; joined once, when it is whole."""
        self._completed: ResponseCompleted | None = None
        self._counted: TokenUsage | None = None
        """What the provider says that the answer cost."""
        self._unanswered = False
        """The log says that the request went out, and not yet what came of it."""
        self._comparing: asyncio.Future[None] | None = None
        """The ledger's row of the request, while it is made and after."""
        self._dispatch: Dispatch | None = None
        """Runs the calls, from the first one on."""
        self._live = LiveEvents(run.emit, run.log.setup.profile.slug)
        self._sequencer = Sequencer(run.log)
        self._collecting: asyncio.Task[None] | None = None
        """Takes results while the answer still streams."""

    async def execute(self, usage_before: TokenUsage) -> None:
        """Send the request and see it through; a failure of the model is left in `error`."""
        try:
            await self._send()
            await finish_uncancelled(self._record_end(usage_before))
            if self._collecting is not None:
                await asyncio.shield(self._collecting)
            elif self._dispatch is not None:
                await self._collect(self._dispatch)
        except BaseException:
            await finish_uncancelled(self._break_off())
            raise

    async def _send(self) -> None:
        request = self.run.log.requests.render()
        noting = start_uncancelled(self._note(request))
        asked = model_request(self.run, request)  # while the note is written
        entry = await wait_uncancelled(noting)
        self._comparing = start_uncancelled(self._compare(request, entry))
        try:
            async with aclosing(read_answer(self.run.model, asked)) as answer:
                async for batch in answer:
                    await wait_uncancelled(self._comparing)
                    await self._take(batch)
        except ModelError as error:
            self.error = error
        await wait_uncancelled(self._comparing)

    async def _note(self, request: Request) -> Entry:
        entry = await self.run.log.requests.note(request)
        self._unanswered = True
        return entry

    async def _compare(self, request: Request, entry: Entry) -> None:
        await asyncio.sleep(0)  # the request goes first
        log = self.run.log
        row = await log.requests.compare(request, entry)
        self.run.emit(step_started(log.step, row))

    async def _take(self, batch: Iterable[ModelEvent]) -> None:
        for event in batch:
            match event:
                case OutputTextDelta(delta=delta):
                    self._spoken.append(delta)
                    self.run.emit(TextDelta(delta))
                case OutputItemDone(item=item):
                    self._take_item(item)
                case ResponseCompleted():
                    self._completed, self._counted = event, event.usage
                case ResponseIncomplete():
                    self._counted = event.usage
                case _:
                    self._live.take(event)
        if self._calls and self._completed is None:
            await finish_uncancelled(self._log_and_start_calls())

    def _take_item(self, item: Item) -> None:
        name = getattr(item, "id", None)
        first = item if name is None else self._named.setdefault(name, item)
        if first is not item and first == item:
            return  # a provider that repeats itself
        self._items.append(item)
        self.facts.add_item(item)
        for event in hosted_call_events(item):
            self.run.emit(event)
        if isinstance(item, Message):
            self._said.append(item)
            self._speak_rest(item)
        if isinstance(item, FunctionCall | CustomToolCall | LocalShellCall):
            self._calls.append(item)
            self.calls += 1

    def _speak_rest(self, said: Message) -> None:
        """Emit what a message says beyond its pieces: users hear what the log holds."""
        spoken = "".join(self._spoken)
        self._spoken.clear()
        text = "".join(
            part.refusal if isinstance(part, Refusal) else part.text
            for part in said.content
            if isinstance(part, OutputText | Refusal)
        )
        if not text.startswith(spoken.rstrip()):
            notice = "the provider streamed other text than its answer has; the answer follows"
            self.run.emit(NoticeRaised(level="warning", text=notice))
            self.run.emit(TextDelta(f"\n{text}"))
        elif rest := text[len(spoken) :]:
            self.run.emit(TextDelta(rest))

    async def _log_and_start_calls(self) -> None:
        """Log the calls that have arrived, then start them while the answer still streams."""
        log = self.run.log
        self._show(await log.append(*self._items, origin=log.origin))
        self._items.clear()
        self._collect_beside(self._start_calls())

    def _runner(self) -> Dispatch:
        run = self.run
        if self._dispatch is None:
            context = run.context(run.log.step)
            self._dispatch = Dispatch(self.facts.tools, context, run.hooks)
        return self._dispatch

    def _start_calls(self) -> Dispatch:
        run, runner = self.run, self._runner()
        for item in self._calls:
            call = call_of(item)
            run.emit(ToolStarted(call_id=call.call_id, name=call.name, arguments=call.arguments))
            self.facts.add_call(call.name, call.namespace)
            CALL.set(call)
            runner.submit(item)
        self._calls.clear()
        return runner

    async def _record_end(self, usage_before: TokenUsage) -> None:
        """Log the rest of the answer; with nothing left to do, the turn ends in the same breath."""
        completed = self._completed
        self.usage = self._counted or TokenUsage()
        wants_more = completed is not None and completed.response.end_turn is False
        end = None
        if not (self.error or self.calls or wants_more):
            end = await self._find_end(usage_before)
        await self._record_answer("failed" if self.error else "completed", end)
        if self.calls:
            self._show(await self._sequencer.response_ended())
            self._start_calls().finish()

    async def _find_end(self, usage_before: TokenUsage) -> TurnEnd | None:
        """Return the end of the turn, if it may end with this answer."""
        run, log = self.run, self.run.log
        self.unreadable = self.facts.stuck.unreadable(run, self._text())
        self.refused = self.unreadable is None and not run.accepts(self.facts.facts())
        if not (self.refused or self.unreadable):
            usage = usage_before + self.usage
            return TurnEnd(number=log.turn, state="completed", usage=usage)
        if await log.inbox():
            # What waits may change the answer.
            self.refused, self.unreadable = False, None
        return None

    def _text(self) -> str:
        """Return the last message of the answer."""
        said = [item for item in self._said if item.role == "assistant"]
        return text_of(said[-1].content) if said else ""

    async def _record_answer(self, status: ResponseStatus, end: TurnEnd | None = None) -> None:
        log, completed = self.run.log, self._completed
        self.run.budget.add(self._counted, steps=int(status == "completed"))
        record = partial(
            log.requests.record_answer,
            self._items,
            status=status,
            usage=self._counted,
            response_id=completed.response.id if completed else None,
            error=str(self.error) if self.error else None,
        )
        recorded = await record(end=end)
        if recorded.held_back:
            end, recorded = None, await record()
        self._items.clear()
        self._unanswered, self.ended = False, end is not None
        self._show(recorded.entries)
        if self._counted is not None:
            self.run.emit(
                UsageReported(
                    usage=self._counted,
                    occupied=log.requests.occupied,
                    window=log.setup.profile.effective_window,
                    model=log.asked_model,
                )
            )

    def _collect_beside(self, dispatch: Dispatch) -> asyncio.Task[None]:
        self._collecting = self._collecting or asyncio.create_task(self._collect(dispatch))
        return self._collecting

    async def _collect(self, dispatch: Dispatch) -> None:
        async for finished in dispatch.results():
            await finish_uncancelled(self._take_result(finished))

    async def _take_result(self, finished: FinishedCall) -> None:
        self.facts.add_result(finished.result)
        self.facts.stuck.add(finished)
        entries = await self._sequencer.add(finished)
        self.stop |= finished.result.stop
        self.run.emit(call_finished(finished))
        if finished.call.name == UPDATE_PLAN:
            self._show_plan(finished)
        self._show(entries)

    def _show_plan(self, finished: FinishedCall) -> None:
        from .changed_plan import changed_plan  # most turns have none

        if (plan := changed_plan(finished)) is not None:
            self.run.emit(plan)

    async def _break_off(self) -> None:
        """Give every open call its result and leave a legal log."""
        if not self.calls:
            await self._record_interruption()
            return
        dispatch = self._runner()
        results = self._collect_beside(dispatch)
        try:
            try:
                await self._record_interruption()
                self._start_calls()
            finally:
                await dispatch.abort()
            self._show(await self._sequencer.response_ended())
        finally:
            # Where the log cannot be written, that is the error; results only repeat it.
            dispatch.finish()
            await asyncio.wait([results])
            if not results.cancelled():
                results.exception()

    async def _record_interruption(self) -> None:
        """Log what has arrived; no call is answered that the log does not have."""
        if self._comparing is not None:
            await asyncio.wait([self._comparing])
            self._comparing.exception()  # whoever broke off has heard of it, or of worse
        if self._unanswered:
            await self._record_answer("interrupted")

    def _show(self, entries: Iterable[Entry]) -> None:
        for entry in entries:
            if entry.kind == "item":
                self.run.emit(ItemCompleted(seq=entry.seq, item=Raw(entry.body)))
