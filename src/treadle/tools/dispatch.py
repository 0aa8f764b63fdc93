"""Dispatch: the calls of one step, from their submission to their results.

Owns when calls run and that each gets exactly one result. Invariant: a call runs only after
every earlier call that it must not run beside has ended, so the outcome is that of the calls
in their order; results come as they are ready, with their position.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from typing import TypeAlias

from msgspec import Struct, field

from ..core.capability import offers
from ..core.items import (
    CustomToolCall,
    CustomToolCallOutput,
    FunctionCallOutput,
    LocalShellCall,
    encode_action,
)
from ..core.specs import Namespace, spec_name
from ..core.wire import Unknown
from .call import NO_HOOKS, CallRun, ToolHooks
from .contract import (
    CallItem,
    Forwards,
    Tool,
    ToolCall,
    ToolContext,
    ToolResult,
    abort_text,
    tool_id,
)

__all__ = [
    "MOST_AT_ONCE",
    "Dispatch",
    "FinishedCall",
    "ToolsByName",
    "call_of",
    "output_item",
    "tools_by_name",
]

_log = logging.getLogger(__name__)

ToolsByName: TypeAlias = Mapping[tuple[str | None, str], Tool]
"""Tools by namespace, where they have one, and name."""

MOST_AT_ONCE = 64
"""Calls of a step that run at the same time; a response may make many more."""


class FinishedCall(Struct, frozen=True, kw_only=True):
    """A call that has its result."""

    position: int
    """The call's place in the step, counted from 0."""
    call: ToolCall
    result: ToolResult
    item: FunctionCallOutput | CustomToolCallOutput
    seconds: float
    aborted: bool = False
    last: bool = False
    """No call of the step is left."""


class _OpenCall(Struct, eq=False):
    """A call without a result."""

    position: int
    call: ToolCall
    tool: Tool | None
    began: float
    task: asyncio.Task[None] | None = None
    run: CallRun | None = None

    @property
    def parallel(self) -> bool:
        return self.tool is None or self.tool.parallel


