"""Treadle: a runtime for coding agents in which what the model sees is engineered.

Start with `Thread`. Importing the package does no I/O and loads nothing heavy; each name
below is loaded from its own module at first use. What stands here is the public surface:
threads and their options, every event, decorators, the Protocols of plug-ins, errors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .core.lazy import lazy_attributes

if TYPE_CHECKING:
    from .config.settings import Price
    from .context.head import Choices
    from .context.layout import layout
    from .context.preview import NextRequest
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
    from .core.money import Bill, Cost
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
        LimitReached,
        ModelReported,
        NoticeRaised,
        PlanUpdated,
        QuestionsAsked,
        RateLimitsReported,
        ReasoningDelta,
        Retrying,
        StepStarted,
        TextDelta,
        ToolFinished,
        ToolInput,
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
    from .skills.rules import SkillRules
    from .store.contract import Store
    from .store.memory import MemoryStore
    from .store.sqlite import SqliteStore
    from .subagents import AgentLimits
    from .thread.options import (
        EngineOptions,
        HarnessOptions,
        Limits,
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
    "Bill",
    "CannotCompact",
    "Channel",
    "Choices",
    "CompactionFinished",
    "CompactionStarted",
    "ConfigError",
    "ContextEngine",
    "Cost",
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
    "LimitReached",
    "Limits",
    "MemoryStore",
    "Model",
    "ModelError",
    "ModelReported",
    "NextRequest",
    "No",
    "NoAndStop",
    "NotFound",
    "NothingToSend",
    "NoticeRaised",
    "Once",
    "PlanUpdated",
    "Price",
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
    "SkillRules",
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
    "ToolInput",
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
        "context.preview": "NextRequest",
        "context.request": "Request",
        "context.view": "View",
        "core.entries": "Entry Reason",
        "core.errors": (
            "CannotCompact ConfigError EngineFailed NotFound NothingToSend "
            "StoreError ThreadBusy TreadleError"
        ),
        "config.settings": "Price",
        "core.money": "Bill Cost",
        "core.provenance": "InputProvenance InternalEvent",
        "delivery.channel": "Channel",
        "engines.contract": "ContextEngine",
        "harness.contract": "Harness",
        "harness.events": (
            "AgentReported ApprovalRequested ApprovalWithdrawn AttemptFailed "
            "CompactionFinished CompactionStarted Event EvidenceFound "
            "HarnessReported ItemCompleted LimitReached ModelReported NoticeRaised PlanUpdated "
            "QuestionsAsked RateLimitsReported ReasoningDelta Retrying StepStarted TextDelta "
            "ToolFinished ToolInput ToolProgress ToolStarted TurnCompleted TurnStarted "
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
        "skills.rules": "SkillRules",
        "subagents": "AgentLimits",
        "thread.options": (
            "EngineOptions HarnessOptions Limits PromptOptions Rights Routing ThreadOptions "
            "ToolOptions"
        ),
        "thread.thread": "Thread",
        "tools.contract": "Tool ToolResult",
        "tools.decorator": "tool",
        "tools.executor": "ToolExecutor",
    },
)


def __dir__() -> list[str]:
    return sorted(__all__)
