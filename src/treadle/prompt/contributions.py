"""Contributions: what an overlay may add to the prompt of some models.

Owns the seam for overlays and how packages offer them. Invariant: an overlay knows who
answers and what is set, and nothing of the harness that runs the turn, so that a model
is told the same on all of them.
"""

from __future__ import annotations

from typing import Literal, Protocol, TypeAlias

from msgspec import Struct, field

from ..core.errors import FragmentError
from ..core.plugins import PluginGroup
from .observation import PromptContext

__all__ = ["Audience", "Contribution", "Overlay", "Section", "installed_overlays"]

_OVERLAYS = PluginGroup("treadle.overlays", "overlay")
"""Packages offer what makes an overlay when it is called."""

Section: TypeAlias = Literal["interaction_style", "tool_call_style", "execution_bias"]


class Audience(Struct, frozen=True, kw_only=True):
    """Who is told: a model, by the provider it is asked through."""

    provider: str
    model: str


class Contribution(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What an overlay adds. A blank text adds nothing."""

    stable_prefix: str = ""
    """Opens the first developer text; should be the same for the life of a thread."""
    dynamic_suffix: str = ""
    """May change from turn to turn; its changes are told when they happen."""
    section_overrides: dict[Section, str] = field(default_factory=dict)
    """What holds in place of a part of the instructions."""


class Overlay(Protocol):
    """Adds to the prompt of the models it is for.

    `contribute` is pure: the same audience and settings give the same contribution.
    """

    @property
    def id(self) -> str:
        """What it is called."""
        ...

    def contribute(self, audience: Audience, settings: PromptContext) -> Contribution | None:
        """What it adds for `audience`; None for models that it is not for."""
        ...


def installed_overlays() -> tuple[Overlay, ...]:
    """Make the overlays that installed packages offer, in the order of names.

    Raises `FragmentError` for a package that cannot be used.
    """
    found: list[Overlay] = []
    _OVERLAYS.use_all(lambda make: found.append(make()), FragmentError)
    return tuple(found)
