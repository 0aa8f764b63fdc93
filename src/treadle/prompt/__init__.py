"""The prompt: all text that the runtime itself sends to the model.

Owns the fragments, how their change is sent, and how a person's input becomes a
message. Nothing outside this package builds a developer or user message.
"""

from .context_changes import ContextMessage, ContextUpdate, context_update, take_snapshots
from .fragment import Fragment, FragmentRole, Markers, Vocabulary
from .input import Image, LocalFile, LocalImage, UserPart, user_message
from .machine import DocsRules, discover, observe_machine
from .prompt_context import (
    AgentsDocs,
    CollaborationMode,
    ContextValue,
    PlanStep,
    PromptContext,
    Subagent,
    Task,
)
from .registry import Registry, default_registry
from .state_fragment import Absent, Baseline, Known, StateFragment, Unrecorded

__all__ = [
    "Absent",
    "AgentsDocs",
    "Baseline",
    "CollaborationMode",
    "ContextMessage",
    "ContextUpdate",
    "ContextValue",
    "DocsRules",
    "Fragment",
    "FragmentRole",
    "Image",
    "Known",
    "LocalFile",
    "LocalImage",
    "Markers",
    "PlanStep",
    "PromptContext",
    "Registry",
    "StateFragment",
    "Subagent",
    "Task",
    "Unrecorded",
    "UserPart",
    "Vocabulary",
    "context_update",
    "default_registry",
    "discover",
    "observe_machine",
    "take_snapshots",
    "user_message",
]
