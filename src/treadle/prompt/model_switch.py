"""Model switch: another model goes on with the conversation.

Owns `<model_switch>`, which carries the new model's instructions while those at
the head of the request stay as they are. Invariant: the first model of a thread
is remembered without words.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from msgspec import Struct

from .fragment import Fragment, FragmentRole, Markers
from .observation import PromptContext
from .state import Absent, Known, StateFragment, Unrecorded

__all__ = ["ModelSnapshot", "ModelState", "ModelSwitch"]

_HANDOVER = "Another model wrote the conversation so far. Go on from where it stands."
_INSTEAD = "Follow these instructions instead of the ones at the start:"


class ModelSwitch(Fragment, frozen=True):
    """What the next model should know about being the next model."""

    id: ClassVar[str] = "model_switch"
    role: ClassVar[FragmentRole] = "developer"
    markers: ClassVar[Markers | None] = Markers("<model_switch>", "</model_switch>")
    cap_tokens: ClassVar[int] = 9_500
    separate: ClassVar[bool] = True

    instructions: str = ""

    def body(self) -> str:
        """A sentence about the change, then the instructions."""
        if not self.instructions.strip():
            return f"\n{_HANDOVER}\n"
        return f"\n{_HANDOVER}\n{_INSTEAD}\n\n{self.instructions}\n"


class ModelSnapshot(Struct, frozen=True, omit_defaults=True):
    """The model in use; its instructions are told, not compared."""

    model: str
    instructions: str = ""


class ModelState(StateFragment[ModelSnapshot]):
    """Tells that the model changed."""

    id = "model"
    snapshot_type = ModelSnapshot
    fragments = (ModelSwitch,)

    def snapshot(self, ctx: PromptContext) -> ModelSnapshot | None:
        """The model of `ctx`."""
        return ModelSnapshot(ctx.model, ctx.model_instructions) if ctx.model else None

    def comparable(self, snapshot: ModelSnapshot) -> ModelSnapshot:
        """The model's name."""
        return ModelSnapshot(snapshot.model)

    def difference(
        self,
        previous: Absent | Unrecorded | Known[ModelSnapshot | None],
        current: ModelSnapshot | None,
    ) -> Sequence[Fragment]:
        """Nothing for a thread's first model."""
        first = isinstance(previous, Absent) or (
            isinstance(previous, Known) and previous.snapshot is None
        )
        return () if current is None or first else (ModelSwitch(current.instructions),)
