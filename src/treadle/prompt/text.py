"""States that are one text: told whole, told again when it changes, withdrawn when it goes.

Owns that pattern for every fragment that follows it. Invariant: a text that
replaces or ends an earlier one says so in its first sentence.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Literal

from msgspec import Struct

from .fragment import Fragment
from .observation import PromptContext
from .state import Absent, Known, StateFragment, Unrecorded, fingerprint

__all__ = ["Change", "TextFragment", "TextSnapshot", "TextState", "change_since"]

Change = Literal["first", "replaced", "removed"]


class TextFragment(Fragment, frozen=True):
    """A text, and how it relates to an earlier one."""

    replaced: ClassVar[str]
    """The sentence that opens a text which replaces an earlier one."""
    removed: ClassVar[str]
    """The sentence that withdraws the earlier text."""

    text: str = ""
    change: Change = "first"

    def body(self) -> str:
        """The text on lines of its own between markers, bare without them."""
        return f"\n{self.prose()}\n" if self.markers else self.prose()

    def prose(self) -> str:
        """The text under the sentence its change calls for."""
        if self.change == "removed":
            return self.removed
        return f"{self.replaced}\n\n{self.text}" if self.change == "replaced" else self.text


class TextSnapshot(Struct, frozen=True, omit_defaults=True):
    """A text and its digest, by which it is compared."""

    digest: str
    text: str = ""


class TextState(StateFragment[TextSnapshot]):
    """A state that is one text; a subclass names its fragment and where the text is."""

    fragment: ClassVar[type[TextFragment]]
    snapshot_type: ClassVar[Any] = TextSnapshot

    @abstractmethod
    def text(self, ctx: PromptContext) -> str | None:
        """The text now; a blank one counts as none."""

    def snapshot(self, ctx: PromptContext) -> TextSnapshot | None:
        """The text and its digest."""
        text = self.text(ctx)
        return TextSnapshot(fingerprint(text), text) if text and text.strip() else None

    def comparable(self, snapshot: TextSnapshot) -> TextSnapshot:
        """The digest alone."""
        return TextSnapshot(snapshot.digest)

    def difference(
        self,
        previous: Absent | Unrecorded | Known[TextSnapshot | None],
        current: TextSnapshot | None,
    ) -> Sequence[Fragment]:
        """The whole text, or its withdrawal."""
        text = current.text if current else ""
        return (self.fragment(text=text, change=change_since(previous, current)),)


def change_since(previous: Absent | Unrecorded | Known[Any], current: object | None) -> Change:
    """How a state that is told whole relates to what was told before."""
    if current is None:
        return "removed"
    was_told = isinstance(previous, Unrecorded) or (
        isinstance(previous, Known) and previous.snapshot is not None
    )
    return "replaced" if was_told else "first"
