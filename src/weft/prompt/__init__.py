"""Prompt: every word the runtime itself says to the model.

Owns the fragments, how their change is told, and how a person's input becomes a
message. Nothing outside this package builds a developer or user message by hand.
"""

from .fragment import Fragment, Markers, Vocabulary
from .observation import AgentsDocs, CollaborationMode, ContextValue, PromptContext, Subagent, Task
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
    "Fragment",
    "Known",
    "Markers",
    "PromptContext",
    "Registry",
    "StateFragment",
    "Subagent",
    "Task",
    "Telling",
    "Unknown",
    "Vocabulary",
    "default_registry",
    "observe",
    "tell",
]
