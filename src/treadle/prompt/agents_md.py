"""AGENTS.md: what the repository and the user ask of every agent.

Owns how the files' joined text is told, replaced and withdrawn; `discovery`
reads the files. Invariant: the text is recognised by its heading together with
both instruction tags, never by the heading alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from msgspec import Struct

from .fragment import Fragment, FragmentRole, Markers
from .observation import PromptContext
from .state import Absent, Known, StateFragment, Unrecorded, fingerprint
from .text import TextFragment, change_since

__all__ = ["AgentsMdFragment", "AgentsMdSnapshot", "AgentsMdState"]


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
        """The directory, then the text between instruction tags."""
        place = f" for {self.directory}" if self.directory else ""
        return f"{place}\n\n<INSTRUCTIONS>\n{self.prose()}\n"

    @classmethod
    def matches(cls, text: str) -> bool:
        """By the heading and both tags."""
        return cls.markers is not None and (
            cls.markers.matches(text) and "<instructions>" in text.lower()
        )


class AgentsMdSnapshot(Struct, frozen=True, omit_defaults=True):
    """The text, its digest, by which it is compared, and where it holds."""

    directory: str
    digest: str
    text: str = ""


class AgentsMdState(StateFragment[AgentsMdSnapshot]):
    """Tells the AGENTS.md files."""

    id = AgentsMdFragment.id
    snapshot_type = AgentsMdSnapshot
    fragments = (AgentsMdFragment,)

    def snapshot(self, ctx: PromptContext) -> AgentsMdSnapshot | None:
        """The files' text in `ctx`; none when it is blank."""
        docs = ctx.agents_docs
        if docs is None or not docs.text.strip():
            return None
        return AgentsMdSnapshot(docs.directory, fingerprint(docs.text), docs.text)

    def comparable(self, snapshot: AgentsMdSnapshot) -> AgentsMdSnapshot:
        """The directory and the digest."""
        return AgentsMdSnapshot(snapshot.directory, snapshot.digest)

    def difference(
        self,
        previous: Absent | Unrecorded | Known[AgentsMdSnapshot | None],
        current: AgentsMdSnapshot | None,
    ) -> Sequence[Fragment]:
        """The whole text, or its withdrawal."""
        change = change_since(previous, current)
        if current is not None:
            return (AgentsMdFragment(current.text, change, current.directory),)
        known = previous.snapshot if isinstance(previous, Known) else None
        return (AgentsMdFragment(change=change, directory=known.directory if known else ""),)
