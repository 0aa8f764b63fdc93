"""Texts of other systems and earlier times: recognised when read, never written.

Owns the tags and openings by which an imported message is known to be context
and not a person's words. Invariant: nothing here can render.
"""

from __future__ import annotations

import re
from functools import cached_property
from typing import Literal

from .markers import Markers

__all__ = ["LEGACY", "LegacyOpening", "LegacyTag"]


class LegacyTag:
    """A text inside one tag, with or without attributes."""

    def __init__(
        self, tag: str, role: Literal["developer", "user"], *, state_id: str | None = None
    ) -> None:
        self.id, self.role, self.state_id = tag, role, state_id
        self.opening = "<"

    @cached_property
    def _shape(self) -> re.Pattern[str]:
        return re.compile(
            rf"\s*<{self.id}(?:\s[^<>]*)?>.*</{self.id}>\s*", re.IGNORECASE | re.DOTALL
        )

    def matches(self, text: str) -> bool:
        """Whether `text` stands inside the tag."""
        return self._shape.fullmatch(text) is not None

    def reserved_markers(self) -> Markers:
        """The tag, which our data may not imitate either."""
        return Markers(f"<{self.id}>", f"</{self.id}>")


class LegacyOpening:
    """A text known by how it opens."""

    state_id: str | None = None

    def __init__(self, name: str, opening: str, ending: str = "") -> None:
        self.id, self.role = name, "user"
        self._opening, self._ending = opening.lower(), ending.lower()
        self.opening = self._opening[0]

    def matches(self, text: str) -> bool:
        """Whether `text` opens, and ends where that matters, the known way."""
        said = text.strip()
        opens = said[: len(self._opening)].lower().startswith(self._opening)
        return opens and said.lower().endswith(self._ending)

    def reserved_markers(self) -> None:
        """Nothing: our user-role texts all open with a marker of their own."""


LEGACY: tuple[LegacyTag | LegacyOpening, ...] = (
    LegacyTag("js_repl_instructions", "user"),
    LegacyTag("child_agents_instructions", "user"),
    LegacyTag("user_instructions", "user", state_id="agents_md"),
    LegacyTag("goal_context", "user", state_id="task_state"),
    LegacyTag("codex_internal_context", "user"),
    LegacyTag("recommended_plugins", "user"),
    LegacyTag("realtime_delegation", "user"),
    LegacyTag("hook_prompt", "user"),
    LegacyTag("managed_developer_instructions", "developer"),
    LegacyTag("apps_instructions", "developer"),
    LegacyTag("multi_agent_role", "developer"),
    LegacyTag("multi_agent_mode", "developer"),
    LegacyTag("environments_instructions", "developer"),
    LegacyTag("git_attribution", "developer"),
    LegacyTag("plugins_instructions", "developer"),
    LegacyTag("realtime_conversation", "developer"),
    LegacyTag("skills_instructions", "developer"),
    LegacyTag("token_budget", "developer"),
    LegacyTag("context_window", "developer"),
    LegacyTag("context_window_guidance", "developer"),
    LegacyTag("rollout_budget", "developer"),
    LegacyTag("current_time_reminder", "developer"),
    LegacyTag("image_resize_notice", "developer"),
    LegacyOpening("exec_limit_warning", "Warning: The maximum number of unified exec processes"),
    LegacyOpening(
        "apply_patch_warning",
        "Warning: apply_patch was requested via ",
        "Use the apply_patch tool instead of exec_command.",
    ),
    LegacyOpening("account_warning", "Warning: Your account was flagged"),
)
"""Every reader; `state_id` names the state of ours that such a text stands for."""
