"""The hooks of a thread: which are called, in which order, and what their answers do.

Owns the registration, the time limit of each call, and the joining of answers: parameters are
merged in order, the first block wins, outputs pass from one hook to the next. Invariants: a
hook is called once for an event, however often it was registered; its caller gets an answer
or `HookFailed` in time. A hook that ignores its cancellation is left running.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Any

from msgspec import Struct, UnsetType
from msgspec.structs import replace

from ..core.aio import start_now
from ..core.errors import ConfigError, HookFailed
from ..core.items import text_of
from ..core.redact import redact, redact_known
from ..core.text import whole_characters
from ..core.wire import Json
from ..tools.call import Block, HookVerdict, Merge, merge_parameters
from ..tools.contract import ToolCall, ToolContext, ToolResult, tool_id
from .payloads import (
    LONGEST,
    RULES,
    AfterCompaction,
    AfterToolCall,
    BeforePromptBuild,
    BeforeToolCall,
    Hook,
    HookAnswer,
    OnThreadStart,
    Payload,
    Source,
    ToolResultReady,
)

__all__ = ["COMMON_NAMES", "Hooks", "call_hook", "matches"]

COMMON_NAMES: dict[str, str] = {
    "exec_command": "Bash",
    "shell": "Bash",
    "shell_command": "Bash",
    "local_shell": "Bash",
    "apply_patch": "Edit",
}
"""The names that hooks written for other agents use for our tools."""

_COMMON_ALIASES = {"Write": "Edit", "MultiEdit": "Edit"}
"""Several tools elsewhere, one here."""
_NAMESPACED = frozenset(".*?[")
"""What a pattern contains that matches names with a namespace."""
_CLEANUP_SECONDS = 5.0
"""How long a cancelled hook may clean up."""
_log = logging.getLogger("treadle.hooks")


class _Registered(Struct, frozen=True):
    hook: Hook
    tools: tuple[str, ...]
    priority: int
    seconds: float

    async def call(self, payload: Payload) -> HookAnswer | None:
        return await call_hook(self.hook, payload, self.seconds)

    async def notify(self, payload: Payload) -> HookAnswer | None:
        try:
            return await self.call(payload)
        except HookFailed as error:
            _log.warning("%s; it is left out", error, exc_info=error.__cause__)
            return None


class Hooks:
    """The hooks of one or more threads, by event."""

    def __init__(self) -> None:
        self._hooks: dict[type[Payload], list[_Registered]] = {}
        self._pending_starts: dict[str, Source | None] = {}
        """By thread: how it starts with its next input; None when it has started."""

    def on(
        self,
        event: type[Payload],
        hook: Hook,
        *,
        tools: tuple[str, ...] = (),
        priority: int = 0,
        timeout: float | None = None,
    ) -> None:
        """Register `hook` for each `event`; with `tools`, only for calls of those.

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
        """Return the names of the events that have hooks."""
        used = (event for event, registered in self._hooks.items() if registered)
        return tuple(sorted(str(event.__struct_config__.tag) for event in used))

    def has(self, event: type[Payload]) -> bool:
        """Return whether a hook wants this event."""
        return bool(self._hooks.get(event))

    def watches(self, event: type[Payload], tool: str) -> bool:
        """Return whether a hook wants this event of a tool."""
        return any(matches(tool, each.tools) for each in self._hooks.get(event, ()))

    def watches_namespaces(self, event: type[Payload]) -> bool:
        """Return whether a hook may want this event of a tool in some namespace."""
        registered = self._hooks.get(event, ())
        patterns = [pattern for each in registered for pattern in each.tools or ("*",)]
        return any(not _NAMESPACED.isdisjoint(pattern) for pattern in patterns)

    async def ask(self, payload: Payload) -> list[HookAnswer]:
        """Call all hooks for this event, in order, up to one that blocks; return their answers.

        Raises `HookFailed`.
        """
        answers = []
        for each in self._hooks_for(payload):
            answer = await each.call(payload)
            if answer is not None:
                answers.append(answer)
                if answer.block is not None:
                    break
        return answers

    async def notify(self, payload: Payload) -> list[HookAnswer]:
        """Call all hooks for this event and return their answers; log those that hang or fail."""
        if isinstance(payload, AfterCompaction):
            self._pending_starts[payload.thread] = "compact"
        hooks = self._hooks_for(payload)
        if not hooks:
            return []
        if len(hooks) > 1 and RULES[type(payload)].together:
            answers = await asyncio.gather(*(each.notify(payload) for each in hooks))
        else:
            answers = [await each.notify(payload) for each in hooks]
        return [answer for answer in answers if answer is not None]

    async def before_prompt(self, payload: BeforePromptBuild) -> list[HookAnswer]:
        """Call the hooks for an input, after those for the start of its thread."""
        source = self._pending_starts.get(
            payload.thread, "resume" if payload.resumed else "startup"
        )
        self._pending_starts[payload.thread] = None
        if source is None:
            return await self.notify(payload)
        start = OnThreadStart(
            thread=payload.thread, cwd=payload.cwd, model=payload.model, source=source
        )
        answers = [*await self.notify(start), *await self.notify(payload)]
        if any(answer.block is not None for answer in answers):
            # The answers about the start go with the input, and that is not admitted.
            self._pending_starts[payload.thread] = source
        return answers

    async def before_tool_call(self, call: ToolCall, context: ToolContext) -> HookVerdict:
        """Ask whether a call runs, and with what; each hook reads the changes of those before."""
        if BeforeToolCall not in self._hooks:
            return None
        parameters: dict[str, Json] = {}
        payload = BeforeToolCall(arguments=call.arguments, **_call_fields(call, context))
        for each in self._hooks_for(payload):
            answer = await each.call(payload) or HookAnswer()
            if answer.block is not None:
                return Block(answer.block)
            if not isinstance(answer.parameters, UnsetType):
                parameters |= answer.parameters
                payload = replace(payload, arguments=merge_parameters(call, parameters).arguments)
        return Merge(parameters) if parameters else None

    async def tool_result(
        self, call: ToolCall, result: ToolResult, context: ToolContext
    ) -> ToolResult:
        """Return the result to record; each hook reads the output of the one before."""
        if ToolResultReady not in self._hooks:
            return result
        payload = ToolResultReady(
            output=text_of(result.output),
            success=result.success,
            arguments=call.arguments,
            **_call_fields(call, context),
        )
        for each in self._hooks_for(payload):
            answer = await each.notify(payload)
            if answer is not None and answer.output is not None:
                payload = replace(payload, output=answer.output)
                result = replace(result, output=answer.output)
        return result

    async def after_tool_call(
        self, call: ToolCall, result: ToolResult, seconds: float, context: ToolContext
    ) -> None:
        """Notify the hooks that a call is over."""
        if AfterToolCall not in self._hooks:
            return
        details = result.details
        await self.notify(
            AfterToolCall(
                output=text_of(result.output),
                success=result.success,
                seconds=seconds,
                arguments=call.arguments,
                status=result.status,
                error=details.error if details else "",
                denied_reason=details.denied_reason if details else "",
                **_call_fields(call, context),
            )
        )

    def _hooks_for(self, payload: Payload) -> list[_Registered]:
        tool = getattr(payload, "tool", "")
        found: list[_Registered] = []
        for each in self._hooks.get(type(payload), ()):
            wanted = not tool or matches(tool, each.tools)
            if wanted and all(each.hook != other.hook for other in found):
                found.append(each)
        return found


