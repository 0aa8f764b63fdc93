"""The built-in fragments, in telling order.

Owns which fragments every registry starts with. Invariant: developer
instructions and permissions lead, and of the user-role states AGENTS.md comes
first and the environment second.
"""

from __future__ import annotations

from typing import Any

from .agents_md import AgentsMdState
from .developer import DeveloperInstructionsState
from .environment import EnvironmentState
from .fragment import Fragment
from .permissions import PermissionsState
from .registry import Reader
from .state import StateFragment

__all__ = ["READERS", "STATES", "UTTERANCES"]

STATES: tuple[type[StateFragment[Any]], ...] = (
    DeveloperInstructionsState,
    PermissionsState,
    AgentsMdState,
    EnvironmentState,
)
"""Lasting context, told by difference."""

UTTERANCES: tuple[type[Fragment], ...] = ()
"""Fragments that are said once, when something happens."""

READERS: tuple[Reader, ...] = ()
"""Texts of other systems and times: recognised, never written."""
