"""Our tools on Codex: offered as dynamic tools, run by our own dispatch.

Owns the way from a specification to a dynamic tool, and from a call to its result.
Invariant: a call runs through the same hooks, sandbox and approvals as in our own loop,
and its result is durable before Codex hears of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import msgspec
from msgspec import Raw

from ...core.items import CustomToolCall, FunctionCall, FunctionCallOutput, InputImage, Output
from ...core.specs import CustomTool, Namespace, ToolSpec, parameters, spec_name
from ...core.specs import FunctionTool as Function
from ...tools.contract import CallItem, Tool
from ...tools.dispatch import Dispatch, Finished, by_name, call_of
from ..attempt_facts import AttemptFacts
from ..contract import CALL, TurnRun
from ..event_stream import call_finished
from ..events import ToolStarted
from .keeping import LOG_ERRORS
from .protocol.asks import ToolCallReply, ToolCallRequest, ToolImagePart, ToolTextPart
from .protocol.requests import DynamicFunction, DynamicNamespace, DynamicTool

__all__ = ["ToolRunner", "dynamic_tools"]

_INPUT = "input"
"""The one parameter of a freeform tool, which Codex knows as a function."""
_FREEFORM = parameters({_INPUT: {"type": "string"}}, required=(_INPUT,))


def dynamic_tools(specs: Sequence[ToolSpec]) -> tuple[tuple[DynamicTool, ...], tuple[str, ...]]:
    """The dynamic tools, and the names of what only a provider could run."""
    offered: list[DynamicTool] = []
    left_out: list[str] = []
    for spec in specs:
        if isinstance(spec, Namespace):
            members = tuple(_functions(spec.tools))
            offered.append(
                DynamicNamespace(name=spec.name, description=spec.description, tools=members)
            )
        elif functions := tuple(_functions((spec,))):
            offered += functions
        else:
            left_out.append(spec_name(spec))
    return tuple(offered), tuple(left_out)


def _functions(specs: Sequence[ToolSpec]) -> Iterator[DynamicFunction]:
    for spec in specs:
        if isinstance(spec, Function):
            yield DynamicFunction(
                name=spec.name,
                description=spec.description,
                input_schema=spec.parameters,
                defer_loading=spec.defer_loading or False,
            )
        elif isinstance(spec, CustomTool):
            yield DynamicFunction(
                name=spec.name, description=spec.description, input_schema=_FREEFORM
            )


@dataclass(slots=True)
class ToolRunner:
    """Runs the calls of one turn."""

    run: TurnRun
    facts: AttemptFacts
    before_answer: Callable[[], Awaitable[None]]
    """Called while Codex still waits for a result."""
    stop: Callable[[], Awaitable[None]]
    """Called where the user wants the turn to end with a call."""
    _dispatch: Dispatch = field(init=False)
    _waiting: dict[int, asyncio.Future[Finished]] = field(init=False, default_factory=dict)
    _collecting: asyncio.Task[None] = field(init=False)

    def __post_init__(self) -> None:
        log = self.run.log
        self._dispatch = Dispatch(
            by_name(self.run.tools), self.run.context(log.step), self.run.hooks
        )
        self._collecting = asyncio.create_task(self._collect(), name="codex tool results")

    async def run_call(self, asked: ToolCallRequest) -> ToolCallReply:
        """Run a call that Codex's model made."""
        item = self._item(asked)
        call = call_of(item)
        self.run.emit(ToolStarted(call_id=call.call_id, name=call.name, arguments=call.arguments))
        self.facts.add_call(call.name, call.namespace)
        CALL.set(call)
        done: asyncio.Future[Finished] = asyncio.get_running_loop().create_future()
        self._waiting[self._dispatch.submit(item)] = done
        finished = await done
        self.facts.add_result(finished.result)
        if self._is_logged(call.call_id):
            # What a log that is full does not take, Codex keeps and tells back.
            with suppress(*LOG_ERRORS):
                # To Codex, and so to the log, every tool of ours is a function.
                output = FunctionCallOutput(call_id=call.call_id, output=finished.result.output)
                await self.run.log.stage_output(output)
        self.run.emit(call_finished(finished))
        result = finished.result
        await (self.stop if result.stop else self.before_answer)()
        return ToolCallReply(content_items=tuple(_parts(result.output)), success=result.success)

    async def abort(self) -> None:
        """End every call under way, and take no more."""
        await self._dispatch.abort()
        await asyncio.wait([self._collecting])

    async def _collect(self) -> None:
        async for finished in self._dispatch.results():
            done = self._waiting.pop(finished.position)
            if not done.done():
                done.set_result(finished)

    def _item(self, asked: ToolCallRequest) -> CallItem:
        if (asked.namespace, asked.tool) in set(_freeform_names(self.run.tools)):
            return CustomToolCall(
                call_id=asked.call_id,
                name=asked.tool,
                namespace=asked.namespace,
                input=_freeform(asked.arguments),
            )
        return FunctionCall(
            call_id=asked.call_id,
            name=asked.tool,
            namespace=asked.namespace,
            arguments=bytes(asked.arguments).decode(),
        )

    def _is_logged(self, call_id: str) -> bool:
        """Whether the model made the call itself; those of a script it wrote are not in the log."""
        return any(row.shape.call_id == call_id for row in self.run.log.view.open_calls)


def _freeform_names(tools: Sequence[Tool]) -> Iterator[tuple[str | None, str]]:
    for spec in (tool.spec for tool in tools):
        if isinstance(spec, CustomTool):
            yield None, spec.name
        elif isinstance(spec, Namespace):
            yield from (
                (spec.name, each.name) for each in spec.tools if isinstance(each, CustomTool)
            )


def _freeform(arguments: Raw) -> str:
    given = msgspec.json.decode(arguments)
    said = given.get(_INPUT, "") if isinstance(given, dict) else given
    return said if isinstance(said, str) else msgspec.json.encode(said).decode()


def _parts(output: Output) -> Iterator[ToolTextPart | ToolImagePart]:
    if isinstance(output, str):
        yield ToolTextPart(text=output)
        return
    for part in output:
        if isinstance(part, InputImage):
            yield ToolImagePart(image_url=part.image_url)
        elif text := getattr(part, "text", ""):
            yield ToolTextPart(text=text)
