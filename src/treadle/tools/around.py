"""Around a call: the hooks before it, the call, the hooks on its result, the hooks after it.

Owns their order and that each is passed once. Invariant: a hook that hangs or fails before
a call keeps it from running; whatever fails later costs neither the result nor the evidence.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

import msgspec
from msgspec import Struct

from ..core.errors import HookFailed
from ..core.items import InputText
from ..core.redact import redact, redact_known
from .contract import Details, Tool, ToolCall, ToolContext, ToolResult
from .hooks import NO_HOOKS, Block, Merge, ToolHooks, is_hooked, merged

__all__ = ["BEFORE_TOOL_CALL", "Around"]

BEFORE_TOOL_CALL = "before-tool-call"
"""Who denied a call that a hook did not want, or that a hook failed to judge."""

_log = logging.getLogger(__name__)
T = TypeVar("T")


class Around(Struct):
    """One call and what stands around it."""

    tool: Tool
    call: ToolCall
    """As it runs: with the parameters that hooks have put over its own."""
    context: ToolContext
    hooks: ToolHooks
    clock: Callable[[], float] = time.monotonic
    began: float = 0.0
    _returned: ToolResult | None = None

    def __post_init__(self) -> None:
        if is_hooked(self.tool):
            self.hooks = NO_HOOKS

    async def run(self) -> ToolResult:
        """The result to record."""
        result = await self._refused() or await self._executed()
        await _spared(
            self.hooks.after_tool_call(self.call, result, self.clock() - self.began, self.context),
            f"a hook after {self.call.name} failed",
        )
        return result

    def with_evidence(self, result: ToolResult) -> ToolResult:
        """`result` with what the tool itself says it has sent and made, if it came to that."""
        said = self._returned
        if said is None:
            return result
        return msgspec.structs.replace(
            result, sent=said.sent, media=said.media, details=result.details or said.details
        )

    async def _refused(self) -> ToolResult | None:
        """Why the call does not run, if a hook does not want it to."""
        try:
            match await self.hooks.before_tool_call(self.call, self.context):
                case Block(reason):
                    return _blocked(reason, reason)
                case Merge(parameters):
                    self.call = merged(self.call, parameters)
        except Exception as error:  # noqa: BLE001 - whoever cannot judge a call forbids it
            _log.exception("%s was not run: a hook failed", self.call.name)
            reason = f"a hook failed: {_said(error)}"
            return _blocked(f"{self.call.name} was not run: {reason}", reason)
        return None

    async def _executed(self) -> ToolResult:
        returned = self._returned = await self._answered()
        # Before a hook sees the result; a tool with hooks of its own has told already.
        if self.context.witness is not None and not is_hooked(self.tool):
            self.context.witness(self.call, returned)
        changed = await _spared(
            self.hooks.tool_result(self.call, returned, self.context),
            f"a hook on the result of {self.call.name} failed",
        )
        return self.with_evidence(returned if changed is None else changed)

    async def _answered(self) -> ToolResult:
        try:
            return _blanked(await self.tool.run(self.call, self.context))
        except Exception as error:  # noqa: BLE001 - whatever fails, the call gets its result
            _log.exception("%s failed", self.call.name)
            words, said = f"{self.call.name} failed: {type(error).__name__}", redact(str(error))
            details = Details(status="error", error=said or type(error).__name__)
            output = f"{words}: {said}" if said else words
            return ToolResult(output, success=False, details=details)


def _blanked(result: ToolResult) -> ToolResult:
    """`result` without secrets of ours; everything else of it is what the model asked for."""
    if isinstance(result.output, str):
        return msgspec.structs.replace(result, output=redact_known(result.output))
    parts = tuple(
        msgspec.structs.replace(part, text=redact_known(part.text))
        if isinstance(part, InputText)
        else part
        for part in result.output
    )
    return msgspec.structs.replace(result, output=parts)


def _blocked(output: str, reason: str) -> ToolResult:
    details = Details(status="blocked", error=reason, denied_reason=BEFORE_TOOL_CALL)
    return ToolResult(output, success=False, details=details)


def _said(error: Exception) -> str:
    if isinstance(error, HookFailed):
        return str(error)
    said = redact(str(error))
    return f"{type(error).__name__}: {said}" if said else type(error).__name__


async def _spared(work: Awaitable[T], what: str) -> T | None:
    """What `work` gives; nothing when it fails."""
    try:
        return await work
    except Exception:  # noqa: BLE001 - whatever fails, the call keeps its result
        _log.exception("%s", what)
        return None
