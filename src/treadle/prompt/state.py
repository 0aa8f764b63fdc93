"""State fragments: context that lasts, told by its difference to what the model knows.

Owns the baselines and the seam between a small snapshot and the fragments that
tell its change. Invariant: a difference is a pure function of two snapshots, so
the log alone decides what is said.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Generic, Literal, TypeAlias, TypeVar

from msgspec import Struct

from ..core.wire import Json
from .fragment import Fragment
from .observation import PromptContext

__all__ = ["Absent", "Baseline", "Known", "StateFragment", "Unrecorded", "fingerprint"]

S = TypeVar("S")
T = TypeVar("T")


class Absent(Struct, frozen=True):
    """Nothing in the view tells this state: say all of it."""


class Unrecorded(Struct, frozen=True):
    """Something in the view tells it, but nobody recorded what: say all of it again."""


class Known(Struct, Generic[T], frozen=True):
    """The state that was told last; null or None when its removal was."""

    snapshot: T


Baseline: TypeAlias = Absent | Unrecorded | Known[Json]
"""What a view knows of one state."""


class StateFragment(ABC, Generic[S]):
    """A lasting piece of context and how its change is told.

    `snapshot` looks at the context, and only at it. `difference` looks at two snapshots,
    and only at them: what it needs to render must be in `current`. It is asked only
    when something changed, and returns nothing for a change that needs no words.
    """

    id: ClassVar[str]
    snapshot_type: ClassVar[Any]
    """What snapshots decode to; a stored one that no longer fits counts as `Unknown`."""
    fragments: ClassVar[tuple[type[Fragment], ...]]
    """Every class `difference` may return; registering the state registers them."""
    told: ClassVar[Literal["turn", "rebase"]] = "turn"
    """``rebase``: only said when an epoch starts from a new base."""

    @abstractmethod
    def snapshot(self, ctx: PromptContext) -> S | None:
        """The state now; None when there is none."""

    def comparable(self, snapshot: S) -> S:
        """The part of a snapshot that decides whether something changed. Idempotent.

        Long texts become fingerprints here; `difference` gets `previous` in this form.
        """
        return snapshot

    @abstractmethod
    def difference(
        self, previous: Absent | Unrecorded | Known[S | None], current: S | None, /
    ) -> Sequence[Fragment]:
        """What to say, in order."""


def fingerprint(text: str) -> str:
    """A short digest that stands for a long text in a snapshot."""
    return hashlib.sha256(text.encode()).hexdigest()[:32]