class Dispatch(Struct):
    """Runs the calls of one step.

    `submit` calls as they arrive, `finish` when no more will come, and read `results` until
    they end. `abort` gives every open call its result.
    """

    tools: ToolsByName
    context: ToolContext
    hooks: ToolHooks = NO_HOOKS
    clock: Callable[[], float] = time.monotonic
    _calls: list[_OpenCall] = field(default_factory=list)
    _open: set[_OpenCall] = field(default_factory=set)
    _exclusive: asyncio.Task[None] | None = None
    _since: list[asyncio.Task[None]] = field(default_factory=list)
    """The calls that were submitted after the last exclusive one."""
    _ready: asyncio.Queue[FinishedCall | None] = field(default_factory=asyncio.Queue)
    _closed: bool = False
    _slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(MOST_AT_ONCE))

    def submit(self, item: CallItem) -> int:
        """Start a call as soon as its turn has come; return its position in the step."""
        if self._closed:
            raise RuntimeError("this step takes no more calls; submit before `finish`")
        call = call_of(item)
        tool = self.tools.get((call.namespace, call.name))
        candidate: object = tool
        if offers(candidate, Forwards):
            tool, call = candidate.forward(call) or (tool, call)
        opened = _OpenCall(len(self._calls), call, tool, self.clock())
        self._calls.append(opened)
        self._open.add(opened)
        before = () if self._exclusive is None else (self._exclusive,)
        if opened.parallel:
            opened.task = asyncio.create_task(self._run(opened, before))
            self._since.append(opened.task)
        else:
            opened.task = asyncio.create_task(self._run(opened, (*before, *self._since)))
            self._exclusive, self._since = opened.task, []
        return opened.position

    def finish(self) -> None:
        """Declare that no more calls will come."""
        self._closed = True
        self._end_if_done()

    async def results(self) -> AsyncIterator[FinishedCall]:
        """Yield the results as they become ready; end after `finish` with the last of them."""
        while (finished := await self._ready.get()) is not None:
            yield finished

    async def abort(self) -> None:
        """End every open call and give it its result; returns when nothing runs any more."""
        self._closed = True
        open_ = sorted(self._open, key=lambda each: each.position)
        for each in open_:
            assert each.task is not None
            each.task.cancel()
        await asyncio.gather(*(each.task for each in open_ if each.task), return_exceptions=True)
        for each in open_:
            # A task that was cancelled before its first step could not deliver.
            if each in self._open:
                self._deliver(each, self._aborted_result(each), aborted=True)
        self._end_if_done()

    async def _run(self, opened: _OpenCall, before: tuple[asyncio.Task[None], ...]) -> None:
        """Run a call when all tasks of `before` have ended, and deliver its result."""
        try:
            if before:
                await asyncio.wait(before)
            async with self._slots:
                result = await self._run_call(opened)
        except asyncio.CancelledError:
            self._deliver(opened, self._aborted_result(opened), aborted=True)
            raise
        self._deliver(opened, result)

    async def _run_call(self, opened: _OpenCall) -> ToolResult:
        if opened.tool is None:
            return ToolResult(f"unsupported call: {tool_id(opened.call)}", success=False)
        opened.run = CallRun(
            opened.tool, opened.call, self.context, self.hooks, self.clock, opened.began
        )
        result = await opened.run.run()
        opened.call = opened.run.call
        return await self._fit(opened.call, result)

    async def _fit(self, call: ToolCall, result: ToolResult) -> ToolResult:
        from .tool_output import fit_result  # a first request has no results yet

        try:
            return await fit_result(result, self.context)
        except Exception:  # noqa: BLE001 - whatever fails, the call keeps its result
            _log.exception("the result of %s could not be kept", call.name)
            return result

    def _aborted_result(self, opened: _OpenCall) -> ToolResult:
        text = abort_text(opened.tool, opened.call, self.clock() - opened.began)
        result = ToolResult(text, success=False)
        return opened.run.with_evidence(result) if opened.run else result

    def _deliver(self, opened: _OpenCall, result: ToolResult, *, aborted: bool = False) -> None:
        self._open.discard(opened)
        self._ready.put_nowait(
            FinishedCall(
                position=opened.position,
                call=opened.call,
                result=result,
                item=output_item(opened.call, result),
                seconds=opened.run.seconds if opened.run else self.clock() - opened.began,
                aborted=aborted,
                last=self._closed and not self._open,
            )
        )
        self._end_if_done()

    def _end_if_done(self) -> None:
        if self._closed and not self._open:
            self._ready.put_nowait(None)


def call_of(item: CallItem) -> ToolCall:
    """Return the call that an item asks for."""
    if isinstance(item, LocalShellCall):
        arguments = "" if isinstance(item.action, Unknown) else encode_action(item.action).decode()
        call_id = item.call_id or item.id or ""
        return ToolCall(call_id=call_id, name="local_shell", arguments=arguments, item=item)
    return ToolCall(
        call_id=item.call_id,
        name=item.name,
        namespace=item.namespace,
        arguments=item.input if isinstance(item, CustomToolCall) else item.arguments,
        item=item,
    )


def output_item(call: ToolCall, result: ToolResult) -> FunctionCallOutput | CustomToolCallOutput:
    """Return the item that records the result of `call`."""
    if isinstance(call.item, CustomToolCall):
        return CustomToolCallOutput(call_id=call.call_id, output=result.output)
    return FunctionCallOutput(call_id=call.call_id, output=result.output)


def tools_by_name(tools: Iterable[Tool]) -> ToolsByName:
    """Return tools by the names that they are called by; of two with one name, the later."""
    return {name: tool for tool in tools for name in _names_of(tool)}


def _names_of(tool: Tool) -> list[tuple[str | None, str]]:
    """Return the names a tool is called by: with its namespace, where it has one."""
    if isinstance(tool.spec, Namespace):
        return [(tool.spec.name, spec_name(member)) for member in tool.spec.tools]
    return [(None, spec_name(tool.spec))]
