"""What Codex says itself: its own context, by our names for it and by its marks.

Owns which of our fragments stay unsaid on Codex, and which messages of a Codex thread are
no conversation. Invariant: a message is dropped only when every part of it carries a
mark; whatever else Codex adds is kept.
"""

from __future__ import annotations

import msgspec
from msgspec import Raw

from ...context.row import shape_of
from ...core.items import InputText, Message
from ...prompt.agents_md import AgentsMdState
from ...prompt.collaboration import CollaborationState
from ...prompt.developer import DeveloperInstructionsState
from ...prompt.environment import EnvironmentState
from ...prompt.events import TurnAborted
from ...prompt.guidance import GuidanceState
from ...prompt.model_switch import ModelState
from ...prompt.permissions import PermissionsState
from ...prompt.registry import Registry
from .binding import fingerprint

__all__ = ["CODEX_STATES", "INSTRUCTION_STATES", "is_codex_context", "is_model_output"]

CODEX_STATES: frozenset[str] = frozenset(
    state.id
    for state in (
        AgentsMdState,
        CollaborationState,
        EnvironmentState,
        ModelState,
        PermissionsState,
    )
)
"""States that Codex tells its model, in its own words."""

INSTRUCTION_STATES: tuple[str, ...] = (DeveloperInstructionsState.id, GuidanceState.id)
"""States that a Codex thread is started with, as developer instructions."""

_OWN = frozenset({*CODEX_STATES, TurnAborted.id})
_TAGS = (
    "<apps_instructions>",
    "<collaboration_mode>",
    "<context_window",
    "<environment_context>",
    "<goal",
    "<model_instructions>",
    "<model_switch>",
    "<multi_agent",
    "<permissions instructions>",
    "<personality_spec>",
    "<plugins_instructions>",
    "<skills_instructions>",
    "<token_budget",
    "<turn_aborted>",
    "<user_instructions>",
    "# agents.md instructions",
)
"""How such texts begin, in lower case."""

_BASE = "model.base_instructions"
"""The kind of the message with a model's own instructions, which nothing else marks."""


def is_model_output(raw: Raw) -> bool:
    """Whether a model made an item: the sign that a request was answered."""
    shape = shape_of(raw)
    if shape.type == "message":
        return shape.role == "assistant"
    return not shape.type.endswith("_output")


def is_codex_context(message: Message, registry: Registry, instructions: str = "") -> bool:
    """Whether Codex wrote `message` to tell its model about the surroundings.

    `instructions`: the fingerprint of what the thread was started with, which is among it.
    """
    if message.role not in ("developer", "user") or not message.content:
        return False
    if _kinds(message) == [_BASE]:
        return True
    return all(
        isinstance(part, InputText)
        and (
            _is_own(part.text, message.role, registry)
            or fingerprint(part.text) == (instructions or None)
        )
        for part in message.content
    )


def _kinds(message: Message) -> object:
    """What Codex notes of the parts of a message."""
    noted = msgspec.json.decode(message.metadata) if isinstance(message.metadata, Raw) else None
    return noted.get("content_item_kinds") if isinstance(noted, dict) else None


def _is_own(text: str, role: str, registry: Registry) -> bool:
    if text.lstrip()[:40].lower().startswith(_TAGS):
        return True
    found = registry.recognise(role, text)
    return found is not None and (registry.state_of(found) or found) in _OWN
