"""Ranges of entries: their ids, and reading them again.

Owns the form of an id (``THREAD:SEQ``, a range ``THREAD:FIRST-LAST``) and how much of a
range is opened. Invariant: what does not fit is named, so that it can be opened next.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Sequence

import click
from msgspec import Struct

from ..core.entries import Entry
from ..core.errors import NotFound
from ..core.text import TruncationPolicy, approx_tokens, truncate_text
from ..store.contract import Store, ThreadInfo
from ..store.search.documents import EntryText, entry_text
from .cli_home import LIBRARY, Home, find_thread

__all__ = [
    "OpenedEntries",
    "OpenedEntry",
    "RecallRange",
    "entry_id",
    "named_threads",
    "open_ranges",
    "parse_range",
    "pick_threads",
]

_ID = re.compile(r"(.+):(\d+)(?:-(\d+))?")
_NODE = "sum_"
_PAGE = 200


class RecallRange(Struct, frozen=True):
    """The entries `first` to `last` of a thread."""

    thread: str
    first: int
    last: int

    def __str__(self) -> str:
        end = "" if self.last == self.first else f"-{self.last}"
        return f"{self.thread}:{self.first}{end}"


class OpenedEntry(Struct, frozen=True):
    """One entry, or the part of it that fits."""

    id: str
    source_id: str | None
    thread: str
    seq: int
    turn: int
    time: int
    role: str
    tokens: int
    text: str


class OpenedEntries(Struct, frozen=True):
    """The entries that fit, and the ranges that are left."""

    entries: list[OpenedEntry]
    rest: list[str]


def entry_id(thread: str, seq: int) -> str:
    """Return the id of an entry."""
    return f"{thread}:{seq}"


async def named_threads(store: Store, name: str) -> tuple[str, ...]:
    """Return the threads of that name: an id, a title, or any form that `find_thread` knows."""
    threads = await store.threads()
    return pick_threads(threads, name) or ((await find_thread(store, name)).id,)


def pick_threads(threads: Sequence[ThreadInfo], name: str) -> tuple[str, ...]:
    """Return the threads with this id or, when there is none, with this title."""
    exact = tuple(info.id for info in threads if info.id == name)
    return exact or tuple(info.id for info in threads if name and info.title == name)


async def parse_range(store: Store, text: str) -> RecallRange:
    """Parse ``THREAD:SEQ`` or ``THREAD:FIRST-LAST``."""
    found = _ID.fullmatch(text)
    if found is None:
        raise click.UsageError(
            f"{text!r} is not the id of an entry; `treadle recall` prints ids such as thr_…:12, "
            "and thr_…:12-40 is a range; `treadle recall expand` opens summaries"
        )
    threads = await named_threads(store, found[1])
    info = await store.info(threads[0])
    first, last = int(found[2]), int(found[3] or found[2])
    if not 1 <= first <= last or first > info.last:
        raise NotFound("entry", text, f"the thread has entries 1 to {info.last}")
    return RecallRange(info.id, first, min(last, info.last))


async def open_ranges(home: Home, store: Store, names: Sequence[str], tokens: int) -> OpenedEntries:
    """Read the named entries, ranges and summaries, up to a number of tokens."""
    ranges: list[RecallRange] = []
    for name in names:
        ranges += (
            await _summary_ranges(home, name)
            if name.startswith(_NODE)
            else [await parse_range(store, name)]
        )
    opened: list[OpenedEntry] = []
    for at, span in enumerate(ranges):
        async for entry, said in _read_texts(store, span):
            one = _open_entry(span.thread, entry, said, tokens)
            if opened and one.tokens > tokens:
                left = RecallRange(span.thread, entry.seq, span.last)
                return OpenedEntries(opened, list(map(str, (left, *ranges[at + 1 :]))))
            opened.append(one)
            tokens -= one.tokens
    return OpenedEntries(opened, [])


async def _read_texts(store: Store, span: RecallRange) -> AsyncIterator[tuple[Entry, EntryText]]:
    """Return the entries of a range that have text."""
    for first in range(span.first, span.last + 1, _PAGE):
        last = min(first + _PAGE - 1, span.last)
        for entry in await store.read(span.thread, first, last):
            said = entry_text(entry)
            if said.text.strip():
                yield entry, said


def _open_entry(thread: str, entry: Entry, said: EntryText, room: int) -> OpenedEntry:
    """Return an entry; cut it when it alone is too large."""
    text = truncate_text(said.text, TruncationPolicy("tokens", max(room, 1)))
    return OpenedEntry(
        id=entry_id(thread, entry.seq),
        source_id=entry.source_id,
        thread=thread,
        seq=entry.seq,
        turn=entry.turn,
        time=entry.time,
        role=said.role,
        tokens=approx_tokens(len(said.text.encode())),
        text=text,
    )


async def _summary_ranges(home: Home, name: str) -> list[RecallRange]:
    """Return the range of entries that a summary covers."""
    path = home.path / LIBRARY
    if not path.exists():
        raise NotFound("summary", name, "the lossless engine has written none in this home")
    from ..engines.lossless.library import Library  # a search opens no summary

    library = Library(path)
    try:
        node = (await library.nodes([name])).get(name)
    finally:
        await library.close()
    if node is None:
        raise NotFound("summary", name, "copy the id from the view of the model")
    return [RecallRange(node.thread, *span) for span in node.spans or ((node.first, node.last),)]
