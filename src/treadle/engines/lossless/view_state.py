"""What the engine knows of a thread's view: its sums, and its state beside the thresholds.

Owns the sums over the items of a conversation and where its current turn begins.
Invariants: what was counted is not counted again, a conversation that has grown costs
what is new in it; a state never changes, and its chunks are planned once.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from ...core.items import FunctionCall
from ...core.provenance import is_inter_session
from ...core.typed import decode_json
from ...core.wire import UNREADABLE
from ..lazy_sequence import starts_with
from ..values import ContextItem, Conversation, LogReader
from .chunks import ItemChunk, Thresholds, leaf_chunks
from .recall.note_tools import NewContextArguments

__all__ = [
    "ConversationStats",
    "IrreducibleView",
    "KnownSummaries",
    "ViewState",
    "conversation_stats",
    "ids_of_others",
    "newest_turn",
    "volatile_ids",
]


class ConversationStats(Struct, frozen=True, kw_only=True):
    """A conversation, and the sums over its items."""

    items: Sequence[ContextItem] = ()
    tokens: int = 0
    summaries: tuple[str, ...] = ()
    """The ids of its summaries."""
    first_entry: int | None = None
    """Its first entry that is no summary …"""
    oldest_turn: int = 0
    """… and the oldest turn of such entries."""
    fresh_start_turn: int = 0
    """The newest turn in which a fresh start was asked for."""
    note_names: frozenset[str] = frozenset()
    """The notes that were written in it."""

    @property
    def has_open_fresh_start(self) -> bool:
        """Whether a fresh start was asked for and older turns are still there."""
        return 0 < self.oldest_turn < self.fresh_start_turn


def conversation_stats(
    items: Sequence[ContextItem], before: ConversationStats | None = None
) -> ConversationStats:
    """Return the sums over `items`; where they start with those of `before`, only add the rest."""
    known = before
    if known is None or not starts_with(items, known.items):
        known = ConversationStats()
    tokens, first, oldest = known.tokens, known.first_entry, known.oldest_turn
    fresh_start = known.fresh_start_turn
    summaries: list[str] = []
    notes: set[str] = set()
    for item in items[len(known.items) :]:
        tokens += item.tokens
        if item.name is not None:
            summaries.append(item.name)
        if item.seq is not None:
            first = item.seq if first is None else first
            if item.turn > 0:
                oldest = min(oldest or item.turn, item.turn)
            if b"new_context" in item.body and _asks_fresh_start(item):
                fresh_start = max(fresh_start, item.turn)
        if b"note_write" in item.body and (name := _note_name(item)):
            notes.add(name)
    return ConversationStats(
        items=items,
        tokens=tokens,
        summaries=(*known.summaries, *summaries) if summaries else known.summaries,
        first_entry=first,
        oldest_turn=oldest,
        fresh_start_turn=fresh_start,
        note_names=known.note_names | notes if notes else known.note_names,
    )


def _asks_fresh_start(item: ContextItem) -> bool:
    """Return whether an item is a valid call of `new_context`."""
    call = item.item
    if not isinstance(call, FunctionCall) or call.name != "new_context":
        return False
    try:
        decode_json(call.arguments, NewContextArguments)
    except UNREADABLE:  # the tool has refused it
        return False
    return True


class _NoteArguments(Struct):
    """The part of a note's arguments that counts here."""

    name: str


def _note_name(item: ContextItem) -> str:
    """Return the name of the note that a call writes; ``""`` for anything else."""
    call = item.item
    if not isinstance(call, FunctionCall) or call.name != "note_write":
        return ""
    try:
        return decode_json(call.arguments, _NoteArguments).name
    except UNREADABLE:  # the tool has refused it
        return ""


