"""Short options: what hosts give to `Thread.open` in place of a group of options.

Owns what a tool list, a name or an object of the host's stands for. Invariant: a group of
options is passed on as it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ..subagents import AgentLimits
from .options import AgentOptions, EngineOptions, HarnessOptions, ToolOptions

if TYPE_CHECKING:
    from ..core.specs import ToolSpec
    from ..delivery.channel import Channel
    from ..engines.contract import ContextEngine
    from ..harness.contract import Harness
    from ..tools.contract import Tool

__all__ = ["agent_options", "engine_options", "harness_options", "named_channels", "tool_options"]


def tool_options(tools: Sequence[Tool | ToolSpec] | ToolOptions | None) -> ToolOptions:
    """Return the options that a list of tools stands for."""
    return tools if isinstance(tools, ToolOptions) else ToolOptions(tools=tools)


def engine_options(engine: str | ContextEngine | EngineOptions) -> EngineOptions:
    """Return the options that an engine, or its name, stands for."""
    return engine if isinstance(engine, EngineOptions) else EngineOptions(engine=engine)


def harness_options(harness: str | Harness | HarnessOptions) -> HarnessOptions:
    """Return the options that a harness, or its name, stands for."""
    return harness if isinstance(harness, HarnessOptions) else HarnessOptions(harness=harness)


def agent_options(agents: AgentLimits | AgentOptions | None) -> AgentOptions | None:
    """Return the options that limits of agents stand for."""
    return AgentOptions(limits=agents) if isinstance(agents, AgentLimits) else agents


def named_channels(channel: Channel | Mapping[str, Channel] | None) -> Mapping[str, Channel]:
    """Return channels by the names that replies call them."""
    if channel is None or isinstance(channel, Mapping):
        return channel or {}
    from ..delivery.reply_sender import HOST

    return {HOST: channel}
