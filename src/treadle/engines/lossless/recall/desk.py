"""The desk: where the tools find a thread's log, its notes and its summaries.

Owns what an id means and whether its reader may open it. Invariant: a thread is opened
through the log of the one that asks, so that the host's grants decide and not the model.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence

from msgspec import Struct, field

from ....core.errors import TreadleError
from ....core.patterns import regex
from ...values import ContextItem, LogReader
from ..library import Library, RecentThreads
from ..nodes import SummaryNode
from .records import Record, records_of

__all__ = ["Desk", "Found", "Refusal", "Seen", "records"]

_NODE = regex(r"sum_[0-9a-f]+")
_ENTRIES = regex(
    r"\[?(?:(?P<thread>[A-Za-z][\w.-]*):)?(?P<first>\d{1,10})"
    r"(?:\s*(?:-|\.\.)\s*(?P<last>\d{1,10}))?\]?"
)
_PAGE = 200
"""Entries that are read at a time."""


class Refusal(TreadleError):
    """Why something was not done; for the model to read."""


class Found(Struct, frozen=True, kw_only=True):
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


class Seen(Struct, frozen=True, kw_only=True):
    """A thread as the engine saw it last."""

    log: LogReader
    items: Sequence[ContextItem] = ()

    @property
    def nodes(self) -> tuple[str, ...]:
        """The names of the summaries in view."""
        return tuple(item.name for item in self.items if item.name is not None)


class Desk(Struct):
    """What the tools of one engine share."""

    library: Library
    seen: dict[str, Seen] = field(default_factory=RecentThreads)
    """Threads by their ids."""
    fresh: dict[str, int] = field(default_factory=RecentThreads)
    """Threads whose agents want to start afresh, and the turn in which they said so."""

    async def log(self, reader: str, thread: str = "") -> LogReader:
        """The log of `thread`, the reader's own by default. Raises `Refusal`."""
        own = self._seen(reader).log
        if not thread or thread == reader:
            return own
        other = await own.of(thread)
        if other is None:
            raise Refusal(
                f"thread {thread!r} may not be read from here: it is neither a parent nor a child "
                "of this one, and the user has not allowed it (`recall_threads`)"
            )
        return other

    async def find(self, reader: str, text: str) -> Found:
        """What an id from a result or a summary stands for. Raises `Refusal`."""
        said = text.strip()
        if _NODE.fullmatch(said):
            return await self._node(reader, said)
        entries = _ENTRIES.fullmatch(said)
        if entries is None:
            raise Refusal(
                f"{text!r} is no id; give the id of a summary (sum_…), an entry "
                "(thread:seq or seq) or a range of entries (first-last)"
            )
        first = int(entries["first"])
        last = int(entries["last"] or first)
        if not 0 < first <= last:
            raise Refusal(f"{text!r} is no range; entries count from 1, the smaller one first")
        thread = entries["thread"] or reader
        log = await self.log(reader, thread)
        end = await log.end()
        if first > end:
            raise Refusal(f"thread {thread!r} ends with entry {end}; {text!r} lies behind it")
        return Found(log=log, thread=thread, spans=((first, min(last, end)),))

    def _seen(self, reader: str) -> Seen:
        seen = self.seen.get(reader)
        if seen is None:
            raise Refusal("the engine has not looked at this thread yet; try again next step")
        return seen

    async def _node(self, reader: str, name: str) -> Found:
        node = (await self.library.nodes([name])).get(name)
        if node is None:
            raise Refusal(f"there is no summary {name!r}; use an id that stands in the context")
        # What is shown, or was, is the reader's own past, whoever summarised it first.
        thread = reader if await self._is_own(reader, node) else node.thread
        log = await self.log(reader, thread)
        spans = node.spans or ((node.first, node.last),)
        return Found(log=log, thread=thread, spans=spans, node=node)

    async def _is_own(self, reader: str, node: SummaryNode) -> bool:
        """Whether a summary stands in the reader's view, or under one that it made or sees."""
        shown = self._seen(reader).nodes
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


async def records(found: Found) -> AsyncGenerator[Record, None]:
    """What was said in the entries that were found, read a page at a time."""
    for page in _pages(found.spans):
        for record in records_of(found.thread, await found.log.spans(page)):
            yield record


def _pages(spans: Iterable[tuple[int, int]]) -> Iterator[list[tuple[int, int]]]:
    """Stretches in portions of about a page, in order."""
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
