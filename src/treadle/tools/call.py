"""One call: the hooks before it, the tool, the hooks on its result, the hooks after it.

Owns their order, the `ToolHooks` Protocol, and how a hook's parameters join a model's.
Invariants: a call passes each hook once, however often its tool is wrapped; a hook that hangs
or fails before a call keeps it from running, and a later failure costs neither the result nor
what the tool sent. A hook changes the parameters and the output, never which call it is.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol, TypeAlias, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ..core.errors import HookFailed
from ..core.image_fit import fit_url
from ..core.items import CustomToolCall, InputImage, InputText, Part
from ..core.redact import redact, redact_known
from ..core.specs import ToolSpec
from ..core.text import whole_characters
from ..core.wire import UNREADABLE, Json, json_bytes
from ..prompt.image_notes import unreadable_image
from ..sandbox.approvals import Ask, Decision
from .contract import Details, Tool, ToolCall, ToolContext, ToolResult, abort_text, is_replay_safe

__all__ = [
    "BEFORE_TOOL_CALL",
    "NO_HOOKS",
    "Block",
    "CallRun",
    "HookVerdict",
    "HookedTool",
    "Merge",
    "NoHooks",
    "ToolHooks",
    "is_hooked",
    "merge_parameters",
    "with_hooks",
]

BEFORE_TOOL_CALL = "before-tool-call"
"""Who denied a call that a hook blocked, or that a hook failed to judge."""

_LONGEST_NOTE = 2_000
"""Characters of the parameters that a note about a hook tells."""

AskApproval: TypeAlias = Callable[[Ask], Awaitable[Decision]]

_log = logging.getLogger(__name__)
T = TypeVar("T")


class Merge(Struct, frozen=True):
    """Run the call with these parameters put over its own."""

    parameters: dict[str, Json]


class Block(Struct, frozen=True):
    """Do not run the call; the model reads the reason."""

    reason: str


HookVerdict: TypeAlias = Merge | Block | None


class ToolHooks(Protocol):
    """What a host does around calls.

    A hook that raises before a call keeps it from running; one that raises later
    changes nothing. Either is logged.
    """

    async def before_tool_call(self, call: ToolCall, context: ToolContext) -> HookVerdict:
        """Return whether `call` runs, and with what."""
        ...

    async def tool_result(
        self, call: ToolCall, result: ToolResult, context: ToolContext
    ) -> ToolResult:
        """Return the result to record in place of `result`."""
        ...

    async def after_tool_call(
        self, call: ToolCall, result: ToolResult, seconds: float, context: ToolContext
    ) -> None:
        """Take note of what was recorded."""
        ...


class NoHooks:
    """Leaves every call as it is."""

    async def before_tool_call(self, call: ToolCall, context: ToolContext) -> HookVerdict:
        """Run it."""
        del call, context
        return None

    async def tool_result(
        self, call: ToolCall, result: ToolResult, context: ToolContext
    ) -> ToolResult:
        """Keep it."""
        del call, context
        return result

    async def after_tool_call(
        self, call: ToolCall, result: ToolResult, seconds: float, context: ToolContext
    ) -> None:
        """Do nothing."""


NO_HOOKS: ToolHooks = NoHooks()


def merge_parameters(call: ToolCall, parameters: Mapping[str, Json]) -> ToolCall:
    """Return `call` with `parameters` over its own; a freeform call has one, ``input``.

    Arguments that are no JSON object stay, so that the tool can report what is wrong.
    """
    if isinstance(call.item, CustomToolCall):
        given = parameters.get("input")
        text = call.arguments if given is None else msgspec.json.decode(given, type=str)
        return replace(call, arguments=text)
    try:
        own = msgspec.json.decode(call.arguments or "{}", type=dict[str, Json])
    except UNREADABLE:
        return call
    return replace(call, arguments=json_bytes({**own, **parameters}).decode())


class CallRun(Struct):
    """One call and its hooks."""

    tool: Tool
    call: ToolCall
    """As it runs: with the parameters that hooks have put over its own."""
    context: ToolContext
    hooks: ToolHooks
    clock: Callable[[], float] = time.monotonic
    began: float = 0.0
    waited: float = 0.0
    """How long the user was asked for an approval, in seconds."""
    _is_hooked: bool = False
    _returned: ToolResult | None = None

    def __post_init__(self) -> None:
        if is_hooked(self.tool):
            self._is_hooked, self.hooks = True, NO_HOOKS
        self.context = replace(self.context, ask_approval=self._time(self.context.ask_approval))

    async def run(self) -> ToolResult:
        """Run the call among its hooks and return the result to record."""
        result = await self._ask_hooks() or await self._run_tool()
        await _log_failure(
            self.hooks.after_tool_call(self.call, result, self.seconds, self.context),
            f"a hook after {self.call.name} failed",
        )
        return result

    @property
    def seconds(self) -> float:
        """Return how long it has run so far, without the time that the user took to approve it."""
        return self.clock() - self.began - self.waited

    def _time(self, ask: AskApproval) -> AskApproval:
        async def ask_and_time(question: Ask) -> Decision:
            began = self.clock()
            try:
                return await ask(question)
            finally:
                self.waited += self.clock() - began

        return ask_and_time

    def with_evidence(self, result: ToolResult) -> ToolResult:
        """Return `result` with what the tool itself reported to have sent and made, if it ran."""
        returned = self._returned
        if returned is None:
            return result
        return replace(
            result,
            sent=returned.sent,
            media=returned.media,
            details=result.details or returned.details,
        )

    async def _ask_hooks(self) -> ToolResult | None:
        """Ask the hooks before the call; return a result if the call does not run."""
        try:
            match await self.hooks.before_tool_call(self.call, self.context):
                case Block(reason):
                    await self._note(f"stopped {self.call.name}: {reason}")
                    return _blocked_result(reason, reason)
                case Merge(parameters):
                    given = _parameters_text(parameters)
                    await self._note(f"changed what {self.call.name} was given: {given}")
                    self.call = merge_parameters(self.call, parameters)
        except Exception as error:  # noqa: BLE001 - a hook that cannot judge a call forbids it
            _log.exception("%s was not run: a hook failed", self.call.name)
            reason = f"a hook failed: {_hook_error_text(error)}"
            await self._note(f"that failed stopped {self.call.name}: {_hook_error_text(error)}")
            return _blocked_result(f"{self.call.name} was not run: {reason}", reason)
        return None

    async def _run_tool(self) -> ToolResult:
        try:
            returned = await _recordable(await self.tool.run(self.call, self.context))
        except Exception as error:  # noqa: BLE001 - whatever fails, the call gets its result
            _log.exception("%s failed", self.call.name)
            returned = _error_result(self.call.name, error)
        self._returned = returned
        # Before a hook sees the result; a tool with hooks of its own has reported already.
        if self.context.on_result is not None and not self._is_hooked:
            await _log_failure(
                self.context.on_result(self.call, returned),
                f"what {self.call.name} has sent and made could not be noted",
            )
        changed = await _log_failure(
            self.hooks.tool_result(self.call, returned, self.context),
            f"a hook on the result of {self.call.name} failed",
        )
        if changed is not None and changed.output != returned.output:
            await self._note(f"put another result in the place of what {self.call.name} returned")
        return self.with_evidence(returned if changed is None else changed)

    async def _note(self, deed: str) -> None:
        """Note what a hook did; a log that cannot take it costs the call nothing."""
        text = redact_known(whole_characters(f"a hook {deed}"))
        await _log_failure(self.context.note_hook(text), "what a hook did could not be noted")


def is_hooked(tool: Tool) -> bool:
    """Return whether `tool` calls hooks itself, so that nobody else must.

    A tool declares it with an attribute ``hooked``.
    """
    return bool(getattr(tool, "hooked", False))


def with_hooks(tool: Tool, hooks: ToolHooks) -> Tool:
    """Return `tool` with `hooks` around its calls; one that has its own stays as it is.

    For hosts that run a tool themselves, outside a turn.
    """
    return tool if is_hooked(tool) else HookedTool(tool, hooks)


class HookedTool(Struct, frozen=True):
    """A tool and the hooks around it."""

    tool: Tool
    hooks: ToolHooks

    @property
    def hooked(self) -> bool:
        """Return True: `Dispatch` leaves its own hooks out."""
        return True

    @property
    def spec(self) -> ToolSpec:
        """Return the specification that the model gets."""
        return self.tool.spec

    @property
    def parallel(self) -> bool:
        """Return what the tool itself declares."""
        return self.tool.parallel

    @property
    def replay_safe(self) -> bool:
        """Return what the tool itself declares."""
        return is_replay_safe(self.tool)

    async def run(self, call: ToolCall, context: ToolContext) -> ToolResult:
        """Run a call, as far as the hooks agree."""
        return await CallRun(self.tool, call, context, self.hooks, began=time.monotonic()).run()

    def abort_text(self, call: ToolCall, seconds: float) -> str:
        """Return the text of the tool itself."""
        return abort_text(self.tool, call, seconds)


async def _recordable(result: ToolResult) -> ToolResult:
    """Return `result` without secrets of ours and half characters, with images that fit."""
    if isinstance(result.output, str):
        return replace(result, output=redact_known(whole_characters(result.output)))
    parts = tuple(
        replace(part, text=redact_known(whole_characters(part.text)))
        if isinstance(part, InputText)
        else part
        for part in result.output
    )
    if any(isinstance(part, InputImage) for part in parts):
        parts = await asyncio.to_thread(_fitting, parts)
    return replace(result, output=parts)


def _fitting(parts: tuple[Part, ...]) -> tuple[Part, ...]:
    """Return the parts with images that can be read and fit, or a sentence for each other."""
    return tuple(_fitting_image(part) if isinstance(part, InputImage) else part for part in parts)


def _fitting_image(part: InputImage) -> Part:
    try:
        url = fit_url(part.image_url, original=part.detail == "original")
    except ValueError as error:
        return unreadable_image("An image of the result", str(error))
    return part if url == part.image_url else replace(part, image_url=url)


def _error_result(name: str, error: Exception) -> ToolResult:
    kind, text = type(error).__name__, redact(whole_characters(str(error)))
    output = f"{name} failed: {kind}: {text}" if text else f"{name} failed: {kind}"
    return ToolResult(output, success=False, details=Details(status="error", error=text or kind))


def _blocked_result(output: str, reason: str) -> ToolResult:
    details = Details(status="blocked", error=reason, denied_reason=BEFORE_TOOL_CALL)
    return ToolResult(output, success=False, details=details)


def _parameters_text(parameters: Mapping[str, Json]) -> str:
    given = (f"{name} = {json_bytes(value).decode()}" for name, value in parameters.items())
    return ", ".join(given)[:_LONGEST_NOTE]


def _hook_error_text(error: Exception) -> str:
    if isinstance(error, HookFailed):
        return whole_characters(str(error))
    kind, text = type(error).__name__, redact(whole_characters(str(error)))
    return f"{kind}: {text}" if text else kind


async def _log_failure(work: Awaitable[T], what: str) -> T | None:
    """Wait for `work` and return its result; log its failure and return None."""
    try:
        return await work
    except Exception:  # noqa: BLE001 - whatever fails, the call keeps its result
        _log.exception("%s", what)
        return None
