"""Entries that are recalled: their names, and opening them again.

Owns the form of an id (``THREAD:SEQ``, a range ``THREAD:FIRST-LAST``) and how much of a
range is opened. Invariant: what does not fit is named, so that it can be opened next.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

import click
from msgspec import Struct

from ..core.entries import Entry
from ..core.errors import NotFound
from ..core.patterns import regex
from ..core.text import TruncationPolicy, approx_tokens, truncate_text
from ..store.contract import Store, ThreadInfo
from ..store.search.documents import EntryText, entry_text
from .cli_home import LIBRARY, Home, find_thread

__all__ = [
    "Opened",
    "Recalled",
    "Stretch",
    "entry_id",
    "named_threads",
    "open_stretches",
    "pick_threads",
    "stretch_of",
]

_ID = regex(r"(.+):(\d+)(?:-(\d+))?")
_NODE = "sum_"
_PAGE = 200


class Stretch(Struct, frozen=True):
    """The entries `first` to `last` of a thread."""

    thread: str
    first: int
    last: int

    def __str__(self) -> str:
        end = "" if self.last == self.first else f"-{self.last}"
        return f"{self.thread}:{self.first}{end}"


class Recalled(Struct, frozen=True):
    """One entry that was opened, or the part of it that fitted."""

    id: str
    source_id: str | None
    thread: str
    seq: int
    turn: int
    time: int
    role: str
    tokens: int
    text: str


class Opened(Struct, frozen=True):
    """What was opened, and what is left to open."""

    entries: list[Recalled]
    rest: list[str]


def entry_id(thread: str, seq: int) -> str:
    """The name of an entry."""
    return f"{thread}:{seq}"


async def named_threads(store: Store, name: str) -> tuple[str, ...]:
    """The threads that `name` means: by id, by the title they were given, or as elsewhere."""
    threads = await store.threads()
    return pick_threads(threads, name) or ((await find_thread(store, name)).id,)


def pick_threads(threads: Sequence[ThreadInfo], name: str) -> tuple[str, ...]:
    """The threads with this id or, where there is none, with this title."""
    exact = tuple(info.id for info in threads if info.id == name)
    return exact or tuple(info.id for info in threads if name and info.title == name)


async def stretch_of(store: Store, text: str) -> Stretch:
    """The entries that ``THREAD:SEQ`` or ``THREAD:FIRST-LAST`` names."""
    found = _ID.fullmatch(text)
    if found is None:
        raise click.UsageError(
            f"{text!r} names no entry; `treadle recall` prints ids such as thr_…:12, "
            "and thr_…:12-40 is a range; `treadle recall expand` opens summaries"
        )
    threads = await named_threads(store, found[1])
    info = await store.info(threads[0])
    first, last = int(found[2]), int(found[3] or found[2])
    if not 1 <= first <= last or first > info.last:
        raise NotFound("entry", text, f"the thread has entries 1 to {info.last}")
    return Stretch(info.id, first, min(last, info.last))


async def open_stretches(home: Home, store: Store, names: Sequence[str], tokens: int) -> Opened:
    """What the named entries, ranges and summaries say, up to a number of tokens."""
    stretches: list[Stretch] = []
    for name in names:
        stretches += (
            await _covered(home, name)
            if name.startswith(_NODE)
            else [await stretch_of(store, name)]
        )
    opened: list[Recalled] = []
    for at, stretch in enumerate(stretches):
        async for entry, said in _said(store, stretch):
            one = _recalled(stretch.thread, entry, said, tokens)
            if opened and one.tokens > tokens:
                left = Stretch(stretch.thread, entry.seq, stretch.last)
                return Opened(opened, list(map(str, (left, *stretches[at + 1 :]))))
            opened.append(one)
            tokens -= one.tokens
    return Opened(opened, [])


async def _said(store: Store, stretch: Stretch) -> AsyncIterator[tuple[Entry, EntryText]]:
    """The entries of a stretch that say something."""
    for first in range(stretch.first, stretch.last + 1, _PAGE):
        last = min(first + _PAGE - 1, stretch.last)
        for entry in await store.read(stretch.thread, first, last):
            said = entry_text(entry)
            if said.text.strip():
                yield entry, said


def _recalled(thread: str, entry: Entry, said: EntryText, room: int) -> Recalled:
    """An entry; one that alone is too large for the room is cut."""
    text = truncate_text(said.text, TruncationPolicy("tokens", max(room, 1)))
    return Recalled(
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


async def _covered(home: Home, name: str) -> list[Stretch]:
    """The entries that a summary stands for."""
    from ..engines.lossless.library import Library

    path = home.path / LIBRARY
    if not path.exists():
        raise NotFound("summary", name, "the lossless engine has made none here")
    library = Library(path)
    try:
        node = (await library.nodes([name])).get(name)
    finally:
        await library.close()
    if node is None:
        raise NotFound("summary", name, "copy its id from what the model was shown")
    return [Stretch(node.thread, *span) for span in node.spans or ((node.first, node.last),)]
