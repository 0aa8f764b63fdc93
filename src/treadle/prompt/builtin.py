"""The built-in fragments, in telling order.

Owns which fragments every registry starts with. Invariant: developer
instructions and permissions lead, and of the user-role states AGENTS.md comes
first and the environment second.
"""

from __future__ import annotations

from typing import Any

from .additional import AdditionalContextState
from .agents_md import AgentsMdState
from .collaboration import CollaborationState
from .completion import TaskCompletion
from .developer import DeveloperInstructionsState
from .environment import EnvironmentState
from .events import HookContext, Skill, TurnAborted, UserShellCommand
from .fragment import Fragment
from .guidance import GuidanceState
from .history import History
from .inter_session import InterSession, InterSessionEnd
from .legacy import LEGACY
from .model_switch import ModelState
from .overlay import OverlaySuffixState
from .permissions import PermissionsState
from .personality import PersonalityState
from .recall import Recall
from .registry import Recogniser
from .state import StateFragment
from .subagents import SubagentNotification, SubagentsState
from .task import TaskState
from .unanswered import Unanswered

__all__ = ["ANNOUNCEMENTS", "RECOGNISERS", "STATES"]

STATES: tuple[type[StateFragment[Any]], ...] = (
    DeveloperInstructionsState,
    PermissionsState,
    ModelState,
    PersonalityState,
    CollaborationState,
    GuidanceState,
    OverlaySuffixState,
    AgentsMdState,
    EnvironmentState,
    SubagentsState,
    AdditionalContextState,
    TaskState,
)
"""Lasting context, told by difference."""

ANNOUNCEMENTS: tuple[type[Fragment], ...] = (
    Skill,
    UserShellCommand,
    TurnAborted,
    Unanswered,
    SubagentNotification,
    InterSession,
    InterSessionEnd,
    TaskCompletion,
    HookContext,
    Recall,
    History,
)
"""Fragments that are said once, when something happens."""

RECOGNISERS: tuple[Recogniser, ...] = LEGACY
"""Texts of other systems and times: recognised, never written."""
