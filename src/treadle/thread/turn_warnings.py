"""What the user is warned of before a turn is attempted.

Owns which wishes do not hold and what a model cannot read. Invariant: a wish that does not
hold is told once for each harness.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from ..context.outbound import has_unreadable_compaction
from ..core.entries import Reason

if TYPE_CHECKING:
    from ..context.view import View
    from ..policy.turn_plan import TurnPlan
    from ..store.contract import Turn

__all__ = ["TurnWarnings"]


class TurnWarnings:
    """The warnings of one thread; `warn` shows the user a line."""

    def __init__(self, warn: Callable[[str], None]) -> None:
        self._warn = warn
        self._told: set[tuple[str, str]] = set()
        """The harnesses and wishes, and the problems, that the user knows of."""

    def tell_unheld(self, plan: TurnPlan) -> None:
        """Tell which wishes of settings do not hold on the harness of `plan`."""
        for name in plan.unheld:
            if (plan.harness.id, name) not in self._told:
                self._told.add((plan.harness.id, name))
                self._warn(
                    f"the harness {plan.harness.id!r} cannot be told {name!r}; "
                    "this setting does not hold for its turns"
                )

    def tell_problems(self, problems: Iterable[str]) -> None:
        """Tell what is wrong with files, each line once."""
        for line in problems:
            if ("", line) not in self._told:
                self._told.add(("", line))
                self._warn(line)

    def tell_unreadable(self, view: View, model: str, turn: Turn) -> None:
        """Tell when another model, from `turn` on, cannot read what a provider has compacted."""
        if view.head is None or view.reason is not Reason.MODEL or view.epoch < turn.first:
            return
        if has_unreadable_compaction(view.rows, view.head):
            self._warn(
                "the earlier conversation was compacted by another provider or model; "
                f"{model!r} cannot read that and sees only what was said to it"
            )
