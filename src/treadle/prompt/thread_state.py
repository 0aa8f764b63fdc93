"""The state of the thread: its model, its agents and its task.

Owns `<model_switch>`, `<subagents>` and `<task_state>`. Invariants: the first model of a
thread is marked without words; the list of agents is sent whole whenever it changes; the task
is sent only when an epoch starts from a new base, for until then the conversation holds it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from msgspec import Struct

from .fragment import Fragment, FragmentRole, Markers
from .prompt_context import PromptContext, Subagent, Task
from .state_fragment import Absent, Known, StateFragment, Unrecorded

__all__ = [
    "ModelSnapshot",
    "ModelState",
    "ModelSwitch",
    "SubagentsFragment",
    "SubagentsState",
    "TaskFragment",
    "TaskState",
]

_HANDOVER = "Another model wrote the conversation so far. Go on from where it stands."
_INSTEAD = "Follow these instructions instead of the ones at the start:"
_BOXES = {"pending": "[ ]", "in_progress": "[>]", "completed": "[x]"}


class ModelSwitch(Fragment, frozen=True):
    """Sends a model that it continues another model's conversation, with its instructions.

    The instructions at the head of the request stay as they are.
    """

    id: ClassVar[str] = "model_switch"
    role: ClassVar[FragmentRole] = "developer"
    markers: ClassVar[Markers | None] = Markers("<model_switch>", "</model_switch>")
    cap_tokens: ClassVar[int] = 9_500
    separate: ClassVar[bool] = True

    instructions: str = ""

    def body(self) -> str:
        """Return a sentence about the change, then the instructions."""
        if not self.instructions.strip():
            return f"\n{_HANDOVER}\n"
        return f"\n{_HANDOVER}\n{_INSTEAD}\n\n{self.instructions}\n"


class ModelSnapshot(Struct, frozen=True, omit_defaults=True):
    """The model in use; its instructions are sent, not compared."""

    model: str
    instructions: str = ""


class ModelState(StateFragment[ModelSnapshot]):
    """Sends that the model changed."""

    id = "model"
    snapshot_type = ModelSnapshot
    fragments = (ModelSwitch,)

    def snapshot(self, ctx: PromptContext) -> ModelSnapshot | None:
        """Return the model of `ctx`."""
        return ModelSnapshot(ctx.model, ctx.model_instructions) if ctx.model else None

    def comparable(self, snapshot: ModelSnapshot) -> ModelSnapshot:
        """Return the model's name."""
        return ModelSnapshot(snapshot.model)

    def difference(
        self,
        previous: Absent | Unrecorded | Known[ModelSnapshot | None],
        current: ModelSnapshot | None,
    ) -> Sequence[Fragment]:
        """Return the switch, or nothing for a thread's first model."""
        first = isinstance(previous, Absent) or (
            isinstance(previous, Known) and previous.snapshot is None
        )
        return () if current is None or first else (ModelSwitch(current.instructions),)


class SubagentsFragment(Fragment, frozen=True):
    """The agents that the model can write to now."""

    id: ClassVar[str] = "subagents"
    role: ClassVar[FragmentRole] = "user"
    markers: ClassVar[Markers | None] = Markers("<subagents>", "</subagents>")
    cap_tokens: ClassVar[int] = 1_000

    agents: tuple[Subagent, ...] = ()

    def body(self) -> str:
        """Return one line an agent."""
        lines = [f"- {agent.ref}: {agent.nickname}" for agent in self.agents]
        return "\n" + "\n".join(lines or ["No agents are left."]) + "\n"


class SubagentsState(StateFragment[tuple[Subagent, ...]]):
    """Sends which agents there are."""

    id = SubagentsFragment.id
    snapshot_type = tuple[Subagent, ...]
    fragments = (SubagentsFragment,)

    def snapshot(self, ctx: PromptContext) -> tuple[Subagent, ...] | None:
        """Return the agents of `ctx`."""
        return ctx.subagents or None

    def difference(
        self,
        _previous: Absent | Unrecorded | Known[tuple[Subagent, ...] | None],
        current: tuple[Subagent, ...] | None,
        /,
    ) -> Sequence[Fragment]:
        """Return the whole list."""
        return (SubagentsFragment(current or ()),)


class TaskFragment(Fragment, frozen=True):
    """What the thread is working on; None once there is nothing left of it."""

    id: ClassVar[str] = "task_state"
    role: ClassVar[FragmentRole] = "user"
    markers: ClassVar[Markers | None] = Markers("<task_state>", "</task_state>")
    cap_tokens: ClassVar[int] = 2_000

    task: Task | None

    def body(self) -> str:
        """Return a paragraph each for the goal, the plan and the files."""
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
    """Sends the task after the conversation that held it was compacted."""

    id = TaskFragment.id
    snapshot_type = Task
    fragments = (TaskFragment,)
    when: ClassVar[Literal["turn", "rebase"]] = "rebase"

    def snapshot(self, ctx: PromptContext) -> Task | None:
        """Return the task of `ctx`; an empty one counts as none."""
        return None if ctx.task in (None, Task()) else ctx.task

    def difference(
        self,
        _previous: Absent | Unrecorded | Known[Task | None],
        current: Task | None,
        /,
    ) -> Sequence[Fragment]:
        """Return the whole task."""
        return (TaskFragment(current),)
