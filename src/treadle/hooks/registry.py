"""The hooks of a thread: who is asked, in which order, and what their answers do.

Owns the joining of answers: parameters are merged in order, the first block wins,
outputs pass from one hook to the next. Invariant: a hook is called once for an event,
however often it was registered, and what its failure means is in `rules`.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import msgspec
from msgspec import Struct, UnsetType, field

from ..core.errors import ConfigError, HookFailed
from ..core.items import text_of
from ..core.wire import Json
from ..tools.contract import ToolCall, ToolContext, ToolResult, tool_id
from ..tools.hooks import Block, HookVerdict, Merge, merged
from .answers import Answer, Hook
from .payloads import (
    AfterCompaction,
    AfterToolCall,
    BeforePromptBuild,
    BeforeToolCall,
    Payload,
    Source,
    ThreadStarted,
    ToolResultReady,
)
from .rules import LONGEST, RULES

__all__ = ["Answer", "Hook", "Hooks"]

_log = logging.getLogger("treadle.hooks")


class _Registered(Struct, frozen=True):
    hook: Hook
    tools: tuple[str, ...]
    priority: int
    seconds: float

    async def ask(self, payload: Payload) -> Answer | None:
        from .calling import called

        return await called(self.hook, payload, self.seconds)

    async def tell(self, payload: Payload) -> Answer | None:
        try:
            return await self.ask(payload)
        except HookFailed as error:
            _log.warning("%s; it is left out", error, exc_info=error.__cause__)
            return None


class Hooks(Struct):
    """Hooks by the payload they take."""

    _hooks: dict[type[Payload], list[_Registered]] = field(default_factory=dict)
    _begin: dict[str, Source | None] = field(default_factory=dict)
    """How each thread that was heard of begins with its next input, if it does."""

    def on(
        self,
        event: type[Payload],
        hook: Hook,
        *,
        tools: tuple[str, ...] = (),
        priority: int = 0,
        timeout: float | None = None,
    ) -> None:
        """Call `hook` for each `event`; with `tools`, only for calls of those.

        `tools` are globs over canonical ids. Hooks of a higher `priority` come first,
        others in the order of registration. `timeout` is in seconds, at most 600.
        """
        seconds = RULES[event].seconds if timeout is None else timeout
        if not 0 < seconds <= LONGEST:
            raise ConfigError(
                f"a hook cannot have {seconds:g} s; give it more than 0 and at most {LONGEST:g}"
            )
        registered = self._hooks.setdefault(event, [])
        registered.append(_Registered(hook, tools, priority, seconds))
        registered.sort(key=lambda each: -each.priority)

    @property
    def events(self) -> tuple[str, ...]:
        """The events that somebody hears of, by name."""
        heard = (event for event, registered in self._hooks.items() if registered)
        return tuple(sorted(str(event.__struct_config__.tag) for event in heard))

    async def ask(self, payload: Payload) -> list[Answer]:
        """The answers of all hooks for this event, in order, up to one that blocks.

        Raises `HookFailed`.
        """
        answers = []
        for each in self._for(payload):
            answer = await each.ask(payload)
            if answer is not None:
                answers.append(answer)
                if answer.block is not None:
                    break
        return answers

    async def tell(self, payload: Payload) -> list[Answer]:
        """The answers of all hooks for this event; one that hangs or fails is only logged."""
        if isinstance(payload, AfterCompaction):
            self._begin[payload.thread] = "compact"
        hooks = self._for(payload)
        if len(hooks) > 1 and RULES[type(payload)].together:
            answers = await asyncio.gather(*(each.tell(payload) for each in hooks))
        else:
            answers = [await each.tell(payload) for each in hooks]
        return [answer for answer in answers if answer is not None]

    async def before_prompt(self, payload: BeforePromptBuild) -> list[Answer]:
        """The answers about an input, behind those about the thread where it only begins."""
        source = self._begin.get(payload.thread, "resume" if payload.resumed else "startup")
        self._begin[payload.thread] = None
        if source is None:
            return await self.tell(payload)
        start = ThreadStarted(
            thread=payload.thread, cwd=payload.cwd, model=payload.model, source=source
        )
        answers = [*await self.tell(start), *await self.tell(payload)]
        if any(answer.block is not None for answer in answers):
            # What was said about the start goes with the input, and that is not admitted.
            self._begin[payload.thread] = source
        return answers

    def _for(self, payload: Payload) -> list[_Registered]:
        from .matching import matches

        tool = getattr(payload, "tool", "")
        found: list[_Registered] = []
        for each in self._hooks.get(type(payload), ()):
            wanted = not tool or matches(tool, each.tools)
            if wanted and all(each.hook != other.hook for other in found):
                found.append(each)
        return found

    async def before_tool_call(self, call: ToolCall, context: ToolContext) -> HookVerdict:
        """Whether a call runs, and with what; each hook reads what those before have made of it."""
        parameters: dict[str, Json] = {}
        payload = BeforeToolCall(arguments=call.arguments, **_about(call, context))
        for each in self._for(payload):
            answer = await each.ask(payload) or Answer()
            if answer.block is not None:
                return Block(answer.block)
            if not isinstance(answer.parameters, UnsetType):
                parameters |= answer.parameters
                arguments = merged(call, parameters).arguments
                payload = msgspec.structs.replace(payload, arguments=arguments)
        return Merge(parameters) if parameters else None

    async def tool_result(
        self, call: ToolCall, result: ToolResult, context: ToolContext
    ) -> ToolResult:
        """The result to record: each hook reads what the one before has made of it."""
        payload = ToolResultReady(
            output=text_of(result.output),
            success=result.success,
            arguments=call.arguments,
            **_about(call, context),
        )
        for each in self._for(payload):
            answer = await each.tell(payload)
            if answer is not None and answer.output is not None:
                payload = msgspec.structs.replace(payload, output=answer.output)
                result = msgspec.structs.replace(result, output=answer.output)
        return result

    async def after_tool_call(
        self, call: ToolCall, result: ToolResult, seconds: float, context: ToolContext
    ) -> None:
        """Tell that a call is over."""
        details = result.details
        await self.tell(
            AfterToolCall(
                output=text_of(result.output),
                success=result.success,
                seconds=seconds,
                arguments=call.arguments,
                status=result.status,
                error=details.error if details else "",
                denied_reason=details.denied_reason if details else "",
                **_about(call, context),
            )
        )


def _about(call: ToolCall, context: ToolContext) -> dict[str, Any]:
    return {
        "thread": context.thread,
        "turn": context.turn,
        "step": context.step,
        "cwd": str(context.cwd),
        "call_id": call.call_id,
        "tool": tool_id(call),
    }
