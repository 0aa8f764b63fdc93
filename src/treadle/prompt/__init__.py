"""Prompt: every word the runtime itself says to the model.

Owns the fragments, how their change is told, and how a person's input becomes a
message. Nothing outside this package builds a developer or user message by hand.
"""

from .discovery import DocsRules, discover
from .fragment import Fragment, FragmentRole, Markers, Vocabulary
from .input import Image, LocalImage, UserPart, user_message
from .machine import observe_machine
from .observation import (
    AgentsDocs,
    CollaborationMode,
    ContextValue,
    PlanStep,
    PromptContext,
    Subagent,
    Task,
)
from .registry import Registry, default_registry
from .state import Absent, Baseline, Known, StateFragment, Unrecorded
from .tell import ContextMessage, ContextUpdate, context_update, take_snapshots

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
