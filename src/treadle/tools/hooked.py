"""Hooked tools: tools that pass their calls by hooks wherever they are run.

For hosts that run a tool themselves, outside a turn. Invariant: a call meets each hook
once, however often its tool is wrapped and whoever runs it.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from ..core.specs import ToolSpec
from .around import Around
from .contract import Tool, ToolCall, ToolContext, ToolResult, aborted_words, is_replay_safe
from .hooks import ToolHooks, is_hooked

__all__ = ["HookedTool", "with_hooks"]


def with_hooks(tool: Tool, hooks: ToolHooks) -> Tool:
    """`tool` behind `hooks`; one that has its own stays as it is."""
    return tool if is_hooked(tool) else HookedTool(tool, hooks)


@dataclass(frozen=True, slots=True)
class HookedTool:
    """A tool and the hooks around it."""

    tool: Tool
    hooks: ToolHooks

    @property
    def hooked(self) -> bool:
        """Yes: `Dispatch` leaves its own hooks away."""
        return True

    @property
    def spec(self) -> ToolSpec:
        """What the model is told."""
        return self.tool.spec

    @property
    def parallel(self) -> bool:
        """As the tool itself."""
        return self.tool.parallel

    @property
    def replay_safe(self) -> bool:
        """As the tool itself."""
        return is_replay_safe(self.tool)

    async def run(self, call: ToolCall, context: ToolContext) -> ToolResult:
        """Do what was asked, as far as the hooks agree."""
        around = Around(self.tool, call, context, self.hooks, began=time.monotonic())
        return await around.run()

    def aborted(self, call: ToolCall, seconds: float) -> str:
        """As the tool itself says it."""
        return aborted_words(self.tool, call, seconds)
