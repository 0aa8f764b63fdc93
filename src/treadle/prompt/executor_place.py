"""The place of commands: where tools act, if that is not the user's machine.

Owns `<executor>`, and what the rights of a thread are in such a place. Invariants: it is told
once, and again when files may have been lost; a place that is a boundary by itself is not
confined a second time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import msgspec
from msgspec import Struct

from .fragment import Fragment, FragmentRole, Markers
from .prompt_context import PromptContext
from .state_fragment import Absent, Known, StateFragment, Unrecorded

__all__ = ["ExecutorFragment", "ExecutorState", "ToldExecutor", "rights_there"]

_FIRST = "Commands, patches and files are those of {place}, not of the user's machine."
_LOST = (
    "Commands do not run any more where they ran before. From now on commands, patches and files "
    "are those of {place}, made anew.\nFiles, installed programs and running processes of before "
    "may be gone: look before you rely on any of them."
)
_CARRIED = (
    "From now on commands, patches and files are those of {place}.\nThe files of the workspace "
    "were taken along; what was installed and what was running elsewhere was not."
)
_BACK = (
    "From now on commands, patches and files are those of the user's machine again.\nFiles that "
    "were only elsewhere may be missing: look before you rely on them."
)
_BACK_CARRIED = (
    "From now on commands, patches and files are those of the user's machine again.\nThe files "
    "of the workspace were taken along; what was installed elsewhere was not."
)


class ExecutorFragment(Fragment, frozen=True, kw_only=True):
    """Where tools act, or that this has changed."""

    id: ClassVar[str] = "executor"
    role: ClassVar[FragmentRole] = "user"
    markers: ClassVar[Markers | None] = Markers("<executor>", "</executor>")
    cap_tokens: ClassVar[int] = 500

    place: str = ""
    """Empty: the user's machine."""
    again: bool = False
    """Whether it was another place before."""
    carried: bool = False

    def body(self) -> str:
        """Return where it is, and what of the files."""
        if not self.place:
            text = _BACK_CARRIED if self.carried else _BACK
        elif not self.again:
            text = _FIRST
        else:
            text = _CARRIED if self.carried else _LOST
        return f"\n{text.format(place=self.place)}\n"


class ToldExecutor(Struct, frozen=True, omit_defaults=True):
    """The place as it was told."""

    place: str = ""
    """Empty: the user's machine, after another place."""
    number: int = 1
    carried: bool = False


class ExecutorState(StateFragment[ToldExecutor]):
    """Sends where tools act, and that it is another place now."""

    id = ExecutorFragment.id
    snapshot_type = ToldExecutor
    fragments = (ExecutorFragment,)

    def snapshot(self, ctx: PromptContext) -> ToldExecutor | None:
        """Return the place; None for the user's machine, if it never was another."""
        facts = ctx.executor
        return None if facts is None else ToldExecutor(facts.place, facts.number, facts.carried)

    def difference(
        self,
        previous: Absent | Unrecorded | Known[ToldExecutor | None],
        current: ToldExecutor | None,
    ) -> Sequence[Fragment]:
        """Return the place, and what of the files if it is another than before."""
        before = previous.snapshot if isinstance(previous, Known) else None
        if current is None:
            return (ExecutorFragment(again=True),) if before and before.place else ()
        if before is None:
            fragment = ExecutorFragment(
                place=current.place, again=current.carried, carried=current.carried
            )
            return (fragment,) if current.place else ()
        return (ExecutorFragment(place=current.place, again=True, carried=current.carried),)


def rights_there(settings: PromptContext) -> PromptContext:
    """Return the settings as they hold where tools act.

    A container is the boundary of what is in it: what may be written there is all of it.
    """
    facts = settings.executor
    if facts is None or not facts.contains or settings.sandbox_mode != "workspace-write":
        return settings
    return msgspec.structs.replace(settings, sandbox_mode="external-sandbox")
