"""The suffix of overlays: what providers' overlays say that may change from turn to turn.

Owns `<provider_notes>`. Invariant: a changed text is appended and says that it replaces
the earlier one; what was sent before stays where it was sent.
"""

from __future__ import annotations

from typing import ClassVar

from .fragment import FragmentRole, Markers
from .observation import PromptContext
from .text import TextFragment, TextState

__all__ = ["OverlaySuffix", "OverlaySuffixState"]


class OverlaySuffix(TextFragment, frozen=True):
    """What holds for the models of one provider, for now."""

    id: ClassVar[str] = "overlay_suffix"
    role: ClassVar[FragmentRole] = "developer"
    markers: ClassVar[Markers | None] = Markers("<provider_notes>", "</provider_notes>")
    cap_tokens: ClassVar[int] = 4_000
    replaced: ClassVar[str] = "These notes replace the earlier ones:"
    removed: ClassVar[str] = "The earlier notes no longer apply."


class OverlaySuffixState(TextState):
    """Tells the suffix."""

    id = OverlaySuffix.id
    fragment = OverlaySuffix
    fragments = (OverlaySuffix,)

    def text(self, ctx: PromptContext) -> str | None:
        """The suffix in `ctx`."""
        return ctx.overlay_suffix
