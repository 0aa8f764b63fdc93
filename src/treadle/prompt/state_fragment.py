"""State fragments: context that lasts, sent by its difference to what the model knows.

Owns the baselines, the contract between a small snapshot and the fragments that send its
change, and the common case: a state that is one text. Invariants: a difference is a pure
function of two snapshots, so that the log alone decides what is sent; a text that replaces or
ends an earlier one says so in its first sentence.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Generic, Literal, TypeAlias, TypeVar

from msgspec import Struct

from ..core.wire import Json
from .fragment import Fragment
from .prompt_context import PromptContext

__all__ = [
    "Absent",
    "Baseline",
    "Change",
    "Known",
    "StateFragment",
    "TextFragment",
    "TextSnapshot",
    "TextState",
    "Unrecorded",
    "change_since",
    "fingerprint",
]

S = TypeVar("S")
T = TypeVar("T")


class Absent(Struct, frozen=True):
    """Nothing in the view shows this state: send all of it."""


class Unrecorded(Struct, frozen=True):
    """Something in the view shows it, but no snapshot was recorded: send all of it again."""


class Known(Struct, Generic[T], frozen=True):
    """The state that was sent last; null or None when its removal was."""

    snapshot: T


Baseline: TypeAlias = Absent | Unrecorded | Known[Json]
"""What a view knows of one state."""


class StateFragment(ABC, Generic[S]):
    """A lasting part of the context, and how its change is sent.

    `snapshot` reads only the context. `difference` reads only two snapshots: everything
    it needs to render must be in `current`. It is called only when something changed,
    and returns nothing for a change that needs no text.
    """

    id: ClassVar[str]
    snapshot_type: ClassVar[Any]
    """What snapshots decode to; a stored one that no longer fits counts as `Unrecorded`."""
    fragments: ClassVar[tuple[type[Fragment], ...]]
    """Every class `difference` may return; registering the state registers them."""
    when: ClassVar[Literal["turn", "rebase"]] = "turn"
    """When it is sent. ``rebase``: only when an epoch starts from a new base."""

    @abstractmethod
    def snapshot(self, ctx: PromptContext) -> S | None:
        """Return the state now; None when there is none."""

    def comparable(self, snapshot: S) -> S:
        """Return the part of a snapshot that decides whether something changed. Idempotent.

        Long texts become fingerprints here; `difference` gets `previous` in this form.
        """
        return snapshot

    @abstractmethod
    def difference(
        self, previous: Absent | Unrecorded | Known[S | None], current: S | None, /
    ) -> Sequence[Fragment]:
        """Return the fragments that send the change, in order."""


def fingerprint(text: str) -> str:
    """Return a short digest that stands for a long text in a snapshot."""
    return hashlib.sha256(text.encode()).hexdigest()[:32]


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
        """Return the text, on lines of its own between markers."""
        return f"\n{self.prose()}\n" if self.markers else self.prose()

    def prose(self) -> str:
        """Return the text under the sentence that its change calls for."""
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

    def __init_subclass__(cls) -> None:
        cls.id, cls.fragments = cls.fragment.id, (cls.fragment,)

    @abstractmethod
    def text(self, ctx: PromptContext) -> str | None:
        """Return the text now; a blank one counts as none."""

    def snapshot(self, ctx: PromptContext) -> TextSnapshot | None:
        """Return the text and its digest."""
        text = self.text(ctx)
        return TextSnapshot(fingerprint(text), text) if text and text.strip() else None

    def comparable(self, snapshot: TextSnapshot) -> TextSnapshot:
        """Return the digest alone."""
        return TextSnapshot(snapshot.digest)

    def difference(
        self,
        previous: Absent | Unrecorded | Known[TextSnapshot | None],
        current: TextSnapshot | None,
    ) -> Sequence[Fragment]:
        """Return the whole text, or its withdrawal."""
        text = current.text if current else ""
        return (self.fragment(text=text, change=change_since(previous, current)),)


def change_since(previous: Absent | Unrecorded | Known[Any], current: object | None) -> Change:
    """Return how a state that is sent whole relates to what was sent before."""
    if current is None:
        return "removed"
    was_told = isinstance(previous, Unrecorded) or (
        isinstance(previous, Known) and previous.snapshot is not None
    )
    return "replaced" if was_told else "first"
