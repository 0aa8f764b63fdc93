"""Contributions: what an overlay may add to the prompt of some models.

Owns the contract for overlays and how packages offer them. Invariant: an overlay knows the
model and the settings, and nothing of the harness that runs the turn, so that a model
reads the same on all of them.
"""

from __future__ import annotations

from typing import Literal, Protocol, TypeAlias

from msgspec import Struct, field

from ..core.errors import FragmentError
from ..core.plugins import PluginGroup
from .prompt_context import PromptContext

__all__ = ["Audience", "Contribution", "Overlay", "Section", "installed_overlays"]

_OVERLAYS = PluginGroup("treadle.overlays", "overlay")
"""Packages offer callables that return an overlay."""

Section: TypeAlias = Literal["interaction_style", "tool_call_style", "execution_bias"]


class Audience(Struct, frozen=True, kw_only=True):
    """The model that reads the prompt, and its provider."""

    provider: str
    model: str


class Contribution(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What an overlay adds. A blank text adds nothing."""

    stable_prefix: str = ""
    """Starts the first developer text; should be the same for the life of a thread."""
    dynamic_suffix: str = ""
    """May change from turn to turn; a change is sent when it happens."""
    section_overrides: dict[Section, str] = field(default_factory=dict)
    """Texts that replace parts of the instructions."""


class Overlay(Protocol):
    """Adds to the prompt of some models.

    `contribute` is pure: the same audience and settings give the same contribution.
    """

    @property
    def id(self) -> str:
        """Its name."""
        ...

    def contribute(self, audience: Audience, settings: PromptContext) -> Contribution | None:
        """Return what it adds for `audience`; None for other models."""
        ...


def installed_overlays() -> tuple[Overlay, ...]:
    """Make the overlays that installed packages offer, in the order of their names.

    Raises `FragmentError` for a package that cannot be used.
    """
    found: list[Overlay] = []
    _OVERLAYS.use_all(lambda make: found.append(make()), FragmentError)
    return tuple(found)