def matches(tool: str, patterns: Iterable[str]) -> bool:
    """Return whether a hook with these patterns is for calls of `tool`.

    Patterns are globs over canonical tool ids, with alternatives separated by ``|``, or the
    names that other agents use. No pattern at all matches every call.
    """
    wanted = [each.strip() for pattern in patterns for each in pattern.split("|")]
    return not wanted or any(
        fnmatchcase(tool, each) or COMMON_NAMES.get(tool) == _COMMON_ALIASES.get(each, each)
        for each in wanted
    )


async def call_hook(
    hook: Hook, payload: Payload, seconds: float, *, grace: float = _CLEANUP_SECONDS
) -> HookAnswer | None:
    """Call `hook` and wait for its answer, at most `seconds`. Raises `HookFailed`.

    A hook whose time is up is cancelled and has `grace` seconds to clean up.
    """
    task = start_now(_call(hook, payload), name=f"hook for {_tag(payload)}")
    try:
        if not task.done():
            await asyncio.wait((task,), timeout=seconds)
    except asyncio.CancelledError:
        await _cancel(task, grace)
        raise
    if not task.done():
        await _cancel(task, grace)
        raise HookFailed(f"a hook for {_tag(payload)!r} did not answer within {seconds:g} s")
    if task.cancelled():
        raise HookFailed(f"a hook for {_tag(payload)!r} gave up")
    return task.result()


async def _call(hook: Hook, payload: Payload) -> HookAnswer | None:
    try:
        answer: object = await hook(payload)
    except HookFailed:
        raise
    except Exception as error:
        what = redact(f"{type(error).__name__}: {error}")
        raise HookFailed(f"a hook for {_tag(payload)!r} failed: {what}") from error
    if answer is None:
        return None
    if not isinstance(answer, HookAnswer):
        raise HookFailed(
            f"a hook for {_tag(payload)!r} answered {type(answer).__name__!r}; "
            "return a HookAnswer or None"
        )
    try:
        return _recordable(answer)
    except TypeError as error:
        raise HookFailed(f"a hook for {_tag(payload)!r} answered {error}") from error


def _recordable(answer: HookAnswer) -> HookAnswer:
    """Return `answer` without secrets of ours and half characters: the model reads it.

    Raises `TypeError` for a field of another type, which its maker did not check.
    """
    if not isinstance(answer.parameters, dict | UnsetType):
        raise TypeError(f"parameters of type {type(answer.parameters).__name__!r}, not a dict")
    texts = {name: getattr(answer, name) for name in ("block", "output", "context")}
    for name, text in texts.items():
        if not isinstance(text, str | None):
            raise TypeError(f"{name!r} of type {type(text).__name__!r}, not a text")
    kept = {name: redact_known(whole_characters(text)) for name, text in texts.items() if text}
    return replace(answer, **kept)


async def _cancel(task: asyncio.Future[HookAnswer | None], grace: float) -> None:
    task.cancel()
    await asyncio.wait((task,), timeout=grace)
    if task.done() and not task.cancelled():
        # Nobody waits for it any more; unread, asyncio would report it as lost.
        task.exception()


def _tag(payload: Payload) -> str:
    return str(payload.__struct_config__.tag)


def _call_fields(call: ToolCall, context: ToolContext) -> dict[str, Any]:
    return {
        "thread": context.thread,
        "turn": context.turn,
        "step": context.step,
        "cwd": str(context.cwd),
        "call_id": call.call_id,
        "tool": tool_id(call),
    }
