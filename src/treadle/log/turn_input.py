"""Turn input: what opens a turn, and who wants to know of a thread's turns.

Owns the value that the journal turns into a turn's first entries, and the seam through
which a follower's outbox rows join the transactions that it must not miss.
"""

from __future__ import annotations

from typing import Literal, Protocol

from msgspec import Struct

from ..core.entries import Draft
from ..core.items import Message
from ..core.provenance import InputProvenance, InternalEvent
from ..prompt.fragment import Fragment
from ..store.contract import Admission, InboxMessage, OutboxDraft, TurnEnd

__all__ = ["Follower", "TurnInput"]


class TurnInput(Struct, frozen=True, kw_only=True):
    """An input, and what stands around it."""

    message: Message
    provenance: InputProvenance | None = None
    events: tuple[InternalEvent, ...] = ()
    ahead: tuple[Fragment, ...] = ()
    """What the runtime says once, before all that stands around the input."""
    before: tuple[Draft, ...] = ()
    """What stands between what changed and the input, such as recalled memory."""
    after: tuple[Draft, ...] = ()
    behind: tuple[Fragment, ...] = ()
    """What the runtime says once, after all of that."""
    mail: tuple[InboxMessage, ...] = ()
    """What others left and this turn takes in; the first of it is `said`."""
    untold: frozenset[str] = frozenset()
    """States that are left as the view knows them."""


class Follower(Protocol):
    """Leaves rows in the outbox, in the transactions that begin, end or hide turns."""

    def rows_on_admission(self, admission: Admission, /) -> tuple[OutboxDraft, ...]:
        """A turn is admitted."""
        ...

    def rows_on_end(self, end: TurnEnd, /) -> tuple[OutboxDraft, ...]:
        """A turn ends."""
        ...

    def rows_on_hiding(
        self, first: int, last: int, reason: Literal["reset", "rollback"], /
    ) -> tuple[OutboxDraft, ...]:
        """Entries are hidden."""
        ...
