"""Treadle: a runtime for coding agents in which what the model sees is engineered.

Start with `Thread`. Importing the package does no I/O and loads nothing heavy; each name
below is loaded from its own module at first use. What stands here is the public surface:
threads and their options, every event, decorators, the Protocols of plug-ins, errors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .core.lazy import lazy_attributes

if TYPE_CHECKING:
    from .context.head import Choices
    from .context.layout import layout
    from .context.request import Request
    from .context.view import View
    from .core.entries import Entry, Reason
    from .core.errors import (
        CannotCompact,
        ConfigError,
        EngineFailed,
        NotFound,
        NothingToSend,
        StoreError,
        ThreadBusy,
        TreadleError,
    )
    from .core.provenance import InputProvenance, InternalEvent
    from .delivery.channel import Channel
    from .engines.contract import ContextEngine
    from .harness.contract import Harness
    from .harness.events import (
        AgentReported,
        ApprovalRequested,
        ApprovalWithdrawn,
        AttemptFailed,
        CompactionFinished,
        CompactionStarted,
        Event,
        EvidenceFound,
        HarnessReported,
        ItemCompleted,
        NoticeRaised,
        PlanUpdated,
        QuestionsAsked,
        RateLimitsReported,
        ReasoningDelta,
        Retrying,
        StepStarted,
        TextDelta,
        ToolFinished,
        ToolProgress,
        ToolStarted,
        TurnCompleted,
        TurnStarted,
        UsageReported,
    )
    from .hooks.hooks import Hooks
    from .models.contract import Model, ModelError
    from .prompt.fragment import Fragment
    from .prompt.prompt_context import PromptContext
    from .prompt.registry import Registry
    from .prompt.state_fragment import StateFragment
    from .sandbox.approvals import ForPrefix, ForThread, No, NoAndStop, Once
    from .store.contract import Store
    from .store.memory import MemoryStore
    from .store.sqlite import SqliteStore
    from .subagents import AgentLimits
    from .thread.options import (
        EngineOptions,
        HarnessOptions,
        PromptOptions,
        Rights,
        Routing,
        ThreadOptions,
        ToolOptions,
    )
    from .thread.thread import Thread
    from .tools.contract import Tool, ToolResult
    from .tools.decorator import tool
    from .tools.executor import ToolExecutor

__version__ = "0.1.0"

__all__ = [
    "AgentLimits",
    "AgentReported",
    "ApprovalRequested",
    "ApprovalWithdrawn",
    "AttemptFailed",
    "CannotCompact",
    "Channel",
    "Choices",
    "CompactionFinished",
    "CompactionStarted",
    "ConfigError",
    "ContextEngine",
    "EngineFailed",
    "EngineOptions",
    "Entry",
    "Event",
    "EvidenceFound",
    "ForPrefix",
    "ForThread",
    "Fragment",
    "Harness",
    "HarnessOptions",
    "HarnessReported",
    "Hooks",
    "InputProvenance",
    "InternalEvent",
    "ItemCompleted",
    "MemoryStore",
    "Model",
    "ModelError",
    "No",
    "NoAndStop",
    "NotFound",
    "NothingToSend",
    "NoticeRaised",
    "Once",
    "PlanUpdated",
    "PromptContext",
    "PromptOptions",
    "QuestionsAsked",
    "RateLimitsReported",
    "Reason",
    "ReasoningDelta",
    "Registry",
    "Request",
    "Retrying",
    "Rights",
    "Routing",
    "SqliteStore",
    "StateFragment",
    "StepStarted",
    "Store",
    "StoreError",
    "TextDelta",
    "Thread",
    "ThreadBusy",
    "ThreadOptions",
    "Tool",
    "ToolExecutor",
    "ToolFinished",
    "ToolOptions",
    "ToolProgress",
    "ToolResult",
    "ToolStarted",
    "TreadleError",
    "TurnCompleted",
    "TurnStarted",
    "UsageReported",
    "View",
    "layout",
    "tool",
]

__getattr__ = lazy_attributes(
    __name__,
    {
        "context.head": "Choices",
        "context.layout": "layout",
        "context.request": "Request",
        "context.view": "View",
        "core.entries": "Entry Reason",
        "core.errors": (
            "CannotCompact ConfigError EngineFailed NotFound NothingToSend "
            "StoreError ThreadBusy TreadleError"
        ),
        "core.provenance": "InputProvenance InternalEvent",
        "delivery.channel": "Channel",
        "engines.contract": "ContextEngine",
        "harness.contract": "Harness",
        "harness.events": (
            "AgentReported ApprovalRequested ApprovalWithdrawn AttemptFailed "
            "CompactionFinished CompactionStarted Event EvidenceFound "
            "HarnessReported ItemCompleted NoticeRaised PlanUpdated QuestionsAsked "
            "RateLimitsReported ReasoningDelta Retrying StepStarted TextDelta "
            "ToolFinished ToolProgress ToolStarted TurnCompleted TurnStarted "
            "UsageReported"
        ),
        "hooks.hooks": "Hooks",
        "models.contract": "Model ModelError",
        "prompt.fragment": "Fragment",
        "prompt.prompt_context": "PromptContext",
        "prompt.registry": "Registry",
        "prompt.state_fragment": "StateFragment",
        "sandbox.approvals": "ForPrefix ForThread No NoAndStop Once",
        "store.contract": "Store",
        "store.memory": "MemoryStore",
        "store.sqlite": "SqliteStore",
        "subagents": "AgentLimits",
        "thread.options": (
            "EngineOptions HarnessOptions PromptOptions Rights Routing ThreadOptions ToolOptions"
        ),
        "thread.thread": "Thread",
        "tools.contract": "Tool ToolResult",
        "tools.decorator": "tool",
        "tools.executor": "ToolExecutor",
    },
)


def __dir__() -> list[str]:
    return sorted(__all__)
