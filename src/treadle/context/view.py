"""The view: what the model sees, as a projection of the log.

Owns the definition in `docs/architecture.md`: the newest visible head and recipe,
then every visible item after the recipe. Invariant: a view is a pure function of
the log up to `upto`, and loading one costs no more than the view is long.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import aclosing
from functools import lru_cache
from itertools import pairwise

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from ..core.entries import (
    BREAKING,
    Entry,
    Epoch,
    FragmentMark,
    Head,
    Inline,
    Node,
    ProjectionMark,
    Range,
    Reason,
    Recipe,
    ResponseMark,
    Rollback,
    SettingsChange,
    Snapshots,
)
from ..core.errors import StoreError
from ..core.typed import decode_json
from ..core.usage import TokenUsage
from ..core.wire import Json
from ..prompt.registry import Registry
from ..prompt.state_fragment import Baseline, Known, Unrecorded
from ..store.contract import Store, ThreadInfo
from .row import Row
from .rules import Pairing
from .visible import visible_backwards

__all__ = ["CACHE_KEY", "Count", "View", "advance", "load_head", "load_view", "note_baselines"]

CACHE_KEY = "cache_key"
"""The setting that names another cache key than the family's."""

_HEADS = 16
"""So many heads are kept, because threads of one host mostly share theirs: 40 kB each."""
_decode_head = lru_cache(_HEADS)(msgspec.json.Decoder(Head).decode)


class Count(Struct, frozen=True):
    """What a provider counted when it answered, and how many rows of the view that covers."""

    usage: TokenUsage
    rows: int


class View(Struct):
    """What the model sees of a thread.

    `advance` adds rows to it during an epoch; a new epoch creates a new view.
    """

    thread: str
    upto: int
    """The newest entry it accounts for …"""
    newest: tuple[int, int] = (0, 0)
    """… and the turn and the step that this belongs to."""
    cache_key: str = ""
    """What a provider may keep its cache under: the first thread of the family, or a setting."""
    head: Head | None = None
    epoch: int = 0
    """The entry that began the present prefix; 0 before the first."""
    reason: Reason = Reason.START
    base: int = 0
    """The epoch entry whose recipe it starts from; 0 for the start of the log."""
    projection: ProjectionMark | None = None
    """Whose plan that recipe shows, where an engine said how long it holds."""
    rows: list[Row] = field(default_factory=list)
    gaps: list[tuple[int, int]] = field(default_factory=list)
    """Stretches of the log, first and last entry, that it does not show."""
    baselines: dict[str, Baseline] = field(default_factory=dict)
    """What the model knows of each state fragment."""
    noted: dict[str, Baseline] = field(default_factory=dict)
    """What of that its recipe says without words."""
    settings: dict[str, Json] = field(default_factory=dict)
    tokens: int = 0
    """The estimated size of its items."""
    count: Count | None = None
    """What the provider counted last; None while nobody has answered since the base moved."""
    pairing: Pairing = field(default_factory=Pairing)
    """Which of its calls are answered."""

    def add(self, row: Row, registry: Registry) -> None:
        """Add one row at the end."""
        self.pairing.admits(row.shape, len(self.rows))
        self.rows.append(row)
        self.tokens += row.tokens
        if row.fragments or row.contextual:
            note_baselines(self.baselines, [row], registry)

    @property
    def open_calls(self) -> list[Row]:
        """The calls without an output, oldest first."""
        return [self.rows[position] for position in sorted(self.pairing.open.values())]

    def copy(self) -> View:
        """Return an independent copy."""
        return replace(
            self,
            rows=list(self.rows),
            baselines=dict(self.baselines),
            settings=dict(self.settings),
            pairing=self.pairing.copy(),
        )


def note_baselines(baselines: dict[str, Baseline], rows: Iterable[Row], registry: Registry) -> None:
    """Note what `rows` tell about state fragments, the latest last."""
    for row in rows:
        _note_marks(baselines, row.fragments)
        if row.contextual and not row.fragments:
            # An imported row: its words show that a state was told, not which.
            for name in registry.recognise_states(row.item):
                baselines[name] = Unrecorded()


def _note_marks(baselines: dict[str, Baseline], marks: Iterable[FragmentMark]) -> None:
    for mark in marks:
        baselines[mark.id] = Known(mark.snapshot)


async def load_head(store: Store, digest: str) -> Head:
    """The request head stored under `digest`."""
    return _decode_head(await store.blob(digest))


async def load_view(
    store: Store,
    thread: str,
    registry: Registry,
    *,
    upto: int | None = None,
    info: ThreadInfo | None = None,
) -> View:
    """The view of a thread, or what it was when entry `upto` was the newest.

    `info` is what is known of the thread, where somebody has just asked.
    """
    info = info or await store.info(thread)
    last = info.last if upto is None else upto
    walk = await _walk_back(store, thread, last)
    view = View(
        thread=thread,
        upto=last,
        newest=walk.newest or (0, 0),
        cache_key=info.root,
        epoch=walk.epoch,
        base=walk.base,
        projection=walk.projection,
        gaps=walk.gaps,
    )
    view.reason = walk.reason
    _settle(view, walk.settings)
    blobs = iter(await _blobs(store, walk))
    if walk.head is not None:
        view.head = _decode_head(next(blobs))
    if walk.recipe is not None:
        await _cook(store, view, walk.recipe, blobs, registry)
    for entry in reversed(walk.items):
        view.add(Row.of_entry(entry), registry)
    if walk.usage is not None:
        view.count = Count(walk.usage, len(view.rows) - walk.uncounted)
    return view


