"""The hooks of a thread: who is asked, in which order, and what their answers do.

Owns the joining of answers: parameters are merged in order, the first block wins,
outputs pass from one hook to the next. Invariant: a hook that fails before a call or a
compaction blocks it; one that fails elsewhere changes nothing and is logged.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import msgspec
from msgspec import UNSET, Struct, UnsetType

from ..errors import HookFailed
from ..items import text_of
from ..tools.contract import ToolCall, ToolContext, ToolResult
from ..tools.hooks import Block, HookVerdict, Merge
from ..wire import Json
from .payloads import AfterToolCall, BeforeToolCall, Payload, ToolResultReady

__all__ = ["Answer", "Hook", "Hooks"]

_log = logging.getLogger("weft.hooks")


class Answer(Struct, frozen=True, kw_only=True):
    """What a hook may say; everything is optional."""

    block: str | None = None
    """Do not go on, for this reason. Before a call, a compaction or a prompt."""
    parameters: dict[str, Json] | UnsetType = UNSET
    """Put these over the call's own. Before a call."""
    output: str | None = None
    """Record this instead. When a result is ready."""
    context: str | None = None
    """Tell the model this with the input. Before a prompt is built."""


Hook: TypeAlias = Callable[[Any], Awaitable[Answer | None]]
"""Called with the payload of its event."""


@dataclass(slots=True)
class _Registered:
    hook: Hook
    tools: frozenset[str]


@dataclass(slots=True)
class Hooks:
    """Hooks by the payload they take."""

    _hooks: dict[type[Payload], list[_Registered]] = field(default_factory=dict)

    def on(self, event: type[Payload], hook: Hook, *, tools: tuple[str, ...] = ()) -> None:
        """Call `hook` for each `event`; with `tools`, only for calls of those."""
        self._hooks.setdefault(event, []).append(_Registered(hook, frozenset(tools)))

    async def ask(self, payload: Payload) -> list[Answer]:
        """The answers of all hooks for this event, in order, up to one that blocks.

        Raises `HookFailed`.
        """
        answers = []
        for hook in self._for(payload):
            answer = await _asked(hook, payload)
            if answer is not None:
                answers.append(answer)
                if answer.block is not None:
                    break
        return answers

    async def tell(self, payload: Payload) -> list[Answer]:
        """The answers of all hooks for this event; one that fails is only logged."""
        answers = [await _heard(hook, payload) for hook in self._for(payload)]
        return [answer for answer in answers if answer is not None]

    def _for(self, payload: Payload) -> list[Hook]:
        tool = getattr(payload, "tool", None)
        registered = self._hooks.get(type(payload), ())
        return [each.hook for each in registered if not each.tools or tool in each.tools]

    async def before_tool_call(self, call: ToolCall, context: ToolContext) -> HookVerdict:
        """Whether a call runs, and with what."""
        answers = await self.ask(BeforeToolCall(arguments=call.arguments, **_about(call, context)))
        merged: dict[str, Json] = {}
        for answer in answers:
            if answer.block is not None:
                return Block(answer.block)
            if not isinstance(answer.parameters, UnsetType):
                merged |= answer.parameters
        return Merge(merged) if merged else None

    async def tool_result(
        self, call: ToolCall, result: ToolResult, context: ToolContext
    ) -> ToolResult:
        """The result to record: each hook reads what the one before has made of it."""
        payload = ToolResultReady(
            output=text_of(result.output), success=result.success, **_about(call, context)
        )
        for hook in self._for(payload):
            answer = await _heard(hook, payload)
            if answer is not None and answer.output is not None:
                payload = msgspec.structs.replace(payload, output=answer.output)
                result = msgspec.structs.replace(result, output=answer.output)
        return result

    async def after_tool_call(
        self, call: ToolCall, result: ToolResult, seconds: float, context: ToolContext
    ) -> None:
        """Tell that a call is over."""
        await self.tell(
            AfterToolCall(
                output=text_of(result.output),
                success=result.success,
                seconds=seconds,
                **_about(call, context),
            )
        )


async def _asked(hook: Hook, payload: Payload) -> Answer | None:
    try:
        return await hook(payload)
    except HookFailed:
        raise
    except Exception as error:
        tag = payload.__struct_config__.tag
        raise HookFailed(f"a hook for {tag!r} failed: {type(error).__name__}: {error}") from error


async def _heard(hook: Hook, payload: Payload) -> Answer | None:
    try:
        return await hook(payload)
    except Exception:  # noqa: BLE001 - whatever it raises, it must not end the turn
        _log.exception("a hook for %s failed", payload.__struct_config__.tag)
        return None


def _about(call: ToolCall, context: ToolContext) -> dict[str, Any]:
    return {
        "thread": context.thread,
        "turn": context.turn,
        "step": context.step,
        "cwd": str(context.cwd),
        "call_id": call.call_id,
        "tool": call.name,
    }
