"""The kinds of agents that the model may start, beside those that it makes up itself.

Owns `<agent_types>`. Invariant: the tools for agents never change with the kinds, so that a
new file costs a few lines at the end and not the cache of all that was said before.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from .fragment import Fragment, FragmentRole, Markers
from .prompt_context import AgentType, PromptContext
from .state_fragment import Absent, Known, StateFragment, Unrecorded

__all__ = ["AgentTypesFragment", "AgentTypesState"]

_LONGEST = 400
"""Characters of a description that are told."""

_ALL = "Values of `agent_type` for spawn_agent, each with instructions of its own:"
_CHANGED = "The values of `agent_type` have changed. New or described anew:"
_GONE = "No longer there: "


class AgentTypesFragment(Fragment, frozen=True):
    """Kinds of agents: all of them, or what has changed."""

    id: ClassVar[str] = "agent_types"
    role: ClassVar[FragmentRole] = "user"
    markers: ClassVar[Markers | None] = Markers("<agent_types>", "</agent_types>")
    cap_tokens: ClassVar[int] = 4_000

    types: tuple[AgentType, ...] = ()
    gone: tuple[str, ...] = ()
    changed: bool = False

    def body(self) -> str:
        """Return one line a kind."""
        lines = [f"- {each.name}: {_shorten(each.description)}" for each in self.types]
        if lines:
            lines.insert(0, _CHANGED if self.changed else _ALL)
        if self.gone:
            lines.append(_GONE + ", ".join(self.gone))
        return "\n" + "\n".join(lines) + "\n"


class AgentTypesState(StateFragment[tuple[AgentType, ...]]):
    """Sends which kinds of agents there are."""

    id = AgentTypesFragment.id
    snapshot_type = tuple[AgentType, ...]
    fragments = (AgentTypesFragment,)

    def snapshot(self, ctx: PromptContext) -> tuple[AgentType, ...] | None:
        """Return the kinds of `ctx`."""
        return ctx.agent_types or None

    def difference(
        self,
        previous: Absent | Unrecorded | Known[tuple[AgentType, ...] | None],
        current: tuple[AgentType, ...] | None,
        /,
    ) -> Sequence[Fragment]:
        """Return what is new or changed, and what is gone."""
        before = (previous.snapshot if isinstance(previous, Known) else None) or ()
        now = current or ()
        new = tuple(each for each in now if each not in before)
        names = {each.name for each in now}
        gone = tuple(each.name for each in before if each.name not in names)
        return (AgentTypesFragment(new, gone, changed=bool(before)),) if new or gone else ()


def _shorten(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1].rstrip() + "…"