async def advance(view: View, store: Store, entries: Sequence[Entry], registry: Registry) -> View:
    """`view` once `entries`, just appended, count; loads anew when the base moved."""
    for entry in entries:
        view.upto, view.newest = entry.seq, (entry.turn, entry.step)
        if entry.kind == "item":
            view.add(Row.of_entry(entry), registry)
        elif entry.kind == "response":
            if (usage := _usage_of(entry)) is not None:
                view.count = Count(usage, len(view.rows))
        elif entry.kind == "settings":
            changes: dict[str, Json] = {}
            _merge(changes, entry)
            _settle(view, changes)
        elif entry.kind in BREAKING:
            control = entry.control
            if not isinstance(control, Epoch) or control.recipe is not None:
                return await load_view(store, view.thread, registry, upto=entries[-1].seq)
            view.epoch, view.reason = entry.seq, control.reason
            if control.head is not None:
                view.head = await load_head(store, control.head)
    return view


class _Walk(Struct):
    """What lies between the tail and the newest recipe, the newest first."""

    newest: tuple[int, int] | None = None
    items: list[Entry] = field(default_factory=list)
    gaps: list[tuple[int, int]] = field(default_factory=list)
    settings: dict[str, Json] = field(default_factory=dict)
    head: str | None = None
    epoch: int = 0
    reason: Reason = Reason.START
    base: int = 0
    projection: ProjectionMark | None = None
    recipe: Recipe | None = None
    usage: TokenUsage | None = None
    """What the newest answer that was counted cost."""
    uncounted: int = 0
    """The items since."""

    def meet(self, entry: Entry) -> bool:
        """Take in one visible entry; returns whether to go on to older ones."""
        if self.newest is None:
            self.newest = entry.turn, entry.step
        if entry.kind == "item":
            self.items.append(entry)
        elif entry.kind == "response":
            if self.usage is None:
                self.usage, self.uncounted = _usage_of(entry), len(self.items)
        elif entry.kind == "settings":
            older: dict[str, Json] = {}
            _merge(older, entry)
            self.settings = older | self.settings
        elif entry.kind in BREAKING:
            return self._meet_break(entry)
        return True

    def _meet_break(self, entry: Entry) -> bool:
        control = entry.control
        if isinstance(control, Rollback):
            self._begins(entry.seq, Reason.ROLLBACK)
            self.gaps.append((control.cut, entry.seq))
        elif isinstance(control, Epoch):
            self._begins(entry.seq, control.reason)
            self.head = self.head or control.head
            if control.recipe is not None:
                self.recipe, self.base = control.recipe, entry.seq
                self.projection = control.projection
                self.settings = control.settings | self.settings
                return False
        return True

    def _begins(self, seq: int, reason: Reason) -> None:
        if not self.epoch:
            self.epoch, self.reason = seq, reason


def _usage_of(entry: Entry) -> TokenUsage | None:
    """What a provider counted; nothing where it says zero, or where the entry is damaged."""
    try:
        control = entry.control
    except StoreError:
        return None  # a figure that is lost: estimates stand in for it
    if not isinstance(control, ResponseMark) or control.purpose:
        return None  # what was asked outside the conversation says nothing about its size
    usage = control.usage
    return usage if usage is not None and usage.total_tokens else None


def _settle(view: View, changes: dict[str, Json]) -> None:
    view.settings |= changes
    if (key := changes.get(CACHE_KEY)) is not None:
        view.cache_key = decode_json(key, str | None) or view.cache_key


def _merge(settings: dict[str, Json], entry: Entry) -> None:
    control = entry.control
    if isinstance(control, SettingsChange):
        settings.update(control.changes)


async def _walk_back(store: Store, thread: str, last: int) -> _Walk:
    walk = _Walk()
    async with aclosing(visible_backwards(store, thread, upto=last)) as entries:
        async for entry in entries:
            if not walk.meet(entry):
                break
    return walk


async def _blobs(store: Store, walk: _Walk) -> list[bytes]:
    """The head, if there is one, and the summaries of the recipe."""
    parts = walk.recipe.parts if walk.recipe is not None else ()
    summaries = (part.blob for part in parts if isinstance(part, Node))
    wanted = [*([walk.head] if walk.head is not None else ()), *summaries]
    return await store.blobs(wanted) if wanted else []


async def _cook(
    store: Store, view: View, recipe: Recipe, summaries: Iterator[bytes], registry: Registry
) -> None:
    """Show what a recipe names."""
    ranges = [(part.first, part.last) for part in recipe.parts if isinstance(part, Range)]
    view.gaps += _between([*ranges, (view.base, view.base)])
    entries = iter(await store.read_ranges(view.thread, ranges)) if ranges else iter(())
    waiting = next(entries, None)
    for part in recipe.parts:
        match part:
            case Range():
                while waiting is not None and part.first <= waiting.seq <= part.last:
                    if waiting.kind == "item":
                        view.add(Row.of_entry(waiting), registry)
                    waiting = next(entries, None)
            case Node():
                view.add(Row.of_node(part, next(summaries)), registry)
            case Inline():
                view.add(Row.of_inline(part), registry)
            case Snapshots():
                _note_marks(view.baselines, part.marks)
                _note_marks(view.noted, part.marks)


def _between(ranges: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """What lies between neighbouring ranges."""
    return [
        (left[1] + 1, right[0] - 1) for left, right in pairwise(ranges) if left[1] + 1 < right[0]
    ]
