"""Texts of other systems and earlier versions: recognised when read, never written.

Owns the `Recogniser` contract, and the tags and openings by which an imported message is
known to be context and not a person's words. Invariant: nothing here can render.
"""

from __future__ import annotations

import re
from functools import cached_property
from typing import Literal, Protocol

from .markers import Markers

__all__ = ["LEGACY", "LegacyOpening", "LegacyTag", "Recogniser"]


class Recogniser(Protocol):
    """Recognises texts that others wrote and we never do.

    It may also have an `opening`: the character, in lower case, that all of them begin with.
    """

    @property
    def id(self) -> str:
        """The name of such a text."""
        ...

    @property
    def role(self) -> str:
        """The role that it comes with."""
        ...

    @property
    def state_id(self) -> str | None:
        """The state of ours that it stands for."""
        ...

    def matches(self, text: str) -> bool:
        """Return whether `text` is one of them."""
        ...

    def reserved_markers(self) -> Markers | None:
        """Return markers that our data may not imitate either."""
        ...


class LegacyTag:
    """A text inside one tag, with or without attributes."""

    def __init__(
        self, tag: str, role: Literal["developer", "user"], *, state_id: str | None = None
    ) -> None:
        self.id, self.role, self.state_id = tag, role, state_id
        self.opening = "<"

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        return re.compile(rf"(?is)\s*<{self.id}(?:\s[^<>]*)?>.*</{self.id}>\s*")

    def matches(self, text: str) -> bool:
        """Return whether `text` stands inside the tag."""
        return self._pattern.fullmatch(text) is not None

    def reserved_markers(self) -> Markers:
        """Return the tag."""
        return Markers(f"<{self.id}>", f"</{self.id}>")


class LegacyOpening:
    """A text known by its first words."""

    state_id: str | None = None

    def __init__(self, name: str, opening: str, ending: str = "") -> None:
        self.id, self.role = name, "user"
        self._opening, self._ending = opening.lower(), ending.lower()
        self.opening = self._opening[0]

    def matches(self, text: str) -> bool:
        """Return whether `text` begins, and ends where that matters, the known way."""
        stripped = text.strip()
        opens = stripped[: len(self._opening)].lower().startswith(self._opening)
        return opens and stripped.lower().endswith(self._ending)

    def reserved_markers(self) -> None:
        """Return nothing: our user-role texts all begin with a marker of their own."""


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
"""Every recogniser; `state_id` names the state of ours that such a text stands for."""
