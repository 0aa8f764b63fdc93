"""Usages: what the answers in a log used, and who gave them.

Owns how a log is read for them: only its control entries, each once, and what one reading has
to leave for the next. Invariants: an answer counts in the thread that asked for it, in forks
of it no more, and also after it was rolled back; a request whose end nobody recorded is told,
with its usage unknown.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import aclosing

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from ..context.view import load_head
from ..core.entries import CompletionMark, Entry, Epoch, Head, Kind, ResponseMark, Rollback
from ..core.errors import NotFound, StoreError
from ..core.typed import decode_json
from ..store.contract import FindsKinds, Store, ThreadInfo
from ..store.counted_usage import Counted, CountsUsage, RequestUsage

__all__ = ["UsageCounter", "catch_up_usages", "thread_usages"]

_KINDS: frozenset[Kind] = frozenset({"epoch", "rollback", "request", "response", "completion"})
_PAGE = 512


class _Open(Struct, frozen=True, array_like=True):
    """A request whose end was not met yet."""

    seq: int
    turn: int
    time: int
    head: str
    purpose: str


class _State(Struct, array_like=True):
    """What is known between two readings of a log."""

    heads: list[tuple[int, str]] = field(default_factory=list)
    """The heads in force and where each began, the newest last; a rollback removes some."""
    open: list[_Open] = field(default_factory=list)


async def thread_usages(store: Store, thread: str, *, first: int = 1) -> list[RequestUsage]:
    """Return what the answers of a thread used, from the entry `first` on, oldest first."""
    counter = _Counter(store, thread, _State(), {})
    await counter.follow(1)
    left = [_unanswered(each, thread) for each in counter.state.open]
    found = await counter.rows(left)
    return [row for row in found if row.seq >= first]


async def catch_up_usages(store: Store, index: CountsUsage, infos: Sequence[ThreadInfo]) -> int:
    """Count in `index` what was answered since; return how many entries of logs were read."""
    known, heads, read = await index.usage_progress(), dict[str, Head](), 0
    for info in infos:
        before = known.get(info.id, Counted(0))
        if before.upto > info.last:
            # An older copy of the log was put back.
            await index.forget_usages(info.id)
            before = Counted(0)
        if before.upto == info.last:
            continue
        state = _decode(before.state)
        counter = _Counter(store, info.id, state, heads)
        try:
            await counter.follow(before.upto + 1, info.last)
            rows = await counter.rows()
        except NotFound:
            continue  # it was deleted meanwhile
        now = Counted(info.last, msgspec.json.encode(state))
        await index.add_usages(info.id, before.upto, rows, now)
        read += counter.entries
    return read


class UsageCounter:
    """Counts what the answers of one thread used, and goes on from where it was."""

    def __init__(self, store: Store, thread: str) -> None:
        self._store, self._thread = store, thread
        self._state = _State()
        self._heads: dict[str, Head] = {}
        self._upto = 0

    async def count(self, last: int) -> list[RequestUsage]:
        """Return what answers used that ended since, up to the entry `last`."""
        counter = _Counter(self._store, self._thread, self._state, self._heads)
        await counter.follow(self._upto + 1, last)
        self._upto = max(self._upto, last)
        return await counter.rows()


class _Counter:
    """Follows the control entries of one log."""

    def __init__(self, store: Store, thread: str, state: _State, heads: dict[str, Head]) -> None:
        self._store, self._thread, self._heads = store, thread, heads
        self._found: list[tuple[RequestUsage, str]] = []
        """What answers used, each with its head; an empty one says that the row knows by itself."""
        self.state = state
        self.entries = 0

    async def follow(self, first: int, last: int | None = None) -> None:
        """Meet the control entries from `first` to `last`."""
        async with aclosing(_controls(self._store, self._thread, first)) as pages:
            async for page in pages:
                for entry in page:
                    if last is not None and entry.seq > last:
                        return
                    self.entries += 1
                    self._meet(entry)

    async def rows(self, more: Iterable[tuple[RequestUsage, str]] = ()) -> list[RequestUsage]:
        """Return what was found, each with the names of its model."""
        named = [await self._name_model(row, head) for row, head in (*self._found, *more)]
        return sorted(named, key=lambda row: row.seq)

    async def _name_model(self, row: RequestUsage, digest: str) -> RequestUsage:
        if not digest:
            return row
        if digest not in self._heads:
            try:
                self._heads[digest] = await load_head(self._store, digest)
            except (NotFound, StoreError, msgspec.MsgspecError):
                return row  # damaged: nobody knows any more who was asked
        head = self._heads[digest]
        if row.model and (row.provider, row.model) != (head.provider, head.model):
            return row  # another model answered outside the conversation, in terms of its own
        return replace(
            row,
            provider=head.provider,
            model=head.model,
            service_tier=head.service_tier,
            cache_ttl=head.cache_ttl,
        )

    def _meet(self, entry: Entry) -> None:
        try:
            control = entry.control
        except StoreError:
            return  # damaged: its request stays without an end
        state = self.state
        match control:
            case Epoch(head=head) if head is not None:
                if self._head() != head:
                    state.heads.append((entry.seq, head))
            case Rollback(cut=cut):
                state.heads = [each for each in state.heads if each[0] < cut]
            case ResponseMark():
                self._meet_end(entry, control)
            case CompletionMark(purpose=purpose):
                self._open(entry, purpose or "completion")
            case _ if entry.kind == "request":
                self._close(entry)
                self._open(entry, "")

    def _open(self, entry: Entry, purpose: str) -> None:
        if entry.thread == self._thread:
            opened = _Open(entry.seq, entry.turn, entry.time, self._head(), purpose)
            self.state.open.append(opened)

    def _close(self, entry: Entry) -> None:
        """Give up what a new request shows to have ended without a word."""
        gone = [each for each in self.state.open if not each.purpose or each.turn < entry.turn]
        self._found += [_unanswered(each, self._thread) for each in gone]
        self.state.open = [each for each in self.state.open if each not in gone]

    def _meet_end(self, entry: Entry, mark: ResponseMark) -> None:
        self.state.open = [each for each in self.state.open if each.seq != mark.request]
        if entry.thread != self._thread or (mark.usage is None and mark.status == "failed"):
            return  # nobody charges for what was refused
        origin = entry.origin
        row = RequestUsage(
            thread=entry.thread,
            seq=entry.seq,
            turn=entry.turn,
            time=entry.time,
            provider=origin.provider if origin else "",
            model=origin.model if origin else "",
            purpose=mark.purpose,
            usage=mark.usage,
        )
        self._found.append((row, self._head()))

    def _head(self) -> str:
        return self.state.heads[-1][1] if self.state.heads else ""


def _unanswered(opened: _Open, thread: str) -> tuple[RequestUsage, str]:
    row = RequestUsage(
        thread=thread,
        seq=opened.seq,
        turn=opened.turn,
        time=opened.time,
        purpose=opened.purpose,
    )
    return row, opened.head


async def _controls(store: Store, thread: str, first: int) -> AsyncGenerator[list[Entry]]:
    while True:
        if isinstance(store, FindsKinds):
            page = found = await store.read_kinds(thread, _KINDS, first, limit=_PAGE)
        else:
            page = await store.read(thread, first, limit=_PAGE)
            found = [entry for entry in page if entry.kind in _KINDS]
        yield found
        if len(page) < _PAGE:
            return
        first = page[-1].seq + 1


def _decode(state: bytes) -> _State:
    return decode_json(state, _State) if state else _State()
