"""Standing instructions: texts that others give the model, sent whole when they change.

Owns the developer instructions of the host, the personality and the collaboration mode the
user chose, the notes of providers' overlays, and AGENTS.md (`machine` reads the files).
Invariants: developer instructions stand first in the first developer message; a changed text
is appended and says that it replaces the earlier one; AGENTS.md is recognised by its heading
together with both instruction tags, never by the heading alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from msgspec import Struct

from .fragment import Fragment, FragmentRole, Markers
from .prompt_context import PromptContext
from .state_fragment import (
    Absent,
    Known,
    StateFragment,
    TextFragment,
    TextState,
    Unrecorded,
    change_since,
    fingerprint,
)

__all__ = [
    "AgentsMdFragment",
    "AgentsMdSnapshot",
    "AgentsMdState",
    "Collaboration",
    "CollaborationState",
    "DeveloperInstructions",
    "DeveloperInstructionsState",
    "OverlaySuffix",
    "OverlaySuffixState",
    "Personality",
    "PersonalityState",
]

_PLAN = """\
Plan mode is on. Work out what should be done and leave everything as it is:
- Read, search and run whatever changes nothing. Write no files, apply no patches, install nothing.
- Settle from the code what the code can settle. Ask the user only what is theirs to decide.
- End with one plan that somebody else could carry out: the goal, the steps in order, the files
  they touch, how each is checked, and what stays open.
A request to start the work is a request for the plan of that work, until this mode ends."""


class DeveloperInstructions(TextFragment, frozen=True):
    """The instructions of the host or the user's settings; a text without markers."""

    id: ClassVar[str] = "developer_instructions"
    role: ClassVar[FragmentRole] = "developer"
    cap_tokens: ClassVar[int] = 9_500
    replaced: ClassVar[str] = "These developer instructions replace all that were given earlier:"
    removed: ClassVar[str] = (
        "The developer instructions given earlier are gone and no longer apply."
    )


class DeveloperInstructionsState(TextState):
    """Sends the developer instructions."""

    fragment = DeveloperInstructions

    def text(self, ctx: PromptContext) -> str | None:
        """Return the instructions in `ctx`."""
        return ctx.developer_instructions


class Personality(TextFragment, frozen=True):
    """The manner of speaking that the user asked for: about tone only, and says so."""

    id: ClassVar[str] = "personality"
    role: ClassVar[FragmentRole] = "developer"
    markers: ClassVar[Markers | None] = Markers("<personality_spec>", "</personality_spec>")
    cap_tokens: ClassVar[int] = 1_000
    replaced: ClassVar[str] = (
        "The user asked for another manner of speaking. From now on, in tone only:"
    )
    removed: ClassVar[str] = (
        "The user no longer asks for a particular manner of speaking; use your own."
    )


class PersonalityState(TextState):
    """Sends the personality."""

    fragment = Personality

    def text(self, ctx: PromptContext) -> str | None:
        """Return the personality in `ctx`."""
        return ctx.personality


class Collaboration(TextFragment, frozen=True):
    """The instructions of the mode: how the user and the model share the work."""

    id: ClassVar[str] = "collaboration_mode"
    role: ClassVar[FragmentRole] = "developer"
    markers: ClassVar[Markers | None] = Markers("<collaboration_mode>", "</collaboration_mode>")
    cap_tokens: ClassVar[int] = 4_000
    replaced: ClassVar[str] = "The collaboration mode has changed. From now on:"
    removed: ClassVar[str] = "The earlier collaboration mode has ended. Work as usual."


class CollaborationState(TextState):
    """Sends the collaboration mode; ``default`` without instructions counts as none."""

    fragment = Collaboration

    def text(self, ctx: PromptContext) -> str | None:
        """Return the instructions of the mode in `ctx`."""
        mode = ctx.collaboration_mode
        if mode is None or mode.instructions.strip():
            return mode.instructions if mode else None
        if mode.name == "plan":
            return _PLAN
        return None if mode.name == "default" else f"The collaboration mode is `{mode.name}`."


class OverlaySuffix(TextFragment, frozen=True):
    """What overlays say about the models of one provider; may change from turn to turn."""

    id: ClassVar[str] = "overlay_suffix"
    role: ClassVar[FragmentRole] = "developer"
    markers: ClassVar[Markers | None] = Markers("<provider_notes>", "</provider_notes>")
    cap_tokens: ClassVar[int] = 4_000
    replaced: ClassVar[str] = "These notes replace the earlier ones:"
    removed: ClassVar[str] = "The earlier notes no longer apply."


class OverlaySuffixState(TextState):
    """Sends the suffix."""

    fragment = OverlaySuffix

    def text(self, ctx: PromptContext) -> str | None:
        """Return the suffix in `ctx`."""
        return ctx.overlay_suffix


class AgentsMdFragment(TextFragment, frozen=True):
    """The text of the AGENTS.md files that hold for a directory."""

    id: ClassVar[str] = "agents_md"
    role: ClassVar[FragmentRole] = "user"
    markers: ClassVar[Markers | None] = Markers("# AGENTS.md instructions", "</INSTRUCTIONS>")
    cap_tokens: ClassVar[int] = 9_500
    replaced: ClassVar[str] = "These AGENTS.md instructions replace all that were given earlier:"
    removed: ClassVar[str] = (
        "The AGENTS.md instructions given earlier are gone and no longer apply."
    )

    directory: str = ""

    def body(self) -> str:
        """Return the directory, then the text between instruction tags."""
        place = f" for {self.directory}" if self.directory else ""
        return f"{place}\n\n<INSTRUCTIONS>\n{self.prose()}\n"

    @classmethod
    def matches(cls, text: str) -> bool:
        """Return whether `text` has the heading and both tags."""
        return cls.markers is not None and (
            cls.markers.matches(text) and "<instructions>" in text.lower()
        )


class AgentsMdSnapshot(Struct, frozen=True, omit_defaults=True):
    """The text, its digest, by which it is compared, and where it holds."""

    directory: str
    digest: str
    text: str = ""


class AgentsMdState(StateFragment[AgentsMdSnapshot]):
    """Sends the AGENTS.md files."""

    id = AgentsMdFragment.id
    snapshot_type = AgentsMdSnapshot
    fragments = (AgentsMdFragment,)

    def snapshot(self, ctx: PromptContext) -> AgentsMdSnapshot | None:
        """Return the files' text in `ctx`; None when it is blank."""
        docs = ctx.agents_docs
        if docs is None or not docs.text.strip():
            return None
        return AgentsMdSnapshot(docs.directory, fingerprint(docs.text), docs.text)

    def comparable(self, snapshot: AgentsMdSnapshot) -> AgentsMdSnapshot:
        """Return the directory and the digest."""
        return AgentsMdSnapshot(snapshot.directory, snapshot.digest)

    def difference(
        self,
        previous: Absent | Unrecorded | Known[AgentsMdSnapshot | None],
        current: AgentsMdSnapshot | None,
    ) -> Sequence[Fragment]:
        """Return the whole text, or its withdrawal."""
        change = change_since(previous, current)
        if current is not None:
            return (AgentsMdFragment(current.text, change, current.directory),)
        known = previous.snapshot if isinstance(previous, Known) else None
        return (AgentsMdFragment(change=change, directory=known.directory if known else ""),)
