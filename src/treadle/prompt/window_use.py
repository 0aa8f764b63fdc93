"""The use of the window: how full the model's context window is.

Owns `<window_use>` and the steps in which it is told: quarters, then tenths near the end.
Invariant: within an epoch it only rises, so that it is told a few times at most.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from msgspec import Struct

from .fragment import Fragment, FragmentRole, Markers
from .prompt_context import PromptContext
from .state_fragment import Absent, Known, StateFragment, Unrecorded

__all__ = ["WindowUse", "WindowUseFragment", "WindowUseState", "window_level"]

_LEVELS = (25, 50, 75, 80, 90)
_NEARLY_FULL = 75


def window_level(occupied: int, window: int | None) -> int:
    """Return the highest step, in percent, that `occupied` tokens of a window have reached."""
    if not window:
        return 0
    return max((each for each in _LEVELS if occupied * 100 >= each * window), default=0)


class WindowUseFragment(Fragment, frozen=True):
    """How full the window is; 0 once there is room again."""

    id: ClassVar[str] = "window_use"
    role: ClassVar[FragmentRole] = "developer"
    markers: ClassVar[Markers | None] = Markers("<window_use>", "</window_use>")
    cap_tokens: ClassVar[int] = 100

    percent: int

    def body(self) -> str:
        """Return the share, and near the end what follows from it."""
        if not self.percent:
            return "\nThere is room in your context window again.\n"
        said = f"\nAbout {self.percent}% of your context window is used.\n"
        if self.percent < _NEARLY_FULL:
            return said
        return (
            f"{said}When it is full, a summary stands for the older part of the conversation. "
            "Keep results short, and write down what must not be lost.\n"
        )


class WindowUse(Struct, frozen=True):
    """The step that the use of the window has reached, in percent."""

    percent: int


class WindowUseState(StateFragment[WindowUse]):
    """Sends that the window has filled by another step."""

    id = WindowUseFragment.id
    snapshot_type = WindowUse
    fragments = (WindowUseFragment,)

    def snapshot(self, ctx: PromptContext) -> WindowUse | None:
        """Return the step; None below the first one, and where it is not told."""
        return WindowUse(ctx.window_used) if ctx.window_used else None

    def difference(
        self,
        _previous: Absent | Unrecorded | Known[WindowUse | None],
        current: WindowUse | None,
        /,
    ) -> Sequence[Fragment]:
        """Return the present step."""
        return (WindowUseFragment(current.percent if current else 0),)
