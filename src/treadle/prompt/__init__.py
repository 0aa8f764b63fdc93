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
from .state import Absent, Baseline, Known, StateFragment, Unknown
from .tell import ContextMessage, Telling, observe, tell

__all__ = [
    "Absent",
    "AgentsDocs",
    "Baseline",
    "CollaborationMode",
    "ContextMessage",
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
    "Telling",
    "Unknown",
    "UserPart",
    "Vocabulary",
    "default_registry",
    "discover",
    "observe",
    "observe_machine",
    "tell",
    "user_message",
]
