"""Task state: the goal, the plan and the files touched, so that no summary can lose them.

Owns `<task_state>`. Invariant: it is told only when an epoch starts from a new
base; until then the conversation itself says it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from .fragment import Fragment, FragmentRole, Markers
from .observation import PromptContext, Task
from .state import Absent, Known, StateFragment, Unrecorded

__all__ = ["TaskFragment", "TaskState"]

_BOXES = {"pending": "[ ]", "in_progress": "[>]", "completed": "[x]"}


class TaskFragment(Fragment, frozen=True):
    """What the thread is working on; None once there is nothing left of it."""

    id: ClassVar[str] = "task_state"
    role: ClassVar[FragmentRole] = "user"
    markers: ClassVar[Markers | None] = Markers("<task_state>", "</task_state>")
    cap_tokens: ClassVar[int] = 2_000

    task: Task | None

    def body(self) -> str:
        """A paragraph each for the goal, the plan and the files."""
        if self.task is None:
            return "\nThe task described earlier is no longer open.\n"
        paragraphs = [f"Goal: {self.task.goal}"] if self.task.goal else []
        if self.task.plan:
            steps = (f"- {_BOXES[step.status]} {step.text}" for step in self.task.plan)
            paragraphs.append("\n".join(("Plan:", *steps)))
        if self.task.files:
            files = (f"- {file}" for file in self.task.files)
            paragraphs.append("\n".join(("Files touched:", *files)))
        return "\n" + "\n\n".join(paragraphs) + "\n"


class TaskState(StateFragment[Task]):
    """Tells the task after the conversation that said it was folded away."""

    id = TaskFragment.id
    snapshot_type = Task
    fragments = (TaskFragment,)
    told: ClassVar[Literal["turn", "rebase"]] = "rebase"

    def snapshot(self, ctx: PromptContext) -> Task | None:
        """The task of `ctx`; one without a word counts as none."""
        return None if ctx.task in (None, Task()) else ctx.task

    def difference(
        self,
        _previous: Absent | Unrecorded | Known[Task | None],
        current: Task | None,
        /,
    ) -> Sequence[Fragment]:
        """The whole task."""
        return (TaskFragment(current),)
