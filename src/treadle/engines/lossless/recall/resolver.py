"""Resolve the ids that recall tools are given.

Owns what an id means and whether its reader may open it. Invariant: a thread is opened
through the log of the thread that asks, so that the host's grants decide and not the
model.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence

from msgspec import Struct, field

from ....core.errors import TreadleError
from ...values import ContextItem, LogReader
from ..library import Library, RecentThreads
from ..nodes import SummaryNode, summary_names
from .record_texts import Record, records_of

__all__ = ["LastView", "RecallRefused", "ResolvedId", "Resolver", "read_records"]

_SUMMARY_ID = r"sum_[0-9a-f]+"
_ENTRY_IDS = (
    r"\[?(?:(?P<thread>[A-Za-z][\w.-]*):)?(?P<first>\d{1,10})"
    r"(?:\s*(?:-|\.\.)\s*(?P<last>\d{1,10}))?\]?"
)
_PAGE = 200
"""Entries that are read at a time."""


class RecallRefused(TreadleError):
    """A recall tool cannot do what it was asked; the model reads why."""


class ResolvedId(Struct, frozen=True, kw_only=True):
    """What an id stands for: a summary, or entries."""

    log: LogReader
    thread: str
    spans: tuple[tuple[int, int], ...]
    node: SummaryNode | None = None

    @property
    def first(self) -> int:
        """The first entry."""
        return self.spans[0][0]

    @property
    def last(self) -> int:
        """The last entry."""
        return self.spans[-1][1]


class LastView(Struct, frozen=True, kw_only=True):
    """A thread as the engine saw it last."""

    log: LogReader
    items: Sequence[ContextItem] = ()


class Resolver(Struct):
    """Finds logs and summaries for the recall tools of one engine."""

    library: Library
    views: dict[str, LastView] = field(default_factory=RecentThreads)
    """The last view of each thread."""
    fresh_starts: dict[str, int] = field(default_factory=RecentThreads)
    """Threads whose agents asked for a fresh start, and the turn in which they did."""

    async def log_of(self, reader: str, thread: str = "") -> LogReader:
        """Return the log of `thread`, the reader's own by default. Raises `RecallRefused`."""
        own = self._last_view(reader).log
        if not thread or thread == reader:
            return own
        other = await own.of(thread)
        if other is None:
            raise RecallRefused(
                f"thread {thread!r} may not be read from here: it is neither a parent nor a child "
                "of this one, and the user has not allowed it (`recall_threads`)"
            )
        return other

    async def resolve(self, reader: str, text: str) -> ResolvedId:
        """Return what an id from a result or a summary stands for. Raises `RecallRefused`."""
        stripped = text.strip()
        if re.fullmatch(_SUMMARY_ID, stripped):
            return await self._resolve_summary(reader, stripped)
        entries = re.fullmatch(_ENTRY_IDS, stripped)
        if entries is None:
            raise RecallRefused(
                f"{text!r} is no id; give the id of a summary (sum_…), an entry "
                "(thread:seq or seq) or a range of entries (first-last)"
            )
        first = int(entries["first"])
        last = int(entries["last"] or first)
        if not 0 < first <= last:
            raise RecallRefused(
                f"{text!r} is no range; entries count from 1, the smaller one first"
            )
        thread = entries["thread"] or reader
        log = await self.log_of(reader, thread)
        end = await log.end()
        if first > end:
            raise RecallRefused(f"thread {thread!r} ends with entry {end}; {text!r} lies behind it")
        return ResolvedId(log=log, thread=thread, spans=((first, min(last, end)),))

    def _last_view(self, reader: str) -> LastView:
        view = self.views.get(reader)
        if view is None:
            raise RecallRefused("the engine has not looked at this thread yet; try again next step")
        return view

    async def _resolve_summary(self, reader: str, name: str) -> ResolvedId:
        node = (await self.library.nodes([name])).get(name)
        if node is None:
            raise RecallRefused(
                f"there is no summary {name!r}; use an id that stands in the context"
            )
        # What is shown, or was, is the reader's own past, whoever summarised it first.
        thread = reader if await self._is_own(reader, node) else node.thread
        log = await self.log_of(reader, thread)
        spans = node.spans or ((node.first, node.last),)
        return ResolvedId(log=log, thread=thread, spans=spans, node=node)

    async def _is_own(self, reader: str, node: SummaryNode) -> bool:
        """Return whether a summary is in the reader's view, or below one that it made or sees."""
        shown = summary_names(self._last_view(reader).items)
        if node.thread == reader or node.id in shown:
            return True
        made = await self.library.nodes_of_thread(reader)
        level = {child for each in made for child in each.children} | set(shown)
        known: set[str] = set()
        while node.id not in level and (new := level - known):
            known |= new
            below = await self.library.nodes(new)
            level = {child for each in below.values() for child in each.children}
        return node.id in level


async def read_records(resolved: ResolvedId) -> AsyncGenerator[Record, None]:
    """Read the records of what an id stands for, a page at a time."""
    for page in _pages(resolved.spans):
        for record in records_of(resolved.thread, await resolved.log.spans(page)):
            yield record


def _pages(spans: Iterable[tuple[int, int]]) -> Iterator[list[tuple[int, int]]]:
    """Return ranges of entries in portions of about a page, in order."""
    page: list[tuple[int, int]] = []
    size = 0
    for first, last in spans:
        for start in range(first, last + 1, _PAGE):
            end = min(last, start + _PAGE - 1)
            page.append((start, end))
            size += end - start + 1
            if size >= _PAGE:
                yield page
                page, size = [], 0
    if page:
        yield page