class ViewState(Struct, frozen=True, kw_only=True):
    """A view as the engine works on it."""

    thread: str
    conversation: Conversation
    stats: ConversationStats
    live: int
    """Where the current turn begins."""
    budget: int
    thresholds: Thresholds
    model: str = ""
    log: LogReader
    _chunks: dict[bool, list[ItemChunk]] = field(default_factory=dict)

    @property
    def items(self) -> tuple[ContextItem, ...]:
        """The items of the conversation."""
        return tuple(self.conversation.items)

    @property
    def volatile(self) -> frozenset[str]:
        """The items that are for the model alone."""
        return volatile_ids(self.conversation)

    @property
    def others(self) -> frozenset[str]:
        """The items that another thread sent."""
        return ids_of_others(self.conversation)

    @property
    def size(self) -> int:
        """Its tokens."""
        return self.stats.tokens

    @property
    def should_prepare(self) -> bool:
        """Whether summaries should be written ahead."""
        return self.size > self.thresholds.prepare * self.budget

    def leaf_chunks(self, *, unfinished: bool = False) -> list[ItemChunk]:
        """Return the chunks that leaves may be made of, oldest first."""
        if unfinished not in self._chunks:
            self._chunks[unfinished] = leaf_chunks(
                self.items, self.live, self.thresholds, unfinished=unfinished
            )
        return self._chunks[unfinished]

    def without_tail(self) -> ViewState:
        """Return the same with only the newest step kept from summaries."""
        return replace(self, thresholds=replace(self.thresholds, tail_tokens=0), _chunks={})

    def with_items(self, items: Sequence[ContextItem]) -> ViewState:
        """Return the state of a view in which summaries took the place of some items."""
        given = self.conversation
        at = {item.id: place for place, item in enumerate(given.items) if item.id is not None}
        places = [None if item.id is None else at[item.id] for item in items]
        shown = Conversation(
            items=tuple(items),
            provenance=tuple(None if at is None else given.provenance[at] for at in places),
            internal_events=tuple(
                None if at is None else given.internal_events[at] for at in places
            ),
            persist=tuple(at is None or given.persist[at] for at in places),
        )
        # The input of the current turn is never replaced.
        begins = given.items[self.live].id if self.live < len(given.items) else self.thread
        live = next((at for at, item in enumerate(items) if item.id == begins), len(items))
        stats = conversation_stats(items)
        return replace(self, conversation=shown, stats=stats, live=live, _chunks={})

    def with_live(self, live: int) -> ViewState:
        """Return the same with a current turn that begins at `live`."""
        return self if live == self.live else replace(self, live=live, _chunks={})


class KnownSummaries(Struct, frozen=True):
    """Summaries in a view that are known to be in the library."""

    names: tuple[str, ...] = ()
    has_extracts: bool = False


class IrreducibleView(Struct, frozen=True):
    """A view that could not be made smaller, however large it is."""

    live: int
    force: bool
    size: int
    growth: int
    """By how much it must grow before it is worth another try."""

    @classmethod
    def of(cls, state: ViewState, *, force: bool) -> IrreducibleView:
        """Return what to remember of a state."""
        return cls(state.live, force, state.size, state.thresholds.leaf_tokens // 4)

    def covers(self, later: IrreducibleView) -> bool:
        """Return whether another try would find what was found before."""
        same = (self.live, self.force) == (later.live, later.force)
        return same and self.size <= later.size < self.size + self.growth


def newest_turn(items: Sequence[ContextItem]) -> int:
    """Return where the newest turn begins."""
    return next(at for at, item in enumerate(items) if item.turn == items[-1].turn)


def ids_of_others(conversation: Conversation) -> frozenset[str]:
    """Return the items of a conversation that another thread sent."""
    pairs = zip(conversation.items, conversation.provenance, strict=True)
    return frozenset(
        item.id for item, source in pairs if is_inter_session(source) and item.id is not None
    )


def volatile_ids(conversation: Conversation) -> frozenset[str]:
    """Return the items of a conversation that are for the model alone."""
    pairs = zip(conversation.items, conversation.persist, strict=True)
    return frozenset(item.id for item, persist in pairs if not persist and item.id is not None)
